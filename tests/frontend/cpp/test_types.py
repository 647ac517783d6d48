"""Concepts, traits, extents, mappings, constants and ranges: everything that a program can assert at compile time."""

from __future__ import annotations

from cpp_harness import PREAMBLE

from tilewright.frontend.cpp.module import Module

CLASSIFICATION = """
using i32x8 = ct::tile<int, ct::shape<8>>;
static_assert(ct::scalar<int const> && ct::scalar<double> && ct::scalar<char32_t> && ct::scalar<__half>);
static_assert(!ct::scalar<i32x8> && ct::tile_like<i32x8 const volatile> && !ct::tile_like<__int128>);
static_assert(ct::pointer_scalar<int* const> && ct::pointer_scalar<void const*> && ct::pointer_scalar<__half volatile const*>);
static_assert(!ct::tile_like<int**> && !ct::tile_like<int (*)(int)>);
struct user {}; enum kind : int {};
static_assert(!ct::tile_like<user> && !ct::tile_like<user*> && !ct::tile_like<kind> && !ct::integral<kind>);
static_assert(ct::integral_scalar<bool> && ct::integral_scalar<wchar_t> && !ct::integral_scalar<float>);
static_assert(ct::restricted_floating_point_scalar<__nv_tf32> && ct::restricted_floating_point_scalar<__nv_fp8_e4m3>);
static_assert(!ct::arithmetic_scalar<__nv_fp8_e5m2> && ct::numeric_scalar<__nv_fp8_e5m2>);
static_assert(ct::basic_floating_point_tile<ct::tile<__nv_bfloat16, ct::shape<2>>> && !ct::basic_floating_point_tile<i32x8>);
static_assert(ct::integral_tile<i32x8> && ct::arithmetic_tile<i32x8> && !ct::floating_point_tile<i32x8>);
static_assert(ct::pointer_tile<ct::tile<float*, ct::shape<>>> && ct::numeric_tile<__half>);
static_assert(__is_same(ct::tile_element_t<int const>, int) && __is_same(ct::tile_shape_t<int>, ct::shape<>));
static_assert(ct::tile_size_v<ct::tile<int, ct::shape<4, 8>>> == 32 && ct::tile_rank_v<ct::tile<int, ct::shape<4, 8>>> == 2);
static_assert(__is_same(ct::tile_with_element_t<i32x8 const, float>, ct::tile<float, ct::shape<8>>));
static_assert(__is_same(ct::tile_with_element_t<int, float>, float));
static_assert(sizeof(__half) == 2 && sizeof(__nv_bfloat16) == 2 && sizeof(__nv_fp8_e4m3) == 1 && sizeof(__nv_tf32) == 4);
"""

EXTENTS = """
static_assert(__is_same(ct::shape<4, 5>, ct::extents<uint32_t, 4, 5>));
static_assert(ct::extents_like<ct::extents<int16_t, 3, ct::dynamic_extent>> && !ct::extents_like<int>);
static_assert(ct::shape_like<ct::shape<3, 0>> && !ct::shape_like<ct::extents<int, ct::dynamic_extent>>);
static_assert(ct::tile_shape<ct::shape<>> && ct::tile_shape<ct::shape<4, 8>> && !ct::tile_shape<ct::shape<4, 7>>);
static_assert(!ct::tile_shape<ct::shape<0>> && !ct::tile_shape<ct::extents<int16_t, 4>>);
static_assert(ct::shape_size_v<ct::shape<4, 8>> == 32 && ct::shape_size_v<ct::shape<>> == 1);
static_assert(ct::same_shape<ct::shape<4, 8>, ct::extents<uint64_t, 4, 8>> && !ct::same_shape<ct::shape<4>, ct::shape<4, 1>>);
constexpr ct::extents<int, 8, ct::dynamic_extent, 3> e{42}, f{8, 42, 3};
static_assert(e == f && e.extent(1) == 42 && e.extent(2) == 3 && e.rank_dynamic() == 1 && e.static_extent(1) == ct::dynamic_extent);
static_assert(e != ct::extents<long, 8, 42, 4>{} && ct::extents_equal(e, ct::extents<long, 8, 42, 3>{}));
static_assert(__is_same(decltype(ct::extents{4_ic, 7}), ct::extents<uint32_t, 4, ct::dynamic_extent>));
static_assert(__is_same(decltype(ct::shape{4_ic, 8_ic}), ct::shape<4, 8>));
static_assert(__is_same(decltype(ct::shape{512_ic, 128}), ct::extents<uint32_t, 512, ct::dynamic_extent>));
constexpr ct::extents<uint32_t, ct::dynamic_extent> none;
static_assert(none.extent(0) == 0);
struct mine {  // extents of another library
    using rank_type = int; using index_type = long;
    static constexpr int rank() { return 2; }
    static constexpr int rank_dynamic() { return 1; }
    static constexpr size_t static_extent(int i) { return i ? 16 : ct::dynamic_extent; }
    constexpr long extent(int i) const { return i ? 16 : n; }
    long n;
};
static_assert(ct::extents_like<mine> && mine{3} == ct::extents<int, 3, 16>{});
"""

CONVERSIONS = """
template <typename T, size_t... S> using t = ct::tile<T, ct::shape<S...>>;
static_assert(ct::scalar_convertible_to<double, __half> && !ct::non_narrowing_scalar_convertible_to<double, __half>);
static_assert(ct::non_narrowing_scalar_convertible_to<__half, float> && ct::non_narrowing_scalar_convertible_to<__nv_fp8_e4m3, __half>);
static_assert(!ct::non_narrowing_scalar_convertible_to<__half, __nv_bfloat16> && !ct::non_narrowing_scalar_convertible_to<int, float>);
static_assert(ct::non_narrowing_scalar_convertible_to<short, int> && !ct::non_narrowing_scalar_convertible_to<int, unsigned>);
static_assert(ct::non_narrowing_scalar_convertible_to<bool, char> && !ct::non_narrowing_scalar_convertible_to<int, bool> && !ct::non_narrowing_scalar_convertible_to<char, unsigned long>);
static_assert(ct::non_narrowing_scalar_convertible_to<unsigned char, short> && !ct::non_narrowing_scalar_convertible_to<int*, bool>);
static_assert(ct::scalar_convertible_to<int*, int const*> && !ct::scalar_convertible_to<int const*, int*>);
static_assert(ct::scalar_convertible_to<int*, void*> && !ct::scalar_convertible_to<int*, long> && ct::scalar_convertible_to<int*, bool>);
static_assert(ct::tile_convertible_to<int, t<int>> && !ct::tile_convertible_to<int, t<int, 1>>);
static_assert(ct::bool_tile_convertible<t<float*, 4>> && ct::bool_tile_convertible<__half>);
static_assert(ct::shape_broadcastable_to<ct::shape<5, 2>, ct::shape<5, 2>> && ct::broadcastable_to<t<float, 2>, ct::shape<8, 2>>);
static_assert(!ct::shape_broadcastable_to<ct::shape<2, 2>, ct::shape<2>> && ct::broadcastable_to<double, ct::shape<4>>);
static_assert(__is_same(ct::shape_broadcast_t<ct::shape<4>, ct::shape<1, 2, 1>>, ct::shape<1, 2, 4>));
static_assert(__is_same(ct::shape_broadcast_t<ct::shape<1, 5>, ct::shape<3, 1>>, ct::shape<3, 5>));
static_assert(!ct::shape_broadcast_compatible<ct::shape<4, 2>, ct::shape<5, 2>>);
static_assert(__is_same(ct::mutual_broadcast_t<int, double, bool>, bool));
static_assert(__is_same(ct::mutual_broadcast_t<int, t<int, 4>, bool>, t<bool, 4>));
static_assert(!ct::broadcast_compatible<t<int, 8192, 1>, t<int, 1, 8192>>);  // too many elements
static_assert(__is_same(ct::arithmetic_tile_conversion_t<t<int, 4, 1>, t<float, 1, 8>>, t<float, 4, 8>));
static_assert(!ct::arithmetic_tile_convertible<float, t<int, 4>> && ct::arithmetic_tile_comparable<float, t<int, 4>>);
static_assert(__is_same(ct::arithmetic_tile_comparison_t<float, t<int, 4, 8>>, t<float, 4, 8>));
static_assert(!ct::arithmetic_tile_convertible<__nv_bfloat16, t<__half, 4>> && !ct::arithmetic_tile_comparable<__nv_bfloat16, t<__half, 4>>);
static_assert(!ct::arithmetic_tile_convertible<unsigned, t<int, 4>> && !ct::arithmetic_tile_comparable<unsigned, t<int, 4>>);
static_assert(__is_same(ct::arithmetic_tile_conversion_t<short, short>, short));
static_assert(__is_same(ct::arithmetic_tile_conversion_t<int, double>, double));
static_assert(__is_same(ct::arithmetic_tile_conversion_t<__half, float>, float));
static_assert(__is_same(ct::arithmetic_tile_conversion_t<char16_t, unsigned short>, unsigned short));
static_assert(__is_same(ct::arithmetic_tile_conversion_t<long, unsigned>, long));
static_assert(__is_same(ct::arithmetic_tile_promotion_t<t<char, 2>>, t<int, 2>) && __is_same(ct::arithmetic_tile_promotion_t<__half>, __half));
static_assert(__is_convertible(t<short, 4>, t<int, 4>) && !__is_convertible(t<int, 4>, t<short, 4>) && __is_constructible(t<short, 4>, t<int, 4>));
static_assert(__is_convertible(t<float, 1>, double) && !__is_convertible(t<float, 1>, int) && __is_constructible(int, t<float, 1>));
static_assert(!__is_constructible(float, t<float, 2>));
static_assert(__is_same(decltype(ct::tile{2}), t<int>) && __is_trivially_copyable(t<int, 4>));
"""

OPERATIONS = """
template <typename T, size_t... S> using t = ct::tile<T, ct::shape<S...>>;
static_assert(__is_same(ct::tile_permutation_t<t<int, 4, 2, 16, 8>, ct::dimension_map<2, 1, 3, 0>>, t<int, 16, 2, 8, 4>));
static_assert(__is_same(ct::tile_permutation_t<int, ct::dimension_map<>>, int));
static_assert(__is_same(ct::tile_transpose_t<t<int, 4, 2, 16, 8>>, t<int, 2, 4, 16, 8>) && __is_same(ct::tile_transpose_t<int>, int));
static_assert(__is_same(ct::concatenation_t<t<int, 2, 4>, t<int, 2, 4>, 1>, t<int, 2, 8>) && !ct::concatenation_compatible<int, int, 0>);
static_assert(!ct::concatenation_compatible<t<int, 2>, t<int, 4>, 0> && !ct::concatenation_compatible<t<int, 2>, t<float, 2>, 0>);
static_assert(ct::extractable_from<ct::shape<>, int> && ct::extractable_from<ct::shape<16, 2>, t<int, 32, 8>>);
static_assert(!ct::extractable_from<ct::shape<2, 16>, t<int, 32, 8>>);
static_assert(__is_same(ct::reduction_result_t<t<int, 2, 4>, 1>, t<int, 2, 1>));
static_assert(ct::mma_compatible<t<__half, 4, 8>, t<__half, 8, 2>, t<float, 4, 2>> && ct::mma_compatible<t<signed char, 4, 8>, t<unsigned char, 8, 2>, t<int, 4, 2>>);
static_assert(!ct::mma_compatible<t<__half, 4, 8>, t<__nv_bfloat16, 8, 2>, t<float, 4, 2>> && !ct::mma_compatible<t<int, 4, 8>, t<int, 8, 2>, t<int, 4, 2>>);
static_assert(ct::mma_compatible<t<float, 1, 4, 8>, t<float, 2, 8, 2>, t<float, 2, 4, 2>> && !ct::mma_compatible<t<float, 4, 8>, t<float, 4, 2>, t<float, 4, 2>>);
static_assert(!ct::mma_compatible<t<float, 4>, t<float, 4>, t<float, 4>>);
static_assert(__is_same(ct::matmul_result_t<t<__nv_fp8_e4m3, 4, 8>, t<__nv_fp8_e4m3, 8, 2>>, t<__half, 4, 2>));
static_assert(__is_same(ct::matmul_result_t<t<__nv_tf32, 2, 4, 8>, t<__nv_tf32, 1, 8, 2>>, t<float, 2, 4, 2>));
static_assert(__is_same(ct::matmul_result_t<t<signed char, 4, 8>, t<signed char, 8, 2>>, t<int, 4, 2>));
static_assert(ct::loadable_tile<int const*> && !ct::storeable_tile<int const*> && !ct::loadable_tile<void*> && !ct::loadable_tile<int volatile*>);
static_assert(__is_same(ct::tile_load_t<t<float const*, 4>>, t<float, 4>));
"""

LAYOUTS = """
using E = ct::extents<uint32_t, ct::dynamic_extent, 4, 8>;
constexpr ct::layout_right_mapping<E> r{E{3}};
static_assert(r.stride(0) == 32 && r.stride(1) == 8 && r.stride(2) == 1 && r.static_stride(0) == 32);
constexpr ct::layout_left_mapping<E> l{E{3}};
static_assert(l.stride(2) == 12 && l.stride(0) == 1 && l.static_stride(1) == ct::dynamic_extent && l.static_stride(0) == 1);
constexpr ct::layout_right_padded_mapping p{ct::extents{2_ic, 3_ic}, 4_ic};
constexpr ct::layout_right_padded_mapping q{ct::extents{2_ic, 3_ic}, 2_ic};
static_assert(p.stride(0) == 4 && q.stride(0) == 4 && p.static_stride(0) == 4);
constexpr ct::layout_left_padded_mapping m{ct::extents{4_ic, 2_ic}, 3};
static_assert(m.stride(1) == 6 && m.static_stride(1) == ct::dynamic_extent && m.extents() == ct::shape<4, 2>{});
constexpr ct::layout_strided_mapping s{ct::extents{2_ic, 3_ic}, ct::extents{6_ic, 2}};
static_assert(s.stride(0) == 6 && s.stride(1) == 2 && s.static_stride(1) == ct::dynamic_extent && s.is_always_strided());
static_assert(ct::layout_mapping<decltype(s)> && ct::layout_mapping<decltype(p)> && !ct::layout_mapping<int>);
static_assert(ct::layout_mapping_equal(ct::layout_right_mapping{ct::shape<2, 3>{}}, ct::layout_strided_mapping{ct::shape<2, 3>{}, ct::shape<3, 1>{}}));
static_assert(ct::layout_right_mapping{ct::shape<2, 3>{}} != ct::layout_left_mapping{ct::shape<2, 3>{}});
static_assert(ct::layout_mapping_static_stride<ct::layout_right_mapping<ct::shape<2, 3>>>{}(0) == 3);
static_assert(__is_same(ct::layout_left::mapping<E>, ct::layout_left::mapping_type<E>));
using span = ct::tensor_span<float const, E>;
static_assert(ct::tensor_span_like<span> && !ct::storeable_tensor_span<span> && ct::storeable_tensor_span<ct::tensor_span<float, E>>);
static_assert(__is_same(decltype(ct::tensor_span{(int*)nullptr, ct::extents{2, 4_ic}}), ct::tensor_span<int, ct::extents<uint32_t, ct::dynamic_extent, 4>>));
static_assert(__is_same(decltype(ct::tensor_span{(int*)nullptr, ct::extents{2_ic}, ct::layout_left{}})::layout_type, ct::layout_left));
static_assert(__is_same(decltype(ct::tensor_span{(int*)nullptr, s})::mapping_type, __remove_cv(decltype(s))));
static_assert(ct::accessor_policy<ct::default_accessor<int>> && span::rank() == 3 && span::static_extent(1) == 4 && span::rank_dynamic() == 1);
"""

CONSTANTS = """
static_assert(noexcept(ct::exp(1.0)) && !noexcept(ct::isnan(1.0)) && !noexcept(ct::isinf(1.0)));
static_assert(__is_same(decltype(ct::ones<ct::tile<int, ct::shape<2>> const>()), ct::tile<int, ct::shape<2>> const));
static_assert(__half(1.5f) + __half(2) == __half(3.5) && -__nv_bfloat16(2) < __nv_bfloat16(1) && float(__half(0.1)) != 0.1f);
enum count { none, one, two };
template <typename T> consteval T stepped(T x) { T before = x++; ++x; --x; return x-- + before; }
static_assert(stepped(__half(2)) == __half(5) && stepped(__nv_bfloat16(2)) == __nv_bfloat16(5) && __half(two) == __half(2));
static_assert(__half(__nv_bfloat16(2.5f)) == __half(2.5f) && __nv_bfloat16(__half(65504.f)) == __nv_bfloat16(65504.f));
static_assert(!__is_convertible(__half, __nv_bfloat16) && !__is_convertible(__nv_bfloat16, __half));
"""

# Constraints of the functions, each met and unmet.
CONSTRAINTS = """
template <typename T, size_t... S> using t = ct::tile<T, ct::shape<S...>>;
template <typename A, typename B> concept adds = requires(A a, B b) { ct::add(a, b); };
template <typename A, typename B> concept plus = requires(A a, B b) { a + b; };
template <typename A, typename B> concept ands = requires(A a, B b) { a & b; };
template <typename A, typename B> concept shifts = requires(A a, B b) { a << b; };
template <typename A, typename B> concept mods = requires(A a, B b) { a % b; };
template <typename A, typename B> concept ceils = requires(A a, B b) { ct::ceildiv(a, b); };
template <typename A> concept negates = requires(A a) { -a; };
template <typename A> concept complements = requires(A a) { ~a; };
template <typename A> concept absolute = requires(A a) { ct::abs(a); };
template <typename A, typename B> concept stores = requires(A a, B b) { ct::store(a, b); };
template <typename A> concept loads = requires(A a) { ct::load(a); };
static_assert(adds<t<int, 4>, t<int, 4>> && adds<t<int, 4, 1>, t<int, 8>> && !adds<t<int, 4>, t<int, 8>>);
static_assert(plus<t<int, 4>, int> && plus<t<float, 4>, float> && !plus<t<float, 4>, double>);
static_assert(!adds<t<__nv_tf32, 4>, t<__nv_tf32, 4>> && !adds<t<__nv_fp8_e4m3, 4>, t<__nv_fp8_e4m3, 4>>);
static_assert(ands<t<int, 4>, t<int, 4>> && !ands<t<float, 4>, t<float, 4>>);
static_assert(shifts<t<int, 4>, t<int, 4>> && !shifts<t<int, 4>, t<float, 4>> && !shifts<t<double, 4>, t<int, 4>>);
static_assert(mods<t<int, 4>, t<int, 4>> && !mods<t<__nv_fp8_e5m2, 4>, t<__nv_fp8_e5m2, 4>>);
static_assert(ceils<t<int, 4>, t<int, 4>> && !ceils<t<float, 4>, t<float, 4>>);
static_assert(negates<t<float, 4>> && !negates<t<__nv_tf32, 4>> && !negates<t<int*, 4>>);
static_assert(complements<t<int, 4>> && !complements<t<float, 4>>);
static_assert(absolute<t<float, 4>> && absolute<t<int, 4>> && !absolute<t<int*, 4>>);
static_assert(stores<t<int*, 4>, t<int, 4>> && !stores<t<int const*, 4>, t<int, 4>> && !stores<t<int*, 4>, t<int, 8>>);
static_assert(loads<t<int const*, 4>> && !loads<t<void*, 4>> && !loads<t<int, 4>>);
template <typename P, typename V> concept atomic_adds = requires(P p, V v) { ct::atomic_add(p, v, ct::memory_order_relaxed_t{}); };
template <typename P, typename V> concept atomic_ands = requires(P p, V v) { ct::atomic_and(p, v, ct::memory_order_relaxed_t{}); };
static_assert(atomic_adds<t<int*, 4>, t<int, 4>> && !atomic_adds<t<int const*, 4>, t<int, 4>> && !atomic_adds<t<int*, 4>, t<int, 8>>);
static_assert(atomic_ands<t<int*, 4>, t<int, 4>> && !atomic_ands<t<float*, 4>, t<float, 4>> && !atomic_ands<t<int, 4>, t<int, 4>>);
static_assert(__is_same(ct::tile_transpose_t<t<int, 4>>, t<int, 4>) && __is_same(ct::tile_transpose_t<t<int, 4, 2, 8>>, t<int, 2, 4, 8>));
"""


def test_everything_holds_at_compile_time() -> None:
    parts = [CLASSIFICATION, EXTENTS, CONVERSIONS, OPERATIONS, LAYOUTS, CONSTANTS, CONSTRAINTS]
    spaces = [f"namespace part{i} {{{text}}}" for i, text in enumerate(parts)]
    kernel = "__tile_global__ void k() {}"
    assert Module(PREAMBLE + "\n".join(spaces) + kernel).kernel("k").parameters == ()
