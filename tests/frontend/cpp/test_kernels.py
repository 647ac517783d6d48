"""Whole kernels in Tile C++: views, pointers, loops, conditions, matrix products, atomics, hints."""

from __future__ import annotations

import numpy as np
import pytest
from cpp_harness import PREAMBLE, launch, ops, run

import tilewright as ct
from tilewright.backends.registry import get_backend
from tilewright.frontend.cpp.module import CppKernel, Module
from tilewright.ir.dtypes import float16, float32, int32, uint64
from tilewright.ir.errors import TileError
from tilewright.ir.hints import ByTarget
from tilewright.ir.types import PointerType

SOURCE = (
    PREAMBLE
    + """
__tile_global__ void add(float* __restrict__ x, float const* __restrict__ y, float* __restrict__ out, int n) {
    x = ct::assume_aligned(x, 16_ic);
    auto view = [n](auto* p) { return ct::partition_view{ct::tensor_span{p, ct::extents{n}}, ct::shape{16_ic}}; };
    int i = ct::bid().x;
    view(out).store_masked(view(x).load_masked(i) + view(y).load_masked(i), i);
}

template <typename T, int N>
__tile_global__ void scale(T* p, T factor) {
    auto at = p + ct::bid().x * N + ct::iota<ct::tile<int, ct::shape<N>>>();
    ct::store(at, factor * ct::load(at));
}

namespace linear { namespace {
__tile_global__ void product(__half const* a, __half const* b, float* c, size_t m, size_t k, size_t n) {
    auto A = ct::partition_view{ct::tensor_span{a, ct::extents{m, k}}, ct::shape{16_ic, 8_ic}};
    auto B = ct::partition_view{ct::tensor_span{b, ct::extents{k, n}}, ct::shape{8_ic, 16_ic}};
    auto C = ct::partition_view{ct::tensor_span{c, ct::extents{m, n}}, ct::shape{16_ic, 16_ic}};
    auto [row, column, ignored] = ct::bid();
    auto sum = ct::zeros<ct::tile<float, ct::shape<16, 16>>>();
    for (auto i : ct::irange(size_t{0}, (k + 7) / 8))
        sum = ct::mma(A.load_masked(row, i), B.load_masked(i, column), sum);
    C.store_masked(sum, row, column);
}
} }

__tile_global__ void guarded(int* in, int* out, int n) {
    auto at = 8 * (int)ct::bid().x + ct::iota<ct::tile<int, ct::shape<8>>>();
    auto inside = at < n;
    ct::store_masked(out + at, ct::load_masked(in + at, inside, -1), inside);
}

__tile_global__ void total(int* in, int* out, size_t n) {
    auto view = ct::partition_view{ct::tensor_span{in, ct::extents{n}}, ct::shape{16_ic}};
    auto part = ct::sum(view.load_masked(ct::bid().x), 0_ic);
    ct::atomic_add(out, (int)part, ct::memory_order_relaxed_t{}, ct::thread_scope_device_t{});
}

template <size_t... N> struct numbers {};
template <int Wide>
[[ cutile::hint(0, occupancy = Wide / 2) ]]
[[ using cutile : hint(900, num_cta_in_cga = 2),   // comments stay out of it
   hint(1000, num_cta_in_cga = 4, unknown = 3) ]]
__tile_global__ void hinted(float* p, float* out) {
    auto at = ct::iota<ct::tile<int, ct::shape<8>>>();
    auto view = ct::partition_view{ct::tensor_span{p, ct::extents{64_ic}}, ct::shape{8_ic}};
    ct::tile<float, ct::shape<8>> x, y, z;
    [[ cutile::hint(0, latency = 4, latency = 5) ]] [[ cutile::hint(900, latency = Wide) ]]
    x = ct::load(p + at) + ct::load(p + at);
    [[ cutile::hint(0, allow_tma = false, latency = 11) ]]
    y = view.load(1);
    [[ cutile::hint(0, latency = 3) ]]
    auto w = ct::load(p + at);
    z = view.load(2);
    [[ cutile::hint(0, latency = 2) ]] ct::store(out + at, x + y + z + w);
}
"""
)


@pytest.fixture(scope="module")
def kernels() -> dict[str, CppKernel]:
    names = ["add", "scale<float, 8>", "scale<long, 4>", "linear::product", "guarded", "total", "hinted<8>"]
    return dict(zip(names, Module(SOURCE, "kernels.cu").load(*names)))


def test_views_with_a_partial_tile(kernels: dict[str, CppKernel]) -> None:
    x, y = np.arange(40, dtype=np.float32), np.arange(40, dtype=np.float32) ** 2
    out = np.zeros(40, np.float32)
    run(kernels["add"], (3,), x, y, out, 40)
    np.testing.assert_array_equal(out, x + y)


def test_parameters_have_the_names_and_types_of_the_source(kernels: dict[str, CppKernel]) -> None:
    found = [(p.name, p.type) for p in kernels["linear::product"].parameters]
    half, single = PointerType(float16), PointerType(float32)
    assert found == [("a", half), ("b", half), ("c", single), ("m", uint64), ("k", uint64), ("n", uint64)]
    assert kernels["add"].parameters[3].type is int32
    assert kernels["linear::product"].function.name == "linear::product"


@pytest.mark.parametrize(("name", "dtype"), [("scale<float, 8>", np.float32), ("scale<long, 4>", np.int64)])
def test_templates_are_instantiated_by_expression(kernels: dict[str, CppKernel], name: str, dtype: type) -> None:
    p = np.arange(16, dtype=dtype)
    run(kernels[name], (2,), p, 3)
    touched = 16 if name == "scale<float, 8>" else 8
    np.testing.assert_array_equal(p, np.where(np.arange(16) < touched, 3, 1) * np.arange(16))


def test_matrix_product_in_a_counted_loop(kernels: dict[str, CppKernel]) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (24, 20)).astype(np.float16)
    b = rng.integers(-4, 5, (20, 17)).astype(np.float16)
    c = np.zeros((24, 17), np.float32)
    run(kernels["linear::product"], (2, 2), a, b, c, 24, 20, 17)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    assert ops(kernels["linear::product"])["for"] == 1
    assert ops(kernels["linear::product"])["loop"] == 0


def test_masked_gather_and_scatter(kernels: dict[str, CppKernel]) -> None:
    source, out = np.arange(1, 21, dtype=np.int32), np.zeros(20, np.int32)
    run(kernels["guarded"], (3,), source, out, 20)
    np.testing.assert_array_equal(out, source)


def test_reduction_and_atomic(kernels: dict[str, CppKernel]) -> None:
    source, out = np.arange(50, dtype=np.int32), np.zeros(1, np.int32)
    run(kernels["total"], (4,), source, out, 50)
    assert out[0] == source.sum()


def test_hints_reach_the_kernel_and_the_memory_operations(kernels: dict[str, CppKernel]) -> None:
    function = kernels["hinted<8>"].function
    assert function.hints == {"occupancy": 4, "num_ctas": ByTarget(sm_90=2, sm_100=4)}
    memory = [op for op in function.walk() if op.name in ("load", "store", "load_view")]
    found = [(op.name, op.attributes["latency"], op.attributes.get("allow_tma")) for op in memory]
    both = ByTarget(default=5, sm_90=8)
    assert found == [
        ("load", both, None),
        ("load", both, None),
        ("load_view", None, False),  # a latency of 11 does not exist
        ("load", None, None),  # a declaration is no expression statement
        ("load_view", None, None),
        ("store", 2, None),
    ]


def test_locations_are_those_of_the_user(kernels: dict[str, CppKernel]) -> None:
    for op in kernels["add"].function.walk():
        assert all(frame.file == "kernels.cu" for frame in op.loc.chain()), op
    load = next(op for op in kernels["add"].function.walk() if op.name == "load_view")
    text = SOURCE.splitlines()[load.loc.line - 1]
    assert "load_masked" in text
    assert "load_masked" in text[load.loc.column :]


def test_kernels_lists_what_is_no_template() -> None:
    instances = "template <typename T> __tile_global__ void fill(T* p) { *p = T(1); }\ntemplate __tile_global__ void fill<int>(int*);\n"
    assert Module(SOURCE + instances, "kernels.cu").kernels == ("add", "linear::product", "guarded", "total")


def test_only_tile_kernels_are_handed_out() -> None:
    module = Module(PREAMBLE + "void host(int* p) {}\n__tile__ void part(int* p) {}", "user.cu")
    with pytest.raises(TileError, match="not a tile kernel"):
        module.kernel("host")
    with pytest.raises(TileError, match="does not name a kernel"):
        module.kernel("part + 1")
    with pytest.raises(TileError, match="missing"):
        module.kernel("missing")


def test_overloaded_kernels_are_told_apart_by_their_parameters() -> None:
    kernel = "template <typename T> __tile_global__ void fill(T* p, T x) { *p = x; } "
    kernel += "__tile_global__ void fill(int* p) { *p = 7; } __tile_global__ void fill(float* p) { *p = 0.5f; }"
    module = Module(PREAMBLE + kernel, "user.cu")
    number, fraction = np.zeros(1, np.int32), np.zeros(1, np.float32)
    run(module.kernel("fill(int*)"), (1,), number)
    run(module.kernel("fill(float*)"), (1,), fraction)
    assert (number[0], fraction[0]) == (7, 0.5)
    run(module.kernel("fill<int>(int*, int)"), (1,), number, 9)
    assert number[0] == 9
    with pytest.raises(TileError) as caught:
        module.kernel("fill")
    assert caught.value.loc is not None
    assert caught.value.loc.file == "kernel fill"


def test_simt_kernels_and_launches_are_left_alone() -> None:
    text = """
    __global__ void simt(int* p) {
        if (threadIdx.x == 0) { p[blockIdx.x] = 1; }  // } not a brace
        __syncthreads();
    }
    __tile_global__ void tile_kernel(int* p) { *p = 3; }
    template <typename T> __host__ void start(T* host, size_t n) {
        T* p;
        cudaMalloc(&p, n * sizeof(T));
        cudaMemcpy(p, host, n * sizeof(T), cudaMemcpyHostToDevice);
        simt<<<dim3(4, 2), 32>>>(p);
        if (n > 3) tile_kernel<<<1, 1>>>(p);
        cudaFree(p);
    }
    int main() { int x[4] = {}; start(x, 4); return cudaDeviceSynchronize(); }
    """
    module = Module(PREAMBLE + text, "user.cu")
    assert module.kernels == ("tile_kernel",)
    out = np.zeros(1, np.int32)
    run(module.kernel("tile_kernel"), (1,), out)
    assert out[0] == 3
    with pytest.raises(TileError, match="simt is a SIMT kernel, which is left alone"):
        module.kernel("simt")


ATTENTION = """
template <int BM, int BN, int D>
__tile_global__ void attention(__half const* __restrict__ q, __half const* __restrict__ k, __half const* __restrict__ v, float* __restrict__ o, int n, float scale) {
    auto Q = ct::partition_view{ct::tensor_span{q, ct::extents{n, ct::integral_constant<D>{}}}, ct::shape<BM, D>{}};
    auto K = ct::partition_view{ct::tensor_span{k, ct::extents{n, ct::integral_constant<D>{}}}, ct::shape<BN, D>{}};
    auto V = ct::partition_view{ct::tensor_span{v, ct::extents{n, ct::integral_constant<D>{}}}, ct::shape<BN, D>{}};
    auto O = ct::partition_view{ct::tensor_span{o, ct::extents{n, ct::integral_constant<D>{}}}, ct::shape<BM, D>{}};
    int bx = ct::bid().x;
    auto acc = ct::zeros<ct::tile<float, ct::shape<BM, D>>>();
    auto m = ct::full<ct::tile<float, ct::shape<BM, 1>>>(-1e30f);
    auto l = ct::zeros<ct::tile<float, ct::shape<BM, 1>>>();
    auto qt = Q.load_masked(bx, 0);
    auto cols = ct::iota<ct::tile<int, ct::shape<1, BN>>>();
    for (int j : ct::irange(0, (n + BN - 1) / BN)) {
        auto s = ct::mma(qt, ct::transpose(K.load_masked(j, 0)), ct::zeros<ct::tile<float, ct::shape<BM, BN>>>()) * scale;
        s = ct::select(cols + j * BN < n, s, ct::full<decltype(s)>(-1e30f));
        auto m2 = ct::max(m, ct::reduce_max(s, 1_ic));
        auto p = ct::exp(s - m2);
        auto alpha = ct::exp(m - m2);
        l = l * alpha + ct::sum(p, 1_ic);
        acc = ct::mma(ct::element_cast<__half>(p), V.load_masked(j, 0), acc * alpha);
        m = m2;
    }
    O.store_masked(acc / l, bx, 0);
}
"""


def test_attention() -> None:
    kernel = Module(PREAMBLE + ATTENTION, "attention.cu").kernel("attention<16, 32, 64>")
    assert (ops(kernel)["for"], ops(kernel)["mma"], ops(kernel)["loop"]) == (1, 2, 0)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((50, 64)).astype(np.float16) for _ in range(3))
    out = np.zeros((50, 64), np.float32)
    launch(get_backend("cpu"), kernel, (4,), q, k, v, out, 50, 0.125)
    scores = np.exp(0.125 * q.astype(np.float32) @ k.astype(np.float32).T)
    want = scores / scores.sum(1, keepdims=True) @ v.astype(np.float32)
    np.testing.assert_allclose(out, want, atol=1e-3)


def test_names_beyond_ascii_on_gpus() -> None:
    text = f"{PREAMBLE}__tile_global__ void ärger$(float* p) {{ ct::store(p, 1.0f); }}"
    kernel = ct.cpp.compile(text, name="names.cu").kernel("ärger$")
    with ct.use_backend("gpu"):
        compiled = kernel.compile_for("sm_90", (np.zeros(1, np.float32),))
    assert ".entry _rger_(" in compiled.executable.stages()["PTX"]
