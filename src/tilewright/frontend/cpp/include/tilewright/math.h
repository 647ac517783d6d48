// Elementwise mathematical functions (section 2.4) and the tests for infinities and NaN (2.3.5, 2.3.6).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {

#define TW_MATH(name)                                                \
    template <basic_floating_point_tile Tile>                        \
    __tile__ inline Tile name(Tile in) noexcept {                    \
        return detail::elementwise<detail::unary_op::name>(in);      \
    }
TW_MATH(ceil)
TW_MATH(floor)
TW_MATH(exp)
TW_MATH(log2)
TW_MATH(log)
TW_MATH(cosh)
TW_MATH(cos)
TW_MATH(sinh)
TW_MATH(sin)
TW_MATH(tanh)
TW_MATH(tan)
#undef TW_MATH

#define TW_MATH(name)                                                                                    \
    template <subnormals_rounding_mode SubMode = default_subnormals_rounding_mode(), basic_floating_point_tile Tile> \
        requires detail::subnormals_mode_available<Tile, SubMode>                                        \
    __tile__ inline Tile name(Tile in, subnormals_rounding_mode_constant<SubMode> = {}) noexcept {       \
        return detail::elementwise<detail::unary_op::name,                                               \
                                   detail::modes(default_rounding_mode(), SubMode)>(in);                 \
    }
TW_MATH(exp2)
TW_MATH(rsqrt)
#undef TW_MATH

template <rounding_mode Mode = default_rounding_mode(),
          subnormals_rounding_mode SubMode = default_subnormals_rounding_mode(), basic_floating_point_tile Tile>
    requires detail::sqrt_rounding_mode_available<Tile, Mode> && detail::subnormals_mode_available<Tile, SubMode>
__tile__ inline Tile sqrt(Tile x, rounding_mode_constant<Mode> = {},
                          subnormals_rounding_mode_constant<SubMode> = {}) noexcept {
    return detail::elementwise<detail::unary_op::sqrt, detail::modes(Mode, SubMode)>(x);
}

template <basic_floating_point_tile B, basic_floating_point_tile E>
    requires arithmetic_tile_convertible<B, E>
__tile__ inline arithmetic_tile_conversion_t<B, E> pow(B base, E exponent) noexcept {
    return detail::arithmetic<detail::binary_op::pow>(base, exponent);
}
template <arithmetic_tile Lhs, arithmetic_tile Rhs>
    requires arithmetic_tile_convertible<Lhs, Rhs> && basic_floating_point_tile<arithmetic_tile_conversion_t<Lhs, Rhs>>
__tile__ inline arithmetic_tile_conversion_t<Lhs, Rhs> atan2(Lhs y, Rhs x) noexcept {
    return detail::arithmetic<detail::binary_op::atan2>(y, x);
}

#define TW_TEST(name)                                                                                         \
    template <basic_floating_point_tile T>                                                                    \
    __tile__ inline tile_with_element_t<T, bool> name(T x) {                                                  \
        using B = tile_with_element_t<T, bool>;                                                               \
        return detail::make<B>(__tw_unary(detail::tile_code<B>, int(detail::unary_op::name),                  \
                                          detail::default_modes, detail::handle(x)));                         \
    }
TW_TEST(isinf)
TW_TEST(isnan)
#undef TW_TEST

}  // namespace cuda::tiles::inline v1
