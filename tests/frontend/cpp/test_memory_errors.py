"""Ill-formed programs of sections 2.7, 2.8, 2.10, 2.11, 2.12 and 2.15: the message names the unmet constraint."""

from __future__ import annotations

import pytest
from cpp_harness import refusals

CODE = """__tile__ auto x() { return ct::iota<ct::tile<int, ct::shape<8>>>(); }
__tile__ auto view_of(int* p, int n) { return ct::partition_view{ct::tensor_span{p, ct::extents{n, n}}, ct::shape{2_ic, 4_ic}}; }
using relaxed = ct::memory_order_relaxed_t; using t24 = ct::tile<int, ct::shape<2, 4>>;"""
LOADS_AND_STORES = {
    "void* v = p; ct::load(v);": "pointers to void have no elements (loadable_tile)",
    "int volatile* v = p; ct::load(v);": "needs pointers to elements that are not volatile (loadable_tile)",
    "ct::load(n);": "the operand is not a pointer tile (loadable_tile)",
    "int** v = nullptr; ct::load(v);": "needs pointers to elements that are not volatile (loadable_tile)",
    "ct::load_masked(p + x(), ct::full<ct::tile<bool, ct::shape<4>>>(true));": "the operand is not broadcastable to the shape (broadcastable_to)",
    "ct::load_masked(p + x(), x() > 1, ct::full<ct::tile<int, ct::shape<4>>>(1));": "the operand is not broadcastable to the shape (padding_for)",
    "ct::load_masked(p + x(), x() > 1, p);": "there is no scalar conversion between the element types (padding_for)",
    "ct::load_masked(p + x(), 0_ic);": "'ct::integral_constant<0>' does not satisfy 'bool_tile_convertible'",
    "ct::load_masked(p + x());": "no matching function for call to 'load_masked'",
    "ct::atomic_load(p + x());": "the memory order is missing; write one behind the values",
    "ct::atomic_load(p + x(), ct::memory_order_release_t{});": "a load takes relaxed or acquire memory order (read_memory_order)",
    "ct::atomic_load<ct::memory_order::acq_rel>(p + x());": "a load takes relaxed or acquire memory order (read_memory_order)",
    "ct::atomic_load(p + x(), ct::memory_order::relaxed);": "needs a ct::memory_order_constant, not 'ct::memory_order'",
    "ct::atomic_load<ct::memory_order(9)>(p + x());": "the value is not an enumerator of ct::memory_order (memory_order_constant)",
    "ct::atomic_load(p + x(), relaxed(), ct::memory_order_relaxed_t{});": "needs a ct::thread_scope_constant, not 'memory_order_constant'",
    "ct::atomic_load_masked(p + x(), x() > 1, 3);": "needs a ct::memory_order_constant, not 'int'",
    "ct::atomic_load_masked(p + x(), x() > 1, ct::memory_order_release_t{});": "a load takes relaxed or acquire memory order (read_memory_order)",
    "ct::store(p + x(), 1);": "the shapes are not shape equivalent (non_narrowing_tile_convertible_to)",
    "ct::store(p + x(), ct::element_cast<long>(x()));": "the conversion is narrowing (non_narrowing_tile_convertible_to)",
    "ct::store(p + x(), ct::element_cast<float>(x()));": "the conversion is narrowing (non_narrowing_tile_convertible_to)",
    "ct::store((int const*)p + x(), x());": "the pointers point to const elements (storeable_tile)",
    "ct::store(p + x(), ct::zeros<ct::tile<int, ct::shape<4>>>());": "the shapes are not shape equivalent (non_narrowing_tile_convertible_to)",
    "ct::store_masked(p + x(), x(), ct::zeros<ct::tile<int, ct::shape<4>>>());": "the operand is not broadcastable to the shape (broadcastable_to)",
    "ct::store_masked(p + x(), x());": "requires 3 arguments, but 2 were provided",
    "ct::atomic_store(p + x(), x());": "the memory order is missing; write one behind the values",
    "ct::atomic_store(p + x(), x(), ct::memory_order_acquire_t{});": "a store takes relaxed or release memory order (write_memory_order)",
    "ct::atomic_store_masked(p + x(), x(), x() > 1, ct::memory_order_acq_rel_t{});": "a store takes relaxed or release memory order (write_memory_order)",
}
ATOMICS = {
    "ct::atomic_add(p + x(), x());": "the memory order is missing; write one behind the values",
    "ct::atomic_add(p + x(), x(), n);": "needs a ct::memory_order_constant, not 'int'",
    "ct::atomic_add(p + x(), 2.5, relaxed());": "the shapes are not shape equivalent (non_narrowing_tile_convertible_to)",
    "ct::atomic_add(p + x(), 1, relaxed());": "the shapes are not shape equivalent (non_narrowing_tile_convertible_to)",
    "short* s = nullptr; ct::atomic_add(s, (short)1, relaxed());": "needs 32 or 64 bit integral elements, double, float or __half (atomic_addend)",
    "__nv_bfloat16* s = nullptr; ct::atomic_add(s, __nv_bfloat16(1), relaxed());": "needs 32 or 64 bit integral elements, double, float or __half (atomic_addend)",
    "ct::atomic_max(q, 1.0f, relaxed());": "needs 32 or 64 bit integral elements (atomic_integer)",
    "ct::atomic_compare_exchange((short*)nullptr, (short)1, (short)2, relaxed());": "needs 32 or 64 bit integral elements, float or double (atomic_number)",
    "ct::atomic_compare_exchange(p + x(), x(), relaxed());": "the memory order is missing; write one behind the values",
    "ct::atomic_xchg((__half*)nullptr, __half(1), relaxed());": "needs 32 or 64 bit integral elements, float or double (atomic_number)",
    "ct::atomic_and_masked(p + x(), x(), relaxed());": "the memory order is missing; write one behind the values",
    "ct::atomic_or_masked(p + x(), x(), ct::zeros<ct::tile<bool, ct::shape<4>>>(), relaxed());": "the operand is not broadcastable to the shape (broadcastable_to)",
    "ct::atomic_add((int const*)p, 1, relaxed());": "the pointers point to const elements (storeable_tile)",
}
EXTENTS_AND_LAYOUTS = {
    "ct::extents<float, 3> e;": "the type is not integral (integral)",
    "ct::extents<int const, 3> e;": "the index type of extents must not be cv-qualified",
    "ct::extents<int, ct::dynamic_extent, 3> e{1, 2, 3};": "needs a length for each dynamic dimension, or for each dimension (number_of_",
    "ct::extents<int, ct::dynamic_extent> e{p};": "the lengths must be convertible to the index type (lengths_convertible_to)",
    "ct::extents<int, 3> e{3, 4};": "needs a length for each dynamic dimension, or for each dimension (number_of_",
    "ct::extents<int, ct::dynamic_extent> e = 3;": "the constructor is explicit",
    "ct::tile<int, ct::shape<ct::dynamic_extent>> t;": "'ct::shape<ct::dynamic_extent>' does not satisfy 'tile_shape'",
    "static_assert(ct::shape_size_v<ct::extents<int, ct::dynamic_extent>> == 3);": "'ct::extents<int, ct::dynamic_extent>' is not shape like (shape_like): a dimension is dynamic",
    "ct::layout_right_mapping<int> m{3};": "'int' is not extents like (extents_like)",
    "ct::layout_right_mapping<ct::extents<int, 3> const> m{ct::extents<int, 3>{}};": "extents must not be cv-qualified",
    "ct::layout_right_mapping m{3};": "'int' is not extents like (extents_like)",
    "ct::layout_right_padded_mapping m{ct::extents{2_ic, 3_ic}};": "could not match 'ct::layout_right_padded_mapping' against 'extents'",
    "ct::layout_right_padded_mapping m{ct::extents{2_ic, 3_ic}, p};": "the alignment is not convertible to the index type (alignment_for)",
    "ct::layout_strided_mapping m{ct::extents{2_ic, 3_ic}, ct::extents{2_ic}};": "the ranks differ (same_rank)",
    "ct::layout_strided_mapping m{ct::extents{2_ic, 3_ic}, ct::extents<long, 2, 3>{}};": "the index types differ (same_index_type)",
    "ct::layout_strided_mapping<ct::extents<int, 3>, ct::extents<int, 1> const> m{ct::extents<int,3>{}, ct::extents<int,1>{}};": "strides must not be cv-qualified",
    "struct e { using rank_type = int; using index_type = int; static constexpr int rank() { return 1; } }; ct::layout_right_mapping<e> m{e{}};": "'e' is not extents like (extents_like): no member named 'rank_dynamic' in 'e'",
    "struct e { using rank_type = int; using index_type = int; static constexpr int rank() { return 1; } static constexpr int rank_dynamic() { return 1; } static constexpr int static_extent(int) { return 3; } int extent(int) const { return 3; } }; ct::layout_right_mapping<e> m{e{}};": "'e' is not extents like (extents_like): 'detail::same<decltype(e::static_extent(dim)), size_t>' evaluated to false",
}
SPANS = {
    "ct::tensor_span s{p, 3};": "'int' is not a layout mapping (layout_mapping)",
    "ct::tensor_span s{p};": "could not match 'ct::tensor_span<E, Extents, Layout, Accessor>' against 'int *'",
    "ct::tensor_span s{n, ct::extents{3_ic}};": "could not match 'T *' against 'int'",
    "ct::tensor_span s{(void*)p, ct::extents{3_ic}};": "the element type is not a scalar (default_accessor)",
    "ct::tensor_span s{p, ct::extents{3_ic}, 4};": "'ct::shape<3>' is not a layout mapping (layout_mapping): no type named 'extents_type' in 'ct::shape<3>'",
    "ct::tensor_span s{p, ct::extents{3_ic}, ct::layout_right_padded<4>{}};": "extents are not enough for a mapping of this layout; pass the mapping (made_from_extents)",
    "ct::tensor_span<int, ct::extents<int, 3>, ct::layout_right, ct::default_accessor<float>> s{p, ct::extents<int, 3>{}};": "the element types of the tensor span and of its accessor differ (accessor_of)",
    "ct::tensor_span<int, ct::extents<int, 3>, int> s{p, ct::extents<int, 3>{}};": "the layout is no layout policy for these extents (layout_policy_for)",
    "ct::tensor_span<int, ct::extents<int, 3>, ct::layout_right const> s{p, ct::extents<int, 3>{}};": "the layout of a tensor span must not be cv-qualified",
    "ct::tensor_span<int, ct::extents<int, 3> const> s{p, ct::extents<int, 3>{}};": "extents must not be cv-qualified",
    "ct::tensor_span<int, ct::extents<int, 3>, ct::layout_right, ct::default_accessor<int> const> s{p, ct::extents<int, 3>{}};": "'const ct::default_accessor<int>' is not an accessor policy (accessor_policy): no viable overloaded '='",
    "struct a { using element_type = int; using data_handle_type = int*; using reference = int&; }; ct::tensor_span<int, ct::extents<int, 3>, ct::layout_right, a> s{p, ct::extents<int, 3>{}};": "'a' is not an accessor policy (accessor_policy): 'enable_contiguous_accessor_policy<a>' evaluated to false",
}
VIEWS = {
    "ct::partition_view v{p, ct::shape{2_ic}};": "'int *' is not tensor span like (tensor_span_like)",
    "ct::partition_view v{ct::tensor_span{p, ct::extents{n}}, ct::shape{3_ic}};": "a tile shape needs lengths that are powers of two, and at most 2^24 elements (tile_shape)",
    "ct::partition_view v{ct::tensor_span{p, ct::extents{n}}, ct::shape{2_ic, 2_ic}};": "the ranks differ (same_rank)",
    "ct::partition_view v{ct::tensor_span{p, ct::extents{n}}, ct::extents<int, 2>{}};": "a tile shape needs lengths that are powers of two, and at most 2^24 elements (tile_shape)",
    "ct::partition_view v{ct::tensor_span{p, ct::extents{n}}};": "could not match 'ct::partition_view' against 'tensor_span'",
    "view_of(p, n).load(0);": "needs one index, scalar convertible to the index type, per dimension of the view (partition_index)",
    "view_of(p, n).load(0, p);": "needs one index, scalar convertible to the index type, per dimension of the view (partition_index)",
    "view_of(p, n).load(0, 0_ic);": "needs one index, scalar convertible to the index type, per dimension of the view (partition_index)",
    "view_of(p, n).load_masked(ct::view_padding_nan_t{}, 0, 0);": "a padding other than zero needs basic floating point elements (padding_available)",
    "view_of(p, n).load_masked<ct::view_padding::nan>(0, 0);": "a padding other than zero needs basic floating point elements (padding_available)",
    "view_of(p, n).load_masked<ct::view_padding(7)>(0, 0);": "the value is not an enumerator of ct::view_padding (valid_view_padding)",
    "view_of(p, n).atomic_load(0, 0);": "needs a ct::memory_order_constant, not 'int'",
    "view_of(p, n).atomic_load(ct::memory_order_release_t{}, 0, 0);": "a load takes relaxed or acquire memory order (read_allowed)",
    "view_of(p, n).atomic_load<ct::memory_order::release>(0, 0);": "a load takes relaxed or acquire memory order (read_allowed)",
    "view_of(p, n).atomic_load<ct::memory_order::relaxed, ct::thread_scope(5)>(0, 0);": "the value is not an enumerator of ct::thread_scope (read_allowed)",
    "view_of(p, n).atomic_load_masked(relaxed(), 0, 0);": "needs a ct::view_padding_constant, not 'memory_order_constant'",
    "view_of(p, n).atomic_load_masked<ct::memory_order::relaxed>(0, 0);": "no matching member function for call to 'atomic_load_masked'",
    "view_of(p, n).store(ct::element_cast<long>(t24()), 0, 0);": "the conversion is narrowing (non_narrowing_tile_convertible_to)",
    "view_of(p, n).store(1, 0, 0);": "the shapes are not shape equivalent (non_narrowing_tile_convertible_to)",
    "view_of(p, n).store(t24(), 0);": "needs one index, scalar convertible to the index type, per dimension of the view (partition_index)",
    "view_of(p, n).store(t24(), 0, 0, 0);": "needs one index, scalar convertible to the index type, per dimension of the view (partition_index)",
    "view_of(p, n).store_masked(t24(), ct::view_padding_zero_t{}, 0, 0);": "needs one index, scalar convertible to the index type, per dimension of the view (partition_index)",
    "view_of(p, n).atomic_store(t24(), 0, 0);": "needs a ct::memory_order_constant, not 'int'",
    "view_of(p, n).atomic_store(t24(), ct::memory_order_acquire_t{}, 0, 0);": "a store takes relaxed or release memory order (write_allowed)",
    "view_of(p, n).atomic_store_masked<ct::memory_order::acq_rel>(t24(), 0, 0);": "a store takes relaxed or release memory order (write_allowed)",
    "ct::partition_view v{ct::tensor_span{(int const*)p, ct::extents{8_ic}}, ct::shape{2_ic}}; v.store(v.load(0), 0);": "the elements of the view are const (storeable_tensor_span)",
}
ASSUMPTIONS = {
    "(void)ct::assume_blocked(x(), ct::shape{0_ic});": "the shape has a dimension of length zero (no_zero_length)",
    "(void)ct::assume_blocked(x(), ct::shape{2_ic, 2_ic});": "the ranks differ (same_rank)",
    "(void)ct::assume_blocked(x(), ct::extents{n});": "'ct::shape<ct::dynamic_extent>' is not shape like (shape_like): a dimension is dynamic",
    "(void)ct::assume_blocked(1.5f, ct::shape<>{});": "the operand is neither a pointer tile nor an integral tile (pointer_or_integral_tile)",
    "(void)ct::assume_bounded(x(), 5_ic, 3_ic);": "the lower bound is greater than the upper bound (bounds_in_order)",
    "(void)ct::assume_bounded(x() > 1, 0_ic, 1_ic);": "the element type must not be bool (bound_for)",
    "(void)ct::assume_bounded(1.5f, 0_ic, 1_ic);": "the operand is not an integral tile (integral_tile)",
    "(void)ct::assume_bounded(x(), 0, 1);": "needs a ct::integral_constant such as 1_ic, not 'int'",
    "(void)ct::assume_bounded_above((unsigned char)n, 128_ic);": "the bound lies outside the range of the element type (bound_for)",
    "(void)ct::assume_bounded_above((unsigned char)n, -1_ic);": "the bound lies outside the range of the element type (bound_for)",
    "(void)ct::assume_bounded_below((unsigned char)n, 1_ic);": "the element type is not signed (signed_elements)",
    "(void)ct::assume_bounded_below((signed char)n, -129_ic);": "the bound lies outside the range of the element type (bound_for)",
    "(void)ct::assume_divisible(n, 3_ic);": "the value is not a power of two (power_of_two)",
    "(void)ct::assume_divisible(n, 0_ic);": "the value is not a power of two (power_of_two)",
    "(void)ct::assume_divisible(p, 4_ic);": "'int *' does not satisfy 'integral_tile'",
    "(void)ct::assume_divisible_strided(x(), 16_ic, 0_ic, 0_ic);": "the stride is not greater than zero (positive_stride)",
    "(void)ct::assume_divisible_strided(x(), 16_ic, 3_ic, 1_ic);": "the dimension is not one of the tile's (dimension_of)",
    "(void)ct::assume_divisible_strided(x(), 15_ic, 3_ic, 0_ic);": "the value is not a power of two (power_of_two)",
    "(void)ct::assume_divisible_strided(ct::element_cast<unsigned>(x()), 16_ic, 3_ic, 0_ic);": "the element type is not signed (signed_elements)",
    "(void)ct::assume_aligned(p, 3_ic);": "the value is not a power of two (power_of_two)",
    "(void)ct::assume_aligned(n, 4_ic);": "the operand is not a pointer tile (pointer_tile)",
    "(void)ct::assume_aligned_strided(p + x(), 8_ic, -1_ic, 0_ic);": "the stride is not greater than zero (positive_stride)",
    "(void)ct::assume_aligned_strided(p + x(), 8_ic, 1_ic, 3_ic);": "the dimension is not one of the tile's (dimension_of)",
}


@pytest.mark.parametrize(
    "programs",
    [LOADS_AND_STORES, ATOMICS, EXTENTS_AND_LAYOUTS, SPANS, VIEWS, ASSUMPTIONS],
    ids=["loads and stores", "atomics", "extents and layouts", "spans", "views", "assumptions"],
)
def test_the_unmet_constraint_is_named(programs: dict[str, str]) -> None:
    for (program, words), error in zip(programs.items(), refusals(list(programs), code=CODE)):
        assert words in error.message, program
        assert len(error.message) < 500, program
