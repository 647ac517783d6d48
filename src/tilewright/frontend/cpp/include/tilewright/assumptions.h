// Promises about values (section 2.15).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {
namespace detail {
enum class promise : int { blocked, bounded, bounded_above, bounded_below, divisible, divisible_strided };

template <auto V>
concept power_of_two = (V > 0) && ((V & (V - 1)) == 0);

// Bounds must lie between the least value of E and the greatest value of its signed counterpart.
constexpr __int128 least(unsigned c) {
    return c >= code_i8 && c <= code_i64 ? -(__int128(1) << (bits_of(c) - 1)) : __int128(0);
}
constexpr __int128 greatest(unsigned c) { return (__int128(1) << (bits_of(c) - 1)) - 1; }
template <auto V, typename T>
concept bound_for = integral_tile<T> && element_is_not_bool<T> && (__int128(V) >= least(element_code_of<T>)) &&
                    (__int128(V) <= greatest(element_code_of<T>));
template <typename T>
concept signed_elements = integral_tile<T> && element_is_not_bool<T> && __is_signed(tile_element_t<T>);

template <promise P, typename T, typename... V>
__tile__ inline T assume(T a, V... values) noexcept {
    return make<T>(__tw_assume(tile_code<T>, int(P), handle(a), static_cast<long>(values)...));
}

template <typename S>
consteval bool no_zero_length() {
    for (size_t i = 0; i < size_t(S::rank()); ++i)
        if (S::static_extent(i) == 0) return false;
    return true;
}
template <typename T>
concept pointer_or_integral_tile =
    is_pointer_code(element_code_of<T>) || (is_integer_code(element_code_of<T>) && arithmetic_tile<T>);
template <auto LB, auto UB>
concept bounds_in_order = __int128(LB) <= __int128(UB);
template <auto Stride>
concept positive_stride = Stride > 0;
}  // namespace detail

template <shape_like S, tile_like T>
    requires(detail::no_zero_length<S>()) && detail::same_rank<S, tile_shape_t<T>> && detail::pointer_or_integral_tile<T>
[[nodiscard]] __tile__ inline T assume_blocked(T a, S = {}) noexcept {
    return [&]<size_t... I>(detail::index_pack<size_t, I...>) {
        return detail::assume<detail::promise::blocked>(a, S::static_extent(I)...);
    }(detail::indices<tile_rank_v<T>>{});
}
template <integral auto LB, integral auto UB, integral_tile T>
    requires detail::bound_for<LB, T> && detail::bound_for<UB, T> && detail::bounds_in_order<LB, UB>
[[nodiscard]] __tile__ inline T assume_bounded(T a, integral_constant<LB> = {}, integral_constant<UB> = {}) noexcept {
    return detail::assume<detail::promise::bounded>(a, LB, UB);
}
template <integral auto UB, integral_tile T>
    requires detail::bound_for<UB, T>
[[nodiscard]] __tile__ inline T assume_bounded_above(T a, integral_constant<UB> = {}) noexcept {
    return detail::assume<detail::promise::bounded_above>(a, UB);
}
template <integral auto LB, integral_tile T>
    requires detail::bound_for<LB, T> && detail::signed_elements<T>
[[nodiscard]] __tile__ inline T assume_bounded_below(T a, integral_constant<LB> = {}) noexcept {
    return detail::assume<detail::promise::bounded_below>(a, LB);
}
template <integral auto Div, integral_tile T>
    requires detail::power_of_two<Div>
[[nodiscard]] __tile__ inline T assume_divisible(T a, integral_constant<Div> = {}) noexcept {
    return detail::assume<detail::promise::divisible>(a, Div);
}
template <integral auto Div, integral auto Stride, integral auto D, integral_tile T>
    requires detail::power_of_two<Div> && detail::positive_stride<Stride> && detail::dimension_of<D, T> && detail::signed_elements<T>
[[nodiscard]] __tile__ inline T assume_divisible_strided(T a, integral_constant<Div> = {},
                                                         integral_constant<Stride> = {},
                                                         integral_constant<D> = {}) noexcept {
    return detail::assume<detail::promise::divisible_strided>(a, Div, Stride, D);
}
template <integral auto Align, pointer_tile T>
    requires detail::power_of_two<Align>
[[nodiscard]] __tile__ inline T assume_aligned(T a, integral_constant<Align> = {}) noexcept {
    return detail::assume<detail::promise::divisible>(a, Align);
}
template <integral auto Align, integral auto Stride, integral auto D, pointer_tile T>
    requires detail::power_of_two<Align> && detail::positive_stride<Stride> && detail::dimension_of<D, T>
[[nodiscard]] __tile__ inline T assume_aligned_strided(T a, integral_constant<Align> = {},
                                                       integral_constant<Stride> = {},
                                                       integral_constant<D> = {}) noexcept {
    return detail::assume<detail::promise::divisible_strided>(a, Align, Stride, D);
}

}  // namespace cuda::tiles::inline v1
