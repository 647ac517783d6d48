// Matrix multiplication (section 2.5).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {
namespace detail {
template <typename L, typename R>
consteval bool factors_match() {
    constexpr unsigned l = element_code_of<L>, r = element_code_of<R>;
    if (is_integer_code(l) && is_integer_code(r)) return bits_of(l) == 8 && bits_of(r) == 8;
    return is_float_code(l) && l == r;
}
template <typename L, typename A>
consteval bool accumulator_matches() {
    constexpr unsigned l = element_code_of<L>, a = element_code_of<A>;
    switch (l) {
        case code_i8:
        case code_u8: return a == code_i32;
        case code_e4m3:
        case code_e5m2:
        case code_f16: return a == code_f16 || a == code_f32;
        case code_bf16:
        case code_tf32:
        case code_f32: return a == code_f32;
        case code_f64: return a == code_f64;
        default: return false;
    }
}
template <typename L, typename R>
consteval auto product_element() {
    constexpr unsigned l = element_code_of<L>;
    if constexpr (is_integer_code(l)) return type_is<int32_t>{};
    else if constexpr (l == code_e4m3 || l == code_e5m2 || l == code_f16) return type_is<__half>{};
    else if constexpr (l == code_f64) return type_is<double>{};
    else return type_is<float>{};
}
template <typename T>
constexpr size_t length(size_t i) {
    return tile_shape_t<T>::static_extent(i);
}
template <typename T, typename U>
consteval bool ranks_match() {
    return tile_rank_v<T> == tile_rank_v<U> && (tile_rank_v<T> == 2 || tile_rank_v<T> == 3);
}
template <typename L, typename R>
consteval bool inner_lengths_match() {
    constexpr size_t n = tile_rank_v<L>;
    return length<L>(n - 1) == length<R>(n - 2);
}
template <typename L, typename R>
consteval bool batches_match() {
    return tile_rank_v<L> == 2 || length<L>(0) == length<R>(0) || length<L>(0) == 1 || length<R>(0) == 1;
}
template <typename L, typename R, typename A>
consteval bool accumulator_fits() {
    constexpr size_t n = tile_rank_v<A>;
    if (length<A>(n - 2) != length<L>(n - 2) || length<A>(n - 1) != length<R>(n - 1)) return false;
    return n == 2 || ((length<L>(0) == 1 || length<L>(0) == length<A>(0)) &&
                      (length<R>(0) == 1 || length<R>(0) == length<A>(0)));
}
template <typename L, typename R>
consteval auto product_shape() {
    if constexpr (tile_rank_v<L> == 2) return type_is<extents<uint32_t, length<L>(0), length<R>(1)>>{};
    else {
        constexpr size_t batches = length<L>(0) < length<R>(0) ? length<R>(0) : length<L>(0);
        return type_is<extents<uint32_t, batches, length<L>(1), length<R>(2)>>{};
    }
}
template <typename L, typename R>
using product_shape_t = typename decltype(product_shape<L, R>())::type;
// The operand with its batch dimension stretched to B matrices.
template <size_t B, typename T>
__tile__ inline __tw_tile batched(T x) noexcept {
    if constexpr (tile_rank_v<T> == 2) return handle(x);
    else return converted<tile_element_t<T>, extents<uint32_t, B, length<T>(1), length<T>(2)>>(x);
}
template <typename A, typename L, typename R>
__tile__ inline A multiply(L lhs, R rhs, __tw_tile acc) noexcept {
    constexpr size_t b = length<A>(0);
    return make<A>(__tw_mma(tile_code<A>, batched<b>(lhs), batched<b>(rhs), acc));
}
}  // namespace detail

template <typename L, typename R, typename A>
concept mma_compatible =
    numeric_tile<L> && numeric_tile<R> && numeric_tile<A> && (detail::factors_match<L, R>()) &&
    (detail::accumulator_matches<L, A>()) && (detail::ranks_match<L, R>()) && (detail::ranks_match<L, A>()) &&
    (detail::inner_lengths_match<L, R>()) && (detail::accumulator_fits<L, R, A>());
template <typename L, typename R>
concept matmul_compatible =
    numeric_tile<L> && numeric_tile<R> && (detail::factors_match<L, R>()) && (detail::ranks_match<L, R>()) &&
    (detail::inner_lengths_match<L, R>()) && (detail::batches_match<L, R>()) &&
    tile_shape<detail::product_shape_t<L, R>>;
template <numeric_tile L, numeric_tile R>
    requires matmul_compatible<L, R>
using matmul_result_t = tile<typename decltype(detail::product_element<L, R>())::type,
                             detail::product_shape_t<L, R>>;

template <numeric_tile L, numeric_tile R, numeric_tile A>
    requires mma_compatible<L, R, A>
__tile__ inline A mma(L lhs, R rhs, A acc) noexcept {
    return detail::multiply<A>(lhs, rhs, detail::handle(acc));
}
template <numeric_tile L, numeric_tile R>
    requires matmul_compatible<L, R>
__tile__ inline matmul_result_t<L, R> matmul(L lhs, R rhs) noexcept {
    using A = matmul_result_t<L, R>;
    return detail::multiply<A>(lhs, rhs, detail::converted_to<A>(0));
}

}  // namespace cuda::tiles::inline v1
