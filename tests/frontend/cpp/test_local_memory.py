"""Arrays and structs of a block: what has an address lives in memory of the block."""

from __future__ import annotations

import numpy as np
import pytest
from cpp_harness import PREAMBLE, ops, refused, run

from tilewright.frontend.cpp.module import CppKernel, Module

SOURCE = (
    PREAMBLE
    + """
using i4 = ct::tile<int, ct::shape<4>>;
__tile_global__ void indexed(int* out, int n) {
    int a[4] = {5, 6, 7, 8};
    a[n & 3] += 10;
    for (int i = 0; i < n; ++i) a[(i * i) & 3] -= i;
    ct::store(out + ct::iota<i4>(), ct::load(a + ct::iota<i4>()));
}
__tile_global__ void stored(float* out) {
    float a[8];
    ct::store(a + ct::iota<ct::tile<int, ct::shape<8>>>(), ct::element_cast<float>(ct::iota<ct::tile<int, ct::shape<8>>>()));
    a[3] = 0.5f;
    for (int i = 0; i < 8; ++i) out[i] = a[i] + (ct::bid().x ? 100 : 0);
}
struct record { signed char tag; double weight; int counts[3]; __half half; };
__tile_global__ void structs(double* out, int n) {
    record r[3] = {};
    r[n % 3].weight = 2.5; r[n % 3].counts[n & 1] = 7; r[1].tag = -3; r[2].half = __half(1.5f);
    double sum = 0;
    for (int i = 0; i < 3; ++i) sum += r[i].weight * 10 + r[i].tag;
    record copy = r[n % 3];
    record* where = n > 3 ? &copy : &r[0];
    where->counts[2] += n;
    ct::store(&out[0], sum);
    out[1] = copy.counts[0] + 10 * copy.counts[1] + 100 * copy.counts[2];
    out[2] = (double)ct::tile<double, ct::shape<>>(ct::element_cast<double>(ct::load(&r[2].half)));
    out[3] = sizeof(record) + (&r[2].weight - &r[0].weight);
    ct::store(&copy.tag, (signed char)-9);
    out[4] = copy.tag;
}
constexpr short table[6] = {10, 20, 30, 40, 50, 60};
__tile_global__ void tables(short* out, int n) {
    static const short weights[2][3] = {{1, 2, 3}, {4, 5, 6}};
    static constexpr float none[16] = {};
    out[0] = table[n]; out[1] = weights[n & 1][n % 3]; out[2] = none[n] + (short)"text"[n % 4];
    auto all = ct::load(table + 2 + ct::iota<i4>());
    out[3] = (short)ct::sum(all, 0_ic);
}
__tile_global__ void pointers(int* a, int* b, int n) {
    int own[2] = {1, 2};
    int* all[3] = {a, b, own};
    ct::store(all[n] + 1, 77);
    a[0] = own[1];
}
struct pair { int first; float second; };
__tile_global__ void chosen(int* out, int n) {
    pair p = n > 2 ? pair{n, 0.5f} : pair{-n, 1.5f};
    for (int i = 0; i < n; ++i) p = pair{p.first + (int)(p.second * 2), p.second + 1};
    out[0] = p.first; out[1] = p.second * 2;
}
__tile_global__ void atomics(int* out) {
    int sum = 0;
    ct::atomic_add(&sum + 0 * ct::iota<i4>(), ct::iota<i4>(), ct::memory_order_relaxed_t{});
    out[ct::bid().x] = sum;
}
__tile_global__ void filled(unsigned char* out, int n) {
    unsigned char bytes[13];
    for (int i = 0; i < 13; ++i) bytes[i] = 0;
    __builtin_memset(bytes + 3, 9, 7);
    unsigned char more[13];
    __builtin_memcpy(more, bytes, 13);
    more[n] = 1;
    for (int i = 0; i < 13; ++i) out[i] = more[i];
}
"""
)
NAMES = ("indexed", "stored", "structs", "tables", "pointers", "chosen", "atomics", "filled")


@pytest.fixture(scope="module")
def kernels() -> dict[str, CppKernel]:
    return dict(zip(NAMES, Module(SOURCE).load(*NAMES)))


@pytest.mark.parametrize("n", [0, 3, 6])
def test_arrays_indexed_at_run_time(kernels: dict[str, CppKernel], n: int) -> None:
    want = [5, 6, 7, 8]
    want[n & 3] += 10
    for i in range(n):
        want[(i * i) & 3] -= i
    run(kernels["indexed"], (1,), out := np.zeros(4, np.int32), n)
    assert out.tolist() == want


def test_tiles_go_through_local_arrays(kernels: dict[str, CppKernel]) -> None:
    run(kernels["stored"], (1,), out := np.zeros(8, np.float32))
    assert out.tolist() == [0, 1, 2, 0.5, 4, 5, 6, 7]
    assert ops(kernels["stored"])["local_array"] == 1


@pytest.mark.parametrize("n", [1, 5])
def test_structs_keep_their_layout(kernels: dict[str, CppKernel], n: int) -> None:
    run(kernels["structs"], (1,), out := np.zeros(5), n)
    counts = [0, 0, n if n > 3 else 0]
    counts[n & 1] = 7
    expected = counts[0] + 10 * counts[1] + 100 * counts[2]
    assert out.tolist() == [25 - 3, expected, 1.5, 32 + 8, -9]


def test_constant_tables(kernels: dict[str, CppKernel]) -> None:
    run(kernels["tables"], (1,), out := np.zeros(4, np.int16), 5)
    assert out.tolist() == [60, 6, ord("e"), 180]


def test_pointers_walk_through_constant_tables() -> None:
    body = """
        static constexpr float weights[] = {1, 2, 4, 0};
        int hash = 0;
        for (char const* c = "hello"; *c; ++c) hash = hash * 31 + *c;
        for (float const* w = weights + 1; *w; ++w) hash += int(*w);
        *out = hash;
    """
    kernel = Module(f"{PREAMBLE} __tile_global__ void k(int* out) {{ {body} }}").kernel("k")
    run(kernel, (1,), out := np.zeros(1, np.int32))
    assert out[0] == 99162322 + 6


@pytest.mark.parametrize("n", [0, 1, 2])
def test_arrays_of_pointers(kernels: dict[str, CppKernel], n: int) -> None:
    a, b = np.zeros(2, np.int32), np.zeros(2, np.int32)
    run(kernels["pointers"], (1,), a, b, n)
    assert a.tolist() == [77 if n == 2 else 2, 77 if n == 0 else 0]
    assert b.tolist() == [0, 77 if n == 1 else 0]


@pytest.mark.parametrize("n", [1, 4])
def test_structs_merge_at_run_time(kernels: dict[str, CppKernel], n: int) -> None:
    first, second = (n, 0.5) if n > 2 else (-n, 1.5)
    for _ in range(n):
        first, second = first + int(second * 2), second + 1
    run(kernels["chosen"], (1,), out := np.zeros(2, np.int32), n)
    assert out.tolist() == [first, int(second * 2)]


def test_each_block_has_memory_of_its_own(kernels: dict[str, CppKernel]) -> None:
    run(kernels["atomics"], (40,), out := np.zeros(40, np.int32))
    assert out.tolist() == [6] * 40


def test_memory_is_filled_and_copied(kernels: dict[str, CppKernel]) -> None:
    run(kernels["filled"], (1,), out := np.zeros(13, np.uint8), 5)
    assert out.tolist() == [0, 0, 0, 9, 9, 1, 9, 9, 9, 9, 0, 0, 0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("int a[n]; a[0] = 1; p[0] = ct::load(a);", "a length that is known at compile time"),
        ("int a[1 << 20]; a[n] = 1; p[0] = a[n + 1];", "1048576 bytes at most"),
        ("ct::tile<int, ct::shape<2>> t[4]; ct::store(p, (int)ct::sum(t[n], 0_ic));", "indexed at run time"),
    ],
)
def test_what_cannot_be_local(body: str, words: str) -> None:
    assert words in refused(body).message


def test_restrict_is_a_promise_of_the_parameter() -> None:
    text = "__tile_global__ void k(int* a, int* __restrict__ b, int const* __restrict__ c) { a[0] = b[0] + c[0]; }"
    function = Module(PREAMBLE + text).kernel("k").function
    assert [(p.argument, p.no_alias) for p in function.params] == [("a", False), ("b", True), ("c", True)]


def test_numbers_written_through_another_type_keep_their_bits() -> None:
    source = """
    __tile_global__ void k(int* p, float* q, short* h) {
        *reinterpret_cast<float*>(p) = 1.0f;
        *(float*)(p + 1) = float(p[2]);
        *(int*)q = 0x40000000;
        *(__half*)h = __half(1.0f);
        void* raw = p + 4;
        *static_cast<double*>(raw) = 2.0;
    }"""
    numbers, floats, halves = np.full(6, 7, np.int32), np.zeros(1, np.float32), np.zeros(1, np.int16)
    run(Module(PREAMBLE + source).kernel("k"), (1,), numbers, floats, halves)
    assert numbers[:2].view(np.float32).tolist() == [1, 7]
    assert (floats[0], halves.view(np.float16)[0]) == (2, 1)
    assert numbers[4:].tobytes() == np.float64(2).tobytes()
