"""Loads, stores and atomics through pointers, pointer arithmetic, and views over every layout."""

from __future__ import annotations

import numpy as np
import pytest
from cpp_harness import PREAMBLE, ops, run

from tilewright.frontend.cpp.module import CppKernel, Module
from tilewright.ir.enums import MemoryOrder, MemoryScope, PaddingMode

SOURCE = (
    PREAMBLE
    + """
using i4 = ct::tile<int, ct::shape<4>>;
__tile_global__ void pointers(int* data, int* out) {
    auto p = data + ct::iota<i4>();
    auto back = 1 + (p + 2 - ct::iota<i4>()) - 1u;           // data + 2, four times
    ct::store(out + ct::iota<i4>(), ct::load(back));
    out[4] = (int)ct::extract(back - p, ct::shape{1_ic}, 3);  // -1
    auto test = [&](int at, auto truth) { out[at] = (int)ct::element_cast<int>(ct::sum(ct::element_cast<int>(truth), 0_ic)); };
    test(5, p == back); test(6, p != back); test(7, p < back); test(8, p >= back);
    test(9, p == nullptr); test(10, nullptr != p);
    test(11, ct::element_cast<bool>(p));
    out[12] = *(&data[1]) + data[out - out];
    ct::tile<int const*, ct::shape<4>> read_only = +p;
    out[13] = (int)ct::sum(ct::load(read_only), 0_ic);
}
__tile_global__ void masks(float* data, int n, float* out) {
    auto i = ct::iota<ct::tile<int, ct::shape<2, 4>>>();
    auto row = ct::iota<i4>() < n;                            // broadcast along the first dimension
    auto got = ct::load_masked(data + i, row, ct::full<ct::tile<float, ct::shape<2, 1>>>(-1.0f));
    ct::store_masked(out + i, got, i % 2);
    ct::atomic_store_masked(out + 8 + i, ct::atomic_load_masked(data + i, row, 7.0, ct::memory_order_acquire_t{}, ct::thread_scope_block_t{}),
                            true, ct::memory_order_release_t{});
    out[16] = ct::atomic_load<ct::memory_order::relaxed>(data);
    ct::store(out + 17, 2.0f);
    ct::atomic_store(out + 18, __half(3), ct::memory_order_relaxed_t{}, ct::thread_scope_device_t{});
}
__tile_global__ void atomics(int* p, unsigned long* q, float* f) {
    ct::memory_order_relaxed_t relaxed;
    auto at = p + ct::iota<i4>();
    int n = 0;
    auto keep = [&](auto old) { ct::store(p + 100 + 4 * n++ + ct::iota<i4>(), old); };
    keep(ct::atomic_add(at, ct::iota<i4>(), relaxed));
    keep(ct::atomic_sub(at, ct::full<i4>(1), relaxed, ct::thread_scope_block_t{}));
    keep(ct::atomic_and(at, ct::full<i4>(7), ct::memory_order_acq_rel_t{}));
    keep(ct::atomic_or(at, ct::full<i4>(8), relaxed));
    keep(ct::atomic_xor(at, ct::full<i4>(1), relaxed));
    keep(ct::atomic_max(at, ct::full<i4>(12), relaxed));
    keep(ct::atomic_min_masked(at, ct::full<i4>(2), ct::iota<i4>() < 2, relaxed) * (ct::iota<i4>() < 2));
    keep(ct::atomic_xchg(at, ct::iota<i4>(), relaxed));
    keep(ct::atomic_compare_exchange(at, ct::full<i4>(2), ct::full<i4>(50), relaxed));
    keep(ct::atomic_compare_exchange_masked(at, ct::full<i4>(3), ct::full<i4>(60), ct::iota<i4>() == 0, relaxed));
    q[1] = ct::atomic_max(q, 7ul, relaxed);
    f[1] = ct::atomic_add(f, __half(0.5f), ct::memory_order_relaxed_t{});
}
// An extents type, a layout policy and an accessor of the user.
struct square { using rank_type = int; using index_type = int; int n;
    static constexpr int rank() { return 2; } static constexpr int rank_dynamic() { return 2; }
    static constexpr size_t static_extent(int) { return ct::dynamic_extent; } constexpr int extent(int) const { return n; } };
template <typename E> struct every_other { using extents_type = E; using rank_type = typename E::rank_type; using index_type = typename E::index_type;
    struct layout_type { template <typename F> using mapping_type = every_other<F>; };
    static constexpr bool is_always_strided() { return true; }
    static constexpr size_t static_stride(rank_type i) { return i ? 2 : ct::dynamic_extent; }
    constexpr index_type stride(rank_type i) const { return i ? 2 : 2 * e.extent(1); }
    constexpr E const& extents() const { return e; } E e; };
template <typename T> struct marked : ct::default_accessor<T> {};
template <typename T> inline constexpr bool ct::enable_contiguous_accessor_policy<marked<T>> = true;

__tile_global__ void layouts(float* in, float* out, int n) {
    int at = 0;
    auto copy = [&](auto span) {
        auto tile = ct::partition_view{span, ct::shape{2_ic, 4_ic}}.load_masked(ct::view_padding_negative_inf_t{}, 1, 0);
        ct::store(out + 8 * at++ + ct::iota<ct::tile<int, ct::shape<2, 4>>>(), tile);
    };
    copy(ct::tensor_span{in, ct::extents{3, 4_ic}});
    copy(ct::tensor_span{in, ct::extents{4_ic, n}, ct::layout_left{}});
    copy(ct::tensor_span{in, ct::layout_right_padded_mapping{ct::extents{4, 3_ic}, 4_ic}});
    copy(ct::tensor_span{in, ct::layout_left_padded_mapping{ct::extents{4_ic, 3}, n}});
    copy(ct::tensor_span{in, ct::layout_strided_mapping{ct::extents{4_ic, 3_ic}, ct::extents{6_ic, n}}});
    copy(ct::tensor_span{in, every_other<square>{{4}}});
    copy(ct::tensor_span<float, square, ct::layout_right, marked<float>>{in, square{4}});
}
__tile_global__ void views(int* in, int* out) {
    auto view = [](int* p) { return ct::partition_view{ct::tensor_span{p, ct::extents{6_ic}}, ct::shape{4_ic}}; };
    ct::memory_order_relaxed_t relaxed; ct::thread_scope_device_t device; ct::view_padding_zero_t zero;
    auto i = view(in), o = view(out);
    o.store(i.load(0), 0);
    o.atomic_store(i.atomic_load(relaxed, device, 0), relaxed, device, 0);
    o.atomic_store<ct::memory_order::release>(i.atomic_load<ct::memory_order::acquire>(0), 0);
    o.atomic_store(i.atomic_load(relaxed, 0), ct::memory_order_release_t{}, 0);
    o.store_masked(i.load_masked<ct::view_padding::zero>(1), 1);
    o.atomic_store_masked(i.atomic_load_masked(zero, relaxed, device, 1), relaxed, device, 1);
    o.atomic_store_masked<ct::memory_order::relaxed>(i.atomic_load_masked(zero, relaxed, 1), 1);
    o.atomic_store_masked(i.atomic_load_masked<ct::view_padding::zero, ct::memory_order::relaxed>(1), relaxed, 1);
    o.store_masked(ct::element_cast<short>(i.atomic_load_masked<ct::view_padding::zero, ct::memory_order::relaxed>(zero, 1)), 1);
}
__tile_global__ void promises(int* p, int n) {
    p = ct::assume_aligned<4>(p);
    n = ct::assume_bounded(ct::assume_divisible(n, 4_ic), 0_ic, 1000_ic);
    auto x = ct::assume_blocked(ct::load(p + ct::iota<i4>()), ct::shape{3_ic});
    x = ct::assume_bounded_below(ct::assume_bounded_above(x, 100_ic), -10_ic);
    auto y = ct::assume_divisible_strided(ct::assume_blocked(x, ct::shape<1>{}), 8_ic, 2_ic, 0_ic);
    ct::store(ct::assume_aligned_strided(p + ct::iota<i4>(), 8_ic, 2_ic, 0_ic), y + n);
}
"""
)
NAMES = ["pointers", "masks", "atomics", "layouts", "views", "promises"]


@pytest.fixture(scope="module")
def kernels() -> dict[str, CppKernel]:
    return dict(zip(NAMES, Module(SOURCE, "memory.cu").load(*NAMES)))


def test_pointer_arithmetic(kernels: dict[str, CppKernel]) -> None:
    data, out = np.array([10, 20, 30, 40, 50], np.int32), np.zeros(14, np.int32)
    run(kernels["pointers"], (1,), data, out)
    assert out.tolist() == [30, 30, 30, 30, -1, 1, 3, 2, 2, 0, 4, 4, 30, 100]


def test_masks_and_paddings(kernels: dict[str, CppKernel]) -> None:
    data, out = np.arange(8, dtype=np.float32), np.zeros(19, np.float32)
    run(kernels["masks"], (1,), data, 3, out)
    assert out.tolist() == [0, 1, 0, -1, 0, 5, 0, -1] + [0, 1, 2, 7, 4, 5, 6, 7] + [0, 2, 3]
    loads = [op for op in kernels["masks"].function.walk() if op.name == "load"]
    found = [(op.attributes["memory_order"], op.attributes["memory_scope"]) for op in loads]
    assert found == [
        (MemoryOrder.WEAK, MemoryScope.NONE),
        (MemoryOrder.ACQUIRE, MemoryScope.BLOCK),
        (MemoryOrder.RELAXED, MemoryScope.SYS),
    ]


def test_atomics_return_the_old_values(kernels: dict[str, CppKernel]) -> None:
    p, q, f = np.zeros(140, np.int32), np.array([5, 0], np.uint64), np.array([1, 0], np.float32)
    p[:4] = [4, 5, 6, 7]
    run(kernels["atomics"], (1,), p, q, f)
    expected = [
        [4, 5, 6, 7],
        [4, 6, 8, 10],
        [3, 5, 7, 9],
        [3, 5, 7, 1],
        [11, 13, 15, 9],
        [10, 12, 14, 8],
        [12, 12, 0, 0],
        [2, 2, 14, 12],
        [0, 1, 2, 3],
        [0, 3, 3, 3],
    ]
    assert p[100:140].reshape(10, 4).tolist() == expected
    assert p[:4].tolist() == [0, 1, 50, 3]
    assert (q.tolist(), f.tolist()) == ([7, 5], [1.5, 1])


def test_views_over_every_layout(kernels: dict[str, CppKernel]) -> None:
    source, out = np.arange(64, dtype=np.float32), np.zeros(7 * 8, np.float32)
    run(kernels["layouts"], (1,), source, out, 3)
    edge = -np.inf
    right = [[8, 9, 10, 11], [edge] * 4]
    left = [[2, 6, 10, edge], [3, 7, 11, edge]]
    right_padded = [[8, 9, 10, edge], [12, 13, 14, edge]]
    left_padded = [[2, 8, 14, edge], [3, 9, 15, edge]]
    strided = [[12, 15, 18, edge], [18, 21, 24, edge]]
    own = [[16, 18, 20, 22], [24, 26, 28, 30]]
    plain = [[8, 9, 10, 11], [12, 13, 14, 15]]
    want = np.array([right, left, right_padded, left_padded, strided, own, plain], np.float32)
    np.testing.assert_array_equal(out.reshape(7, 2, 4), want)
    loads = [op for op in kernels["layouts"].function.walk() if op.name == "load_view"]
    assert {op.view.type.padding for op in loads} == {PaddingMode.NEG_INF}
    assert [op.view.type.view.shape for op in loads][:3] == [(3, 4), (4, None), (4, 3)]
    assert [op.view.type.view.strides for op in loads][:3] == [(4, 1), (1, 4), (4, 1)]


def test_every_overload_of_views(kernels: dict[str, CppKernel]) -> None:
    source, out = np.arange(1, 7, dtype=np.int32), np.zeros(6, np.int32)
    run(kernels["views"], (1,), source, out)
    np.testing.assert_array_equal(out, source)
    stores = [op for op in kernels["views"].function.walk() if op.name == "store_view"]
    assert [op.in_bounds for op in stores] == [(True,)] * 4 + [(False,)] * 5
    assert stores[2].memory_order is MemoryOrder.RELEASE
    assert stores[1].memory_scope is MemoryScope.DEVICE


def test_assumptions(kernels: dict[str, CppKernel]) -> None:
    p = np.array([0, 1, 8, 9], np.int32)
    run(kernels["promises"], (1,), p, 4)
    assert p.tolist() == [4, 5, 12, 13]
    found = ops(kernels["promises"])
    assert (found["assume_divisible"], found["assume_bounded"], found["assume_blocked"]) == (4, 3, 2)
    strided = [op for op in kernels["promises"].function.walk() if op.attributes.get("every")]
    assert [(op.divisor, op.every, op.along) for op in strided] == [(8, 2, 0), (8, 2, 0)]
