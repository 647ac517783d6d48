// Reductions and scans along one dimension (section 2.6).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {
namespace detail {
enum class fold : int { sum, prod, max, min, bit_and, bit_or, bit_xor };

template <typename S, size_t D, size_t... I>
extents<uint32_t, (I == D ? 1 : S::static_extent(I))...> reduced_shape(index_pack<size_t, I...>);
template <typename T, size_t D>
using reduced = tile<tile_element_t<T>, decltype(reduced_shape<tile_shape_t<T>, D>(indices<tile_rank_v<T>>{}))>;

template <typename T, size_t D>
using scanned = T;

template <fold F, auto D, int Modes = default_modes, typename T>
__tile__ inline auto reduce(T a) noexcept {
    using R = reduced<T, size_t(D)>;
    return make<R>(__tw_reduce(tile_code<R>, int(F), Modes, int(D), handle(a)));
}
template <fold F, auto D, int Modes = default_modes, typename T>
__tile__ inline T scan(T a) noexcept {
    return make<T>(__tw_scan(tile_code<T>, int(F), Modes, int(D), handle(a)));
}
}  // namespace detail

template <tile_like T, size_t D>
    requires detail::dimension_of<D, T>
using reduction_result_t = detail::reduced<T, D>;

#define TW_FOLD(name, elements, verb, kind, result)                              \
    template <integral auto D, elements T>                                       \
        requires detail::dimension_of<D, T>                                      \
    __tile__ inline result<T, size_t(D)> name(T a, integral_constant<D> = {}) noexcept {       \
        return detail::verb<detail::fold::kind, D>(a);                           \
    }
#define TW_ROUNDED_FOLD(name, verb, kind, result)                                                                    \
    TW_FOLD(name, arithmetic_tile, verb, kind, result)                                                               \
    template <integral auto D, rounding_mode Mode = default_rounding_mode(),                                         \
              subnormals_rounding_mode SubMode = default_subnormals_rounding_mode(), arithmetic_tile T>              \
        requires detail::dimension_of<D, T> && detail::precise_rounding_mode_available<T, Mode> &&                   \
                 detail::subnormals_mode_available<T, SubMode>                                                       \
    __tile__ inline result<T, size_t(D)> name(T a, integral_constant<D>, rounding_mode_constant<Mode>,                             \
                                subnormals_rounding_mode_constant<SubMode> = {}) noexcept {                          \
        return detail::verb<detail::fold::kind, D, detail::modes(Mode, SubMode)>(a);                                 \
    }
#define TW_EXTREMUM(name, kind)                                                                                      \
    TW_FOLD(name, arithmetic_tile, reduce, kind, reduction_result_t)                                                    \
    template <integral auto D, nan_propagation_mode Nan = default_nan_propagation_mode(),                            \
              subnormals_rounding_mode SubMode = default_subnormals_rounding_mode(), arithmetic_tile T>              \
        requires detail::dimension_of<D, T> && detail::nan_propagation_mode_available<T, Nan> &&                     \
                 detail::subnormals_mode_available<T, SubMode>                                                       \
    __tile__ inline reduction_result_t<T, size_t(D)> name(T a, integral_constant<D>, nan_propagation_mode_constant<Nan>,              \
                                         subnormals_rounding_mode_constant<SubMode> = {}) noexcept {                 \
        return detail::reduce<detail::fold::kind, D, detail::modes(Nan, SubMode)>(a);                                \
    }

TW_EXTREMUM(reduce_max, max)
TW_EXTREMUM(reduce_min, min)
TW_ROUNDED_FOLD(sum, reduce, sum, reduction_result_t)
TW_ROUNDED_FOLD(prod, reduce, prod, reduction_result_t)
TW_FOLD(reduce_bitand, integral_tile, reduce, bit_and, reduction_result_t)
TW_FOLD(reduce_bitor, integral_tile, reduce, bit_or, reduction_result_t)
TW_FOLD(reduce_bitxor, integral_tile, reduce, bit_xor, reduction_result_t)
TW_ROUNDED_FOLD(partial_sum, scan, sum, detail::scanned)
TW_ROUNDED_FOLD(partial_prod, scan, prod, detail::scanned)

#undef TW_EXTREMUM
#undef TW_ROUNDED_FOLD
#undef TW_FOLD

#define TW_LOGICAL_FOLD(name, kind)                                                                              \
    template <integral auto D, bool_tile_convertible T>                                                          \
        requires detail::dimension_of<D, T>                                                                      \
    __tile__ inline reduction_result_t<tile_with_element_t<T, bool>, size_t(D)> name(                            \
        T a, integral_constant<D> = {}) noexcept {                                                               \
        using B = tile_with_element_t<T, bool>;                                                                  \
        return detail::reduce<detail::fold::kind, D>(detail::make<B>(detail::converted_to<B>(a)));               \
    }
TW_LOGICAL_FOLD(all_of, bit_and)
TW_LOGICAL_FOLD(any_of, bit_or)
#undef TW_LOGICAL_FOLD

}  // namespace cuda::tiles::inline v1
