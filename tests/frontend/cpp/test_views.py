"""Views over generated extents, layouts and tile shapes, over types of the user, and far from their base."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import numpy as np
from cpp_harness import C_TYPES, PREAMBLE, launch, run

from tilewright.backends.registry import get_backend
from tilewright.frontend.cpp.module import Module

INDEX_TYPES = ("signed char", "unsigned short", "int", "unsigned", "long", "unsigned long long")
PADDINGS = {"zero": 0.0, "negative_zero": -0.0, "positive_inf": np.inf, "negative_inf": -np.inf, "nan": np.nan}
FLOATS = ("float16", "float32", "float64")


@dataclass
class Case:
    """A view: ``lengths`` and ``strides`` of the array, ``tile`` its shape, ``arguments`` the lengths of run time."""

    name: str
    source: str
    lengths: list[int]
    strides: list[int]
    tile: list[int]
    dtype: str
    padding: str
    arguments: list[int]


class Generator:
    """Draws views; the numbers that it makes dynamic become parameters of the kernel."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.arguments: list[int] = []

    def parameter(self, value: int) -> str:
        self.arguments.append(value)
        return f"a{len(self.arguments) - 1}"

    def extents(self, index: str, values: list[int]) -> tuple[str, str]:
        """A type and an object of it; the object may be told all values, or only those that are dynamic."""
        dynamic = [self.random.random() < 0.5 for _ in values]
        type = f"ct::extents<{', '.join([index, *('ct::dynamic_extent' if d else str(v) for v, d in zip(values, dynamic))])}>"
        every = any(dynamic) and self.random.random() < 0.3
        return type, f"{type}({', '.join(self.parameter(v) for v, d in zip(values, dynamic) if d or every)})"

    def case(self, name: str) -> Case:
        draw = self.random.choice
        rank, index = draw((0, 1, 1, 2, 2, 3, 4)), draw(INDEX_TYPES)
        lengths = [draw((1, 2, 3, 4, 5)) for _ in range(rank)]
        tile = [draw((1, 2, 4)) for _ in range(rank)]
        self.arguments = []
        type, shape = self.extents(index, lengths)
        layout = draw(("right", "left", "right_padded", "left_padded", "strided"))
        padded = list(lengths)
        if layout.endswith("padded"):
            alignment = draw((1, 2, 3, 4))
            if rank:
                k = -1 if layout.startswith("right") else 0
                padded[k] = -(-padded[k] // alignment) * alignment
            given = self.parameter(alignment) if draw((True, False)) else f"{alignment}_ic"
            mapping = f"ct::layout_{layout}_mapping{{{shape}, {given}}}"
        elif layout == "strided":
            strides, step = [0] * rank, draw((1, 2))
            for k in self.random.sample(range(rank), rank):
                strides[k], step = step, step * lengths[k] + draw((0, 1))
            stride_type, stride_values = self.extents(index, strides)
            mapping = f"ct::layout_strided_mapping<{type}, {stride_type}>{{{shape}, {stride_values}}}"
        else:
            mapping = f"ct::layout_{layout}_mapping<{type}>{{{shape}}}"
        if layout.startswith("right"):
            strides = [int(np.prod(padded[k + 1 :])) for k in range(rank)]
        elif layout.startswith("left"):
            strides = [int(np.prod(padded[:k])) for k in range(rank)]
        dtype = draw((*FLOATS, "int8", "uint16", "int32", "int64", "bool"))
        padding = draw(tuple(PADDINGS)) if dtype in FLOATS else "zero"
        source = self.kernel(name, C_TYPES[dtype], mapping, f"ct::shape<{', '.join(map(str, tile))}>", padding, rank)
        return Case(name, source, lengths, strides, tile, dtype, padding, self.arguments)

    def kernel(self, name: str, element: str, mapping: str, tile: str, padding: str, rank: int) -> str:
        draw = self.random.choice
        indices = [f"i{k}" for k in range(rank)]
        plain, more = ", ".join(indices), "".join(f", {i}" for i in indices)
        load = draw(
            (
                f"load_masked(ct::view_padding_{padding}_t{{}}{more})",
                f"load_masked<ct::view_padding::{padding}>({plain})",
                f"atomic_load_masked(ct::view_padding_{padding}_t{{}}, ct::memory_order_acquire_t{{}}{more})",
                f"atomic_load_masked<ct::view_padding::{padding}, ct::memory_order::relaxed, ct::thread_scope::block>({plain})",
            )
        )
        store = draw(
            (
                f"store_masked(r{more})",
                f"atomic_store_masked(r, ct::memory_order_release_t{{}}{more})",
                f"atomic_store_masked(r, ct::memory_order_relaxed_t{{}}, ct::thread_scope_device_t{{}}{more})",
                f"atomic_store_masked<ct::memory_order::relaxed>(r{more})",
            )
        )
        parameters = [f"int a{k}" for k in range(len(self.arguments))] + [
            f"{draw(('int', 'unsigned', 'long'))} {i}" for i in indices
        ]
        return f"""__tile_global__ void {name}({element}* in, {element}* out, {element}* back{"".join(f", {p}" for p in parameters)}) {{
            auto m = {mapping};
            auto r = ct::partition_view{{ct::tensor_span{{in, m}}, {tile}{{}}}}.{load};
            ct::store(out + ct::iota<ct::tile<int, {tile}>>(), r);
            ct::partition_view{{ct::tensor_span{{back, m}}, {tile}{{}}}}.{store};
        }}"""


def test_generated_views() -> None:
    generator = Generator(1)
    cases = [generator.case(f"k{i}") for i in range(16)]
    kernels = Module(PREAMBLE + "\n".join(case.source for case in cases), "views.cu").load(
        *(case.name for case in cases)
    )
    for kernel, case in zip(kernels, cases):
        size = 1 + sum((n - 1) * s for n, s in zip(case.lengths, case.strides))
        positions = list(itertools.product(*(range(-(-n // t)) for n, t in zip(case.lengths, case.tile))))
        for index in {positions[0], positions[-1], generator.random.choice(positions)}:
            data = (np.arange(size) % 97).astype(case.dtype)
            out, back = np.zeros(case.tile, case.dtype), np.full(size, 3).astype(case.dtype)
            want, want_back = np.zeros_like(out), back.copy()
            for inside in np.ndindex(*case.tile):
                place = [i * t + j for i, t, j in zip(index, case.tile, inside)]
                if all(p < n for p, n in zip(place, case.lengths)):
                    at = sum(p * s for p, s in zip(place, case.strides))
                    want[inside] = want_back[at] = data[at]
                else:
                    want[inside] = PADDINGS[case.padding]
            run(kernel, (1,), data, out, back, *case.arguments, *index)
            np.testing.assert_array_equal(out, want, err_msg=case.source)
            np.testing.assert_array_equal(np.signbit(out), np.signbit(want)) if case.dtype in FLOATS else None
            np.testing.assert_array_equal(back, want_back, err_msg=case.source)


OF_THE_USER = """
// The transposed square of size n that starts at the pointer, without types of ours but for the accessor.
struct square { using rank_type = signed char; using index_type = unsigned; unsigned n; square() = delete; constexpr square(unsigned n) : n(n) {}
    static constexpr signed char rank() { return 2; } static constexpr signed char rank_dynamic() { return 2; }
    static constexpr size_t static_extent(signed char) { return ct::dynamic_extent; } constexpr unsigned extent(signed char) const { return n; } };
struct transposed { using extents_type = square; using rank_type = signed char; using index_type = unsigned; square e;
    struct layout_type { template <typename> using mapping = transposed; };
    static constexpr bool is_always_strided() { return true; }
    __tile__ unsigned stride(signed char i) const { unsigned s = 1; for (int k = 0; k < i; ++k) s *= e.n; return s; }
    __tile__ square const& extents() const { return e; } };
template <> struct ct::layout_mapping_static_stride<transposed> { constexpr size_t operator()(signed char i) const { return i == 0 ? 1 : dynamic_extent; } };
struct matrix { using mapping_type = transposed; using accessor_type = ct::default_accessor<int>; using extents_type = square;
    using layout_type = transposed::layout_type; using index_type = unsigned; using rank_type = signed char; using element_type = int;
    using value_type = int; using data_handle_type = int*; using reference = int&; int* data; transposed layout; accessor_type access;
    __tile__ int* data_handle() const { return data; } __tile__ transposed const& mapping() const { return layout; }
    __tile__ accessor_type const& accessor() const { return access; } };
__tile_global__ void k(int* p, int* out, unsigned n) {
    ct::partition_view view{matrix{p, {square(n)}, {}}, ct::shape{2_ic, 4_ic}};
    static_assert(__is_same(decltype(view)::span_type, matrix));
    auto t = view.load_masked(ct::bid().x, ct::bid().y);
    ct::store(out + 8 * (ct::bid().x * ct::num_blocks().y + ct::bid().y) + ct::iota<ct::tile<int, ct::shape<2, 4>>>(), t);
    if (view.span().mapping() == ct::layout_left_mapping{ct::extents{n, n}}) view.store_masked(-t, ct::bid().x, ct::bid().y);
}
"""


def test_types_of_the_user() -> None:
    kernel = Module(PREAMBLE + OF_THE_USER, "user.cu").kernel("k")
    data, out = np.arange(1, 26, dtype=np.int32), np.zeros((3, 2, 2, 4), np.int32)
    run(kernel, (3, 2), data, out, 5)
    full = np.zeros((6, 8), np.int32)
    full[:5, :5] = np.arange(1, 26).reshape(5, 5).T
    np.testing.assert_array_equal(out, full.reshape(3, 2, 2, 4).transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(data, -np.arange(1, 26))


FAR = {
    "64-bit strides": "ct::partition_view{ct::tensor_span{p - (1l << 33), ct::layout_strided_mapping{ct::extents<long, 2, 4>{}, ct::extents<long, (1l << 33), 1>{}}}, ct::shape<1, 4>{}}.load(1, 0)",
    "offsets beyond the index type": "ct::partition_view{ct::tensor_span{p - (1l << 32), ct::layout_strided_mapping{ct::extents<int, 5, 4>{}, ct::extents<int, (1 << 30), 1>{}}}, ct::shape<1, 4>{}}.load(4, 0)",
    "unsigned strides": "ct::partition_view{ct::tensor_span{p - 6000000000l, ct::extents<unsigned, ct::dynamic_extent, ct::dynamic_extent>{3u, 3000000000u}}, ct::shape<1, 4>{}}.load(2, 0)",
    "unsigned lengths": "ct::partition_view{ct::tensor_span{p - 3000000000l, ct::extents<unsigned, ct::dynamic_extent>{3000000004u}}, ct::shape<4>{}}.load_masked(750000000u)",
    "64-bit lengths": "ct::partition_view{ct::tensor_span{p - (1l << 33), ct::extents<unsigned long, ct::dynamic_extent>{(1l << 33) + 4}}, ct::shape<4>{}}.load(1l << 31)",
    "64-bit offsets of pointers": "ct::load(p + (1l << 40) + i * (1l << 36) - (1l << 40) - i * ((1l << 36) - 1))",
}


def test_places_far_from_the_base() -> None:
    sources = [
        f"""__tile_global__ void k{number}(int* p, int* out) {{ auto i = ct::iota<ct::tile<long, ct::shape<4>>>();
            ct::store(out + i, ct::reshape({load}, ct::shape{{4_ic}})); }}"""
        for number, load in enumerate(FAR.values())
    ]
    for kernel, name in zip(Module(PREAMBLE + "\n".join(sources)).load(*(f"k{i}" for i in range(len(FAR)))), FAR):
        data, out = np.arange(10, 14, dtype=np.int32), np.zeros(4, np.int32)
        run(kernel, (1,), data, out)
        assert out.tolist() == [10, 11, 12, 13], name


KINDS = """
__tile_global__ void qualified(int* p, int* out) {
  int volatile* q = p; int const* c = p; int const volatile* cv = p; int const* const cc = p;
  auto t = ct::partition_view{ct::tensor_span{q, ct::extents{3_ic}}, ct::shape{4_ic}}.load_masked(0);
  auto u = ct::partition_view{ct::tensor_span{c, ct::extents{5_ic}}, ct::shape{4_ic}}.load(0);
  auto w = ct::partition_view{ct::tensor_span{cv, ct::extents{5_ic}}, ct::shape{4_ic}}.load(0);
  ct::store(out + ct::iota<ct::tile<int, ct::shape<4>>>(), t + u + w + ct::load(cc));
}
__tile_global__ void pointers(int* p, int* out) {
  int* a[4] = {p + 3, p + 1, p, p + 2};
  auto v = ct::partition_view{ct::tensor_span{&a[0], ct::extents{4_ic}}, ct::shape{4_ic}};
  auto t = v.load(0);
  static_assert(__is_same(decltype(t), ct::tile<int*, ct::shape<4>>));
  ct::store(out + ct::iota<ct::tile<int, ct::shape<4>>>(), ct::load(t));
}
__tile_global__ void pointers_at_the_edge(int* p, int* out) {
  int* a[3] = {p + 3, p + 1, p};
  auto v = ct::partition_view{ct::tensor_span{&a[0], ct::extents{3_ic}}, ct::shape{4_ic}};
  auto t = v.load_masked(0);
  v.store_masked(t + 1, 0);
  auto ok = t != nullptr;
  ct::store(out + ct::iota<ct::tile<int, ct::shape<4>>>(), ct::load_masked(t, ok, -1) + *a[0]);
}
__tile_global__ void eight_bits(int* p, int* out) {
  __nv_fp8_e4m3 a[4] = {__nv_fp8_e4m3(1.5f), __nv_fp8_e4m3(-2.f), __nv_fp8_e4m3(0.f), __nv_fp8_e4m3(448.f)};
  auto q = &a[0] + ct::iota<ct::tile<int, ct::shape<4>>>();
  auto t = ct::atomic_load_masked(q, ct::iota<ct::tile<int, ct::shape<4>>>() != 2, 0.75f, ct::memory_order_relaxed_t{});
  ct::atomic_store(q, t, ct::memory_order_relaxed_t{}, ct::thread_scope_block_t{});
  ct::store(out + ct::iota<ct::tile<int, ct::shape<4>>>(), ct::element_cast<int>(ct::element_cast<float>(ct::load(q)) * 100.f));
}
__tile_global__ void tensor_floats(int* p, int* out) {
  __nv_tf32 a[4] = {__nv_tf32(1.5f), __nv_tf32(-2.f), __nv_tf32(0.f), __nv_tf32(448.f)};
  auto v = ct::partition_view{ct::tensor_span{&a[0], ct::extents{3_ic}}, ct::shape{4_ic}};
  ct::store(out + ct::iota<ct::tile<int, ct::shape<4>>>(), ct::element_cast<int>(ct::element_cast<float>(v.load_masked(0)) * 100.f));
  v.atomic_store_masked(v.atomic_load_masked(ct::view_padding_zero_t{}, ct::memory_order_acquire_t{}, 0), ct::memory_order_release_t{}, 0);
}
__tile_global__ void paddings(int* p, int* out) {
  __nv_bfloat16 a[3] = {__nv_bfloat16(1.5f), __nv_bfloat16(-2.f), __nv_bfloat16(0.f)};
  auto v = ct::partition_view{ct::tensor_span{&a[0], ct::extents{3_ic}}, ct::shape{4_ic}};
  ct::store(out + ct::iota<ct::tile<int, ct::shape<4>>>(), ct::element_cast<int>(ct::isnan(v.load_masked(ct::view_padding_nan_t{}, 0))) + ct::element_cast<int>(v.load_masked(ct::view_padding_positive_inf_t{}, 0) > 1000));
}
__tile_global__ void truths(bool* p, int* out) {
  auto v = ct::partition_view{ct::tensor_span{p, ct::extents{3_ic}}, ct::shape{4_ic}};
  auto t = v.load_masked(0);
  ct::store(out + ct::iota<ct::tile<int, ct::shape<4>>>(), ct::element_cast<int>(t) + 10);
  v.store_masked(!t, 0);
}
__tile_global__ void indices(int* p, int* out) {
  auto v = ct::partition_view{ct::tensor_span{p, ct::extents<short, ct::dynamic_extent>{64}}, ct::shape{4_ic}};
  auto o = out; int c = 0;
  auto put = [&](auto i) { auto t = v.load(i); out[c++] = (int)ct::extract(t, ct::shape{1_ic}, 0); };
  put(true); put((char)2); put(3.9f); put(4.0); put(__half(5)); put(6ul); put(char32_t(7)); put(__nv_bfloat16(8)); put(__nv_fp8_e4m3(9.f)); put(__nv_tf32(10.f));
}
__tile_global__ void no_dimension(int* p, int* out) {
  auto v = ct::partition_view{ct::tensor_span{p + 5, ct::extents<int>{}}, ct::shape<>{}};
  auto t = v.load(); static_assert(__is_same(decltype(t), ct::tile<int, ct::shape<>>));
  v.store(t + 1); v.store_masked(v.load_masked() * 2); v.atomic_store(v.atomic_load(ct::memory_order_relaxed_t{}) + 3, ct::memory_order_relaxed_t{});
  ct::store(out, v.load()); ct::store(out + 1, ct::load(p + 5)); out[2] = (int)v.load();
}
"""
# kernel -> what it writes for the numbers from 10 on
RESULTS = {
    "qualified": [40, 43, 46, 36],
    "pointers": [13, 11, 10, 12],
    "pointers_at_the_edge": [27, 25, 24, 13],
    "eight_bits": [150, -200, 75, 44800],
    "tensor_floats": [150, -200, 0, 0],
    "paddings": [0, 0, 0, 2],
    "indices": [14, 18, 22, 26, 30, 34, 38, 42, 46, 50],
    "no_dimension": [35, 35, 35],
}


def test_elements_and_indices_of_every_kind() -> None:
    module = Module(PREAMBLE + KINDS, "kinds.cu")
    for kernel, (name, want) in zip(module.load(*RESULTS, "truths"), RESULTS.items()):
        out = np.zeros(len(want), np.int32)
        run(kernel, (1,), np.arange(10, 74, dtype=np.int32), out)
        assert out.tolist() == want, name
    truths, out = np.array([True, False, True, True]), np.zeros(4, np.int32)
    run(module.kernel("truths"), (1,), truths, out)
    assert (truths.tolist(), out.tolist()) == ([False, True, False, True], [11, 10, 11, 10])


def test_unmasked_accesses_that_are_partly_outside_stay_inside_on_the_cpu() -> None:
    source = """
    __tile_global__ void partly(float* x, float* out, int rows, int columns) {
        auto view = [&](float* p) {
            return ct::partition_view{ct::tensor_span{p, ct::extents{rows, columns}}, ct::shape{8_ic, 16_ic}};
        };
        auto [i, j, ignored] = ct::bid();
        view(out).store(view(x).load(i, j) + 1.0f, i, j);
    }
    """
    kernel = Module(PREAMBLE + source, "partly.cu").kernel("partly")
    x, out = np.arange(13 * 21, dtype=np.float32), np.full(13 * 21 + 99, -5, np.float32)
    launch(get_backend("cpu"), kernel, (2, 2), x, out, 13, 21)
    assert np.array_equal(out[: x.size], x + 1) and (out[x.size :] == -5).all()


def test_partition_views_name_the_type_of_ranks() -> None:
    """As Kokkos uses it."""
    view = "ct::partition_view<ct::tensor_span<float, ct::extents<unsigned, 8>>, ct::shape<4>>"
    source = f"using Rank = {view}::rank_type; static_assert(__is_same(Rank, ct::extents<unsigned, 8>::rank_type));"
    assert Module(f"{PREAMBLE}{source} __tile_global__ void k(Rank r) {{}}").kernels == ("k",)
