// Creating, rearranging and selecting tiles (section 2.3).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {

template <tile_like T>
__tile__ inline T full(tile_element_t<T> x) noexcept {
    using R = __remove_cv(T);
    return detail::make<R>(detail::converted_to<R>(x));
}

namespace detail {
template <typename T>
consteval bool iota_fits() {
    constexpr unsigned c = code_of<tile_element_t<T>>;
    constexpr unsigned digits = bits_of(c) - (c >= code_i8 && c <= code_i64);
    return ((tile_size_v<T> - 1) >> (digits > 62 ? 62 : digits)) == 0;
}
template <typename T>
concept iota_values_representable = iota_fits<T>();
}  // namespace detail
template <integral_tile T>
    requires detail::iota_values_representable<T>
__tile__ inline T iota() noexcept {
    using R = __remove_cv(T);
    using E = tile_element_t<T>;
    using Wide = tile_with_element_t<R, int>;
    // bool has no iota of its own: only one or two elements fit.
    if constexpr (__is_same(E, bool))
        return detail::make<R>(__tw_cast(detail::tile_code<R>, __tw_iota(detail::tile_code<Wide>)));
    else
        return detail::make<R>(__tw_iota(detail::tile_code<R>));
}
template <numeric_tile T>
__tile__ inline T ones() noexcept {
    using R = __remove_cv(T);
    return detail::make<R>(detail::converted_to<R>(1));
}
template <numeric_tile T>
__tile__ inline T zeros() noexcept {
    using R = __remove_cv(T);
    return detail::make<R>(detail::converted_to<R>(0));
}

template <tile_shape Shape, tile_like Tile>
    requires(tile_size_v<Tile> == shape_size_v<Shape>)
__tile__ inline tile<tile_element_t<Tile>, __remove_cv(Shape)> reshape(Tile x, Shape = {}) noexcept {
    using R = tile<tile_element_t<Tile>, __remove_cv(Shape)>;
    return detail::make<R>(__tw_reshape(detail::tile_code<R>, detail::handle(x)));
}

namespace detail {
template <typename T>
inline constexpr bool is_dimension_map = false;
template <size_t... I>
inline constexpr bool is_dimension_map<dimension_map<I...>> = true;
template <typename Map, typename T>
concept permutes = is_dimension_map<__remove_cv(Map)> && same_rank<Map, tile_shape_t<T>>;

template <typename T, typename Map>
struct permuted {
    using type = T;
};
template <typename E, size_t... S, size_t... I>
    requires(sizeof...(I) >= 2)
struct permuted<tile<E, extents<uint32_t, S...>>, dimension_map<I...>> {
    using type = tile<E, extents<uint32_t, extents<uint32_t, S...>::static_extent(I)...>>;
};
template <size_t... I>
consteval uint64_t axes_code(dimension_map<I...>) {
    uint64_t code = 0;
    unsigned at = 0;
    ((code |= uint64_t(I) << (4 * at++)), ...);
    return code;
}
template <size_t... I>
dimension_map<(I == 0 ? 1 : I == 1 ? 0 : I)...> swap_first(index_pack<size_t, I...>);
template <typename T>
using transposition = decltype(swap_first(indices<tile_rank_v<T>>{}));
}  // namespace detail
template <tile_like T, typename Map>
    requires detail::permutes<Map, T>
using tile_permutation_t = typename detail::permuted<__remove_cv(T), __remove_cv(Map)>::type;
template <typename Map, tile_like Tile>
    requires detail::permutes<Map, Tile>
__tile__ inline tile_permutation_t<Tile, Map> permute(Tile in, Map = {}) noexcept {
    using R = tile_permutation_t<Tile, Map>;
    if constexpr (tile_rank_v<Tile> < 2) return in;
    else return detail::make<R>(__tw_permute(detail::tile_code<R>, detail::handle(in), detail::axes_code(Map{})));
}

namespace detail {
template <typename T>
struct transposed {
    using type = T;
};
template <typename T>
    requires(tile_rank_v<T> >= 2)
struct transposed<T> {
    using type = tile_permutation_t<T, transposition<T>>;
};
}  // namespace detail
template <tile_like T>
using tile_transpose_t = typename detail::transposed<__remove_cv(T)>::type;
template <tile_like Tile>
__tile__ inline tile_transpose_t<Tile> transpose(Tile in) noexcept {
    if constexpr (tile_rank_v<Tile> < 2) return in;
    else return permute(in, detail::transposition<Tile>{});
}

namespace detail {
template <auto D>
concept dimension_index = D >= 0;
template <auto D, typename T>
concept dimension_of = dimension_index<D> && (size_t(D) < tile_rank_v<T>);
template <typename S, typename U, size_t D, size_t... I>
extents<uint32_t, (I == D ? S::static_extent(I) + U::static_extent(I) : S::static_extent(I))...> joined_shape(
    index_pack<size_t, I...>);
template <typename T, typename U, size_t D>
using joined_shape_t = decltype(joined_shape<tile_shape_t<T>, tile_shape_t<U>, D>(indices<tile_rank_v<T>>{}));
template <typename T, typename U>
concept same_element = __is_same(tile_element_t<T>, tile_element_t<U>);
template <typename T, typename U, size_t D>
consteval bool other_lengths_match() {
    for (size_t i = 0; i < tile_rank_v<T>; ++i)
        if (i != D && tile_shape_t<T>::static_extent(i) != tile_shape_t<U>::static_extent(i)) return false;
    return true;
}
}  // namespace detail
template <typename T, typename U, size_t D>
concept concatenation_compatible =
    tile_like<T> && tile_like<U> && detail::same_rank<tile_shape_t<T>, tile_shape_t<U>> && detail::same_element<T, U> &&
    detail::dimension_of<D, T> && (detail::other_lengths_match<T, U, D>()) && tile_shape<detail::joined_shape_t<T, U, D>>;
template <tile_like T, tile_like U, size_t Dim>
    requires concatenation_compatible<T, U, Dim>
using concatenation_t = tile<tile_element_t<T>, detail::joined_shape_t<T, U, Dim>>;
template <integral auto D, tile_like T, tile_like U>
    requires detail::dimension_index<D> && concatenation_compatible<T, U, size_t(D)>
__tile__ inline concatenation_t<T, U, size_t(D)> cat(T x, U y, integral_constant<D> = {}) noexcept {
    using R = concatenation_t<T, U, size_t(D)>;
    return detail::make<R>(__tw_cat(detail::tile_code<R>, detail::handle(x), detail::handle(y), int(D)));
}

template <tile_like T, bool_tile_convertible C>
    requires broadcastable_to<C, tile_shape_t<T>>
__tile__ inline T select(C condition, T lhs, T rhs) noexcept {
    return detail::make<T>(__tw_select(detail::tile_code<T>, detail::converted<bool, tile_shape_t<T>>(condition),
                                       detail::handle(lhs), detail::handle(rhs)));
}

namespace detail {
template <typename S, typename T>
consteval bool divides() {
    for (size_t i = 0; i < S::rank(); ++i)
        if (tile_shape_t<T>::static_extent(i) % S::static_extent(i) != 0) return false;
    return true;
}
template <typename T, typename... Indices>
concept tile_indices = sizeof...(Indices) == tile_rank_v<T> && (__is_convertible(Indices, size_t) && ...);
}  // namespace detail
template <typename S, typename T>
concept extractable_from =
    tile_shape<S> && tile_like<T> && detail::same_rank<S, tile_shape_t<T>> && (detail::divides<S, T>());
template <tile_shape S, tile_like T, typename... Indices>
    requires extractable_from<S, T> && detail::tile_indices<T, Indices...>
__tile__ inline tile<tile_element_t<T>, S> extract(T x, S, Indices... idx) noexcept {
    using R = tile<tile_element_t<T>, S>;
    return detail::make<R>(__tw_extract(detail::tile_code<R>, detail::handle(x), static_cast<size_t>(idx)...));
}

template <tile_shape S, tile_like T>
    requires broadcastable_to<T, S>
__tile__ inline tile<tile_element_t<T>, S> broadcast(T x, S = {}) noexcept {
    using R = tile<tile_element_t<T>, S>;
    return detail::make<R>(detail::converted_to<R>(x));
}

template <scalar E, tile_like T>
    requires tile_convertible_to<T, tile_with_element_t<T, E>>
__tile__ inline tile_with_element_t<T, E> element_cast(T x) noexcept {
    using R = tile_with_element_t<T, E>;
    return detail::make<R>(detail::converted_to<R>(x));
}

namespace detail {
template <typename E, typename T>
concept same_object_size = sizeof(E) == sizeof(tile_element_t<T>);
}
template <scalar E, tile_like T>
    requires detail::same_object_size<E, T>
__tile__ inline tile_with_element_t<T, E> element_bitcast(T x) noexcept {
    using R = tile_with_element_t<T, E>;
    return detail::make<R>(__tw_bitcast(detail::tile_code<R>, detail::handle(x)));
}

}  // namespace cuda::tiles::inline v1
