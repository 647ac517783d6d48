"""Control flow of every shape, compared with the same function in Python."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from cpp_harness import PREAMBLE, ops, run

from tilewright.frontend.cpp.module import CppKernel, Module
from tilewright.ir.errors import TileUnsupportedFeatureError

# name -> C++ body of a function (int a, int b) -> int, and the same in Python
CASES: dict[str, tuple[str, Callable[[int, int], int]]] = {}


def case(body: str) -> Callable[[Callable[[int, int], int]], Callable[[int, int], int]]:
    def add(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
        CASES[function.__name__] = (body, function)
        return function

    return add


@case("int s = 0; for (int i = 0; i < a; ++i) { if (i == b) continue; s += i; } return s;")
def skipping(a: int, b: int) -> int:
    return sum(i for i in range(a) if i != b)


@case(
    "using op = int (*)(int); op f = [](int x) { return x * 3; }; op g[2] = {f, [](int x) { return x + 7; }};"
    "auto twice = [](op h, int x) { return h(h(x)); }; return twice(f, a) - twice(g[1], b);"
)
def pointers_to_functions(a: int, b: int) -> int:
    return 9 * a - (b + 14)


@case("int s = 0; for (int i = 0; i < a; i += 3) { if (i > b) break; s += i * i; } return s;")
def breaking(a: int, b: int) -> int:
    s = 0
    for i in range(0, a, 3):
        if i > b:
            break
        s += i * i
    return s


@case("""int found = -1;
    for (int i = 0; i < a; ++i) for (int j = 0; j < a; ++j) if (i * j == b) { found = 100 * i + j; goto out; }
out:
    return found;""")
def finding_in_two_loops(a: int, b: int) -> int:
    for i in range(a):
        for j in range(a):
            if i * j == b:
                return 100 * i + j
    return -1


@case("""int s = 0;
    for (int i = 0; i < a; ++i) {
        for (int j = 0; j < b; ++j) { if (j == 2) { s += 1; break; } if (i + j == 7) goto out; s += j; }
        s += 10;
    }
    s += 1000;
out:
    return s;""")
def leaving_two_loops(a: int, b: int) -> int:
    s = 0
    for i in range(a):
        for j in range(b):
            if j == 2:
                s += 1
                break
            if i + j == 7:
                return s
            s += j
        s += 10
    return s + 1000


@case("""switch (a) { case 0: return b; case 1: b += 2; [[fallthrough]]; case 2: b *= 3; break;
    case 5: for (int i = 0; i < 4; ++i) b += i; break; default: b = -b; } return b + 1;""")
def switching(a: int, b: int) -> int:
    if a == 0:
        return b
    if a in (1, 2):
        return 3 * (b + 2 * (a == 1)) + 1
    return (b + 6 if a == 5 else -b) + 1


@case(
    "int s = 0; while (a != b) { if (a > b) a -= b ? b : 1; else b -= a ? a : 1; if (++s > 20) { s = -s; break; } } return s;"
)
def subtracting(a: int, b: int) -> int:
    s = 0
    while a != b:
        if a > b:
            a -= b or 1
        else:
            b -= a or 1
        s += 1
        if s > 20:
            return -s
    return s


@case(
    "int s = a; do { s = s * 2 + 1; if (s % 5 == 0) { s += b; continue; } ++b; } while (b < 6 && s < 200); return s + b;"
)
def doing(a: int, b: int) -> int:
    s = a
    while True:
        s = s * 2 + 1
        if s % 5 == 0:
            s += b
        else:
            b += 1
        if not (b < 6 and s < 200):
            return s + b


@case(
    "if ((a > 2 && b > 3) || (a == b && a != 1) || b == 6) return a * 7 - b; else if (a < 1 || b < 1) return 5; return 6;"
)
def short_circuits(a: int, b: int) -> int:
    if (a > 2 and b > 3) or (a == b and a != 1) or b == 6:
        return a * 7 - b
    return 5 if a < 1 or b < 1 else 6


@case("""int s = 0;
    for (auto i : ct::irange(1, a + 1)) {
        int k = i;
        while (true) { if (k % 2) break; k /= 2; if (k == b) { s += 100; goto next; } }
        s += k;
    next:;
    }
    return s;""")
def loops_in_loops(a: int, b: int) -> int:
    s = 0
    for i in range(1, a + 1):
        k, jumped = i, False
        while k % 2 == 0:
            k //= 2
            if k == b:
                jumped = True
                break
        s += 100 if jumped else k
    return s


@case("""int x = 0, y = 1; for (int i = 0; i < a; ++i) { int t = x; x = y; y = t + y; } return x * 10 + (b ? x : y);""")
def swapping(a: int, b: int) -> int:
    x, y = 0, 1
    for _ in range(a):
        x, y = y, x + y
    return x * 10 + (x if b else y)


@case("unsigned s = 0; for (unsigned i = a; i-- > 0u;) s = s * 31u + (i ^ (unsigned)b); return (int)(s >> 3) & 0xffff;")
def unsigned_numbers(a: int, b: int) -> int:
    s = 0
    for i in reversed(range(a)):
        s = (s * 31 + (i ^ b)) & 0xFFFFFFFF
    return s >> 3 & 0xFFFF


@case("bool odd = a & 1; return (a ^ 1) * 1000 + (b ^ 2) * 100 + ~a + (odd ^ true) * 10 + (odd != (b > 3));")
def bits(a: int, b: int) -> int:
    return (a ^ 1) * 1000 + (b ^ 2) * 100 + ~a + (1 - a % 2) * 10 + (bool(a & 1) != (b > 3))


@pytest.fixture(scope="module")
def kernels() -> dict[str, CppKernel]:
    parts = []
    for name, (body, _) in CASES.items():
        parts.append(f"__tile__ int {name}_(int a, int b) {{\n{body}\n}}")
        parts.append(f"__tile_global__ void {name}(int* out, int a) {{ int b = ct::bid().x; out[b] = {name}_(a, b); }}")
    names = list(CASES)
    return dict(zip(names, Module(PREAMBLE + "\n".join(parts), "control.cu").load(*names)))


@pytest.mark.parametrize("name", CASES)
def test_function(kernels: dict[str, CppKernel], name: str) -> None:
    expected = CASES[name][1]
    for a in range(9):
        out = np.zeros(7, np.int32)
        run(kernels[name], (7,), out, a)
        assert out.tolist() == [expected(a, b) for b in range(7)], f"a = {a}"


def test_plain_counting_becomes_for(kernels: dict[str, CppKernel]) -> None:
    assert ops(kernels["skipping"])["for"] == 1
    assert ops(kernels["swapping"])["for"] == 1
    assert ops(kernels["breaking"])["loop"] == 1  # ``for`` has no break


def test_long_and_deep_kernels() -> None:
    many = "".join(f"if (a > {i}) p[{i}] = a; else p[{i}] = -{i};" for i in range(400))
    deep = "".join(f"if (p[{i}] > a) {{ p[{i}] = {i};" for i in range(600)) + "}" * 600
    module = Module(f"{PREAMBLE}__tile_global__ void many(int* p, int a) {{ {many} }}", "many.cu")
    out = np.zeros(400, np.int32)
    run(module.kernel("many"), (1,), out, 7)
    assert out.tolist() == [7] * 7 + [-i for i in range(7, 400)]
    with pytest.raises(TileUnsupportedFeatureError, match="nested too deeply"):
        Module(f"{PREAMBLE}__tile_global__ void deep(int* p, int a) {{ {deep} }}", "deep.cu").kernel("deep")


@pytest.mark.parametrize("shape", [(4,), (32,), (3, 8)])
def test_arrays_of_tiles_in_loops_of_constant_length(shape: tuple[int, ...]) -> None:
    size, rank = math.prod(shape), len(shape)
    loops = " ".join(f"for (int i{d} = 0; i{d} < {length}; ++i{d})" for d, length in enumerate(shape))
    element = "acc" + "".join(f"[i{d}]" for d in range(rank))
    position = "i0" if rank == 1 else f"({shape[1]} * i0 + i1)"
    body = f"""
    using T = ct::tile<float, ct::shape<8>>;
    T acc{"".join(f"[{length}]" for length in shape)};
    {loops} {element} = ct::zeros<T>();
    for (int j = 0; j < n; ++j)
        {loops} {element} = {element} + ct::load(p + 8 * ({size} * j + {position}) + ct::iota<ct::tile<int, ct::shape<8>>>());
    T s = ct::zeros<T>();
    {loops} s = s + {element} * T(ct::full<T>({position}));
    ct::store(out + ct::iota<ct::tile<int, ct::shape<8>>>(), s);"""
    kernel = Module(f"{PREAMBLE}__tile_global__ void k(float* p, float* out, int n) {{ {body} }}", "arrays.cu").kernel(
        "k"
    )
    for n in range(3):
        p, out = np.arange(16 * size, dtype=np.float32) % 7, np.zeros(8, np.float32)
        run(kernel, (1,), p, out, n)
        sums = p[: 8 * size * n].reshape(n, size, 8).sum(0)
        np.testing.assert_array_equal(out, (sums * np.arange(size)[:, None]).sum(0))


COUNTING = {
    "computed bound": ("for (int i = 0; i < (n + 3) / 4; ++i)", lambda n: range((n + 3) // 4)),
    "upper bound included": ("for (int i = 1; i <= n; ++i)", lambda n: range(1, n + 1)),
    "unsigned steps": ("for (unsigned i = 2; i < unsigned(n); i += 3)", lambda n: range(2, n, 3)),
    "until the bound": ("for (int i = 0; i != n; ++i)", lambda n: range(n)),
    "lesser of two": ("for (int i = 0; i < (n < 5 ? n : 5); ++i)", lambda n: range(min(n, 5))),
    "bound first": ("for (int i = 0; n > i; i += 2)", lambda n: range(0, n, 2)),
    "bound first, included": ("for (int i = 0; n >= i; i += 2)", lambda n: range(0, n + 1, 2)),
    "range": ("for (auto i : ct::irange(2, n / 2))", lambda n: range(2, n // 2)),
}


def test_loops_that_count_become_for() -> None:
    sources = [
        f"__tile_global__ void k{number}(int* out, int n) {{ int s = 0; {loop} s += 1 + int(i); *out = s; }}"
        for number, (loop, _) in enumerate(COUNTING.values())
    ]
    kernels = Module(PREAMBLE + "\n".join(sources)).load(*(f"k{number}" for number in range(len(COUNTING))))
    for kernel, (loop, numbers) in zip(kernels, COUNTING.values()):
        assert ops(kernel)["for"] == 1, loop
        for n in (0, 1, 7, 12):
            run(kernel, (1,), out := np.zeros(1, np.int32), n)
            assert out[0] == sum(1 + i for i in numbers(n)), (loop, n)


def test_what_loops_share_is_computed_before_them() -> None:
    source = """
    __tile_global__ void k(int* p, short n, int m) {
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < m; ++j)
                if (p[i] > j) p[i] = p[j] + long(n) + (long(n) << 3);
    }"""
    kernel = Module(PREAMBLE + source).kernel("k")
    (loop,) = (op for op in kernel.function.body.ops if op.name == "for")
    assert [op.name for op in kernel.function.body.ops].count("shl") == 1
    assert "shl" not in {op.name for op in loop.regions[0].walk()}
    run(kernel, (1,), np.arange(5, dtype=np.int32), 3, 5)
