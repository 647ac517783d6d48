// Elementwise arithmetic, comparison, bitwise and logical operations (section 2.2.1 to 2.2.24).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {
namespace detail {
enum class unary_op : int {
    neg, abs, bit_not, ceil, floor, exp2, exp, log2, log, sqrt, rsqrt, cosh, cos, sinh, sin, tanh, tan, isnan, isinf
};
enum class binary_op : int {
    add, sub, mul, div, ceildiv, floordiv, rem, bit_and, bit_or, bit_xor, shl, shr, max, min, mulhi, pow, atan2
};
enum class predicate : int { eq, ne, lt, le, gt, ge };

constexpr int modes(rounding_mode r, subnormals_rounding_mode s) { return int(r) | int(s) << 4; }
constexpr int modes(nan_propagation_mode n, subnormals_rounding_mode s) { return int(n) << 5 | int(s) << 4; }
inline constexpr int default_modes = 0;

constexpr bool is_precise(rounding_mode m) { return int(m) >= 0 && int(m) <= 3; }
constexpr bool is_rounding_mode(rounding_mode m) { return int(m) >= 0 && int(m) <= 5; }

// Constraints on modes, named so that a compiler's message reads like the document.
template <typename T, subnormals_rounding_mode M>
concept subnormals_mode_available =
    (M == subnormals_rounding_mode::preserve_subnormals) ||
    (M == subnormals_rounding_mode::round_subnormals_to_zero && __is_same(tile_element_t<T>, float));
template <typename T, rounding_mode M>
concept precise_rounding_mode_available = basic_floating_point_tile<T> && (is_precise(M));
template <typename T, rounding_mode M>
concept division_rounding_mode_available =
    basic_floating_point_tile<T> && (is_rounding_mode(M)) && (is_precise(M) || __is_same(tile_element_t<T>, float));
template <typename T, rounding_mode M>
concept sqrt_rounding_mode_available =
    basic_floating_point_tile<T> &&
    (is_precise(M) || (M == rounding_mode::round_approximate && __is_same(tile_element_t<T>, float)));
template <typename T, nan_propagation_mode M>
concept nan_propagation_mode_available = basic_floating_point_tile<T> && (int(M) >= 0 && int(M) <= 1);
template <typename T>
concept element_is_not_bool = !__is_same(tile_element_t<T>, bool);

template <binary_op Op, int Modes = default_modes, typename L, typename R>
__tile__ inline auto arithmetic(L lhs, R rhs) noexcept {
    using C = arithmetic_tile_conversion_t<L, R>;
    return make<C>(__tw_binary(tile_code<C>, int(Op), Modes, converted_to<C>(lhs), converted_to<C>(rhs)));
}
template <unary_op Op, int Modes = default_modes, typename T>
__tile__ inline T elementwise(T x) noexcept {
    return make<T>(__tw_unary(tile_code<T>, int(Op), Modes, handle(x)));
}
template <predicate P, typename L, typename R>
__tile__ inline auto compare(L lhs, R rhs) noexcept {
    using C = arithmetic_tile_comparison_t<L, R>;
    using B = mutual_broadcast_t<L, R, bool>;
    return make<B>(__tw_compare(tile_code<B>, int(P), converted_to<C>(lhs), converted_to<C>(rhs)));
}
template <binary_op Op, typename L, typename R>
__tile__ inline auto shift(L lhs, R rhs) noexcept {
    using C = mutual_broadcast_t<L, R, tile_element_t<L>>;
    return make<C>(__tw_binary(tile_code<C>, int(Op), default_modes, converted_to<C>(lhs), converted_to<C>(rhs)));
}
template <binary_op Op, typename L, typename R>
__tile__ inline auto logical(L lhs, R rhs) noexcept {
    using C = mutual_broadcast_t<L, R, bool>;
    return make<C>(__tw_binary(tile_code<C>, int(Op), default_modes, converted_to<C>(lhs), converted_to<C>(rhs)));
}
}  // namespace detail

#define TW_ARITHMETIC_FUNCTION(name, op)                                                              \
    template <arithmetic_tile Lhs, arithmetic_tile Rhs>                                               \
        requires arithmetic_tile_convertible<Lhs, Rhs>                                                \
    __tile__ inline arithmetic_tile_conversion_t<Lhs, Rhs> name(Lhs lhs, Rhs rhs) noexcept {          \
        return detail::arithmetic<detail::binary_op::op>(lhs, rhs);                                   \
    }
#define TW_ROUNDED_FUNCTION(name, op, available)                                                      \
    template <rounding_mode Mode = default_rounding_mode(),                                           \
              subnormals_rounding_mode SubMode = default_subnormals_rounding_mode(),                  \
              arithmetic_tile Lhs, arithmetic_tile Rhs>                                               \
        requires arithmetic_tile_convertible<Lhs, Rhs> &&                                             \
                 detail::available<arithmetic_tile_conversion_t<Lhs, Rhs>, Mode> &&                   \
                 detail::subnormals_mode_available<arithmetic_tile_conversion_t<Lhs, Rhs>, SubMode>   \
    __tile__ inline arithmetic_tile_conversion_t<Lhs, Rhs> name(                                      \
        Lhs lhs, Rhs rhs, rounding_mode_constant<Mode>,                                               \
        subnormals_rounding_mode_constant<SubMode> = {}) noexcept {                                   \
        return detail::arithmetic<detail::binary_op::op, detail::modes(Mode, SubMode)>(lhs, rhs);     \
    }
#define TW_MAX_MIN(name)                                                                              \
    TW_ARITHMETIC_FUNCTION(name, name)                                                                \
    template <nan_propagation_mode NanMode = default_nan_propagation_mode(),                          \
              subnormals_rounding_mode SubMode = default_subnormals_rounding_mode(),                  \
              arithmetic_tile Lhs, arithmetic_tile Rhs>                                               \
        requires arithmetic_tile_convertible<Lhs, Rhs> &&                                             \
                 detail::nan_propagation_mode_available<arithmetic_tile_conversion_t<Lhs, Rhs>, NanMode> && \
                 detail::subnormals_mode_available<arithmetic_tile_conversion_t<Lhs, Rhs>, SubMode>   \
    __tile__ inline arithmetic_tile_conversion_t<Lhs, Rhs> name(                                      \
        Lhs lhs, Rhs rhs, nan_propagation_mode_constant<NanMode>,                                     \
        subnormals_rounding_mode_constant<SubMode> = {}) noexcept {                                   \
        return detail::arithmetic<detail::binary_op::name, detail::modes(NanMode, SubMode)>(lhs, rhs); \
    }
#define TW_INTEGRAL_FUNCTION(name, op)                                                                \
    template <integral_tile Lhs, integral_tile Rhs>                                                   \
        requires arithmetic_tile_convertible<Lhs, Rhs>                                                \
    __tile__ inline arithmetic_tile_conversion_t<Lhs, Rhs> name(Lhs lhs, Rhs rhs) noexcept {          \
        return detail::arithmetic<detail::binary_op::op>(lhs, rhs);                                   \
    }
#define TW_COMPARISON(op, which)                                                                  \
    template <arithmetic_tile Lhs, arithmetic_tile Rhs>                                               \
        requires arithmetic_tile_comparable<Lhs, Rhs>                                                 \
    __tile__ inline mutual_broadcast_t<Lhs, Rhs, bool> operator op(Lhs lhs, Rhs rhs) noexcept {       \
        return detail::compare<detail::predicate::which>(lhs, rhs);                               \
    }
#define TW_SHIFT(op, name)                                                                            \
    template <integral_tile Lhs, integral_tile Rhs>                                                   \
        requires broadcast_compatible<Lhs, Rhs> && detail::element_is_not_bool<Lhs>                   \
    __tile__ inline mutual_broadcast_t<Lhs, Rhs, tile_element_t<Lhs>> operator op(Lhs lhs, Rhs rhs) noexcept { \
        return detail::shift<detail::binary_op::name>(lhs, rhs);                                      \
    }
#define TW_LOGICAL(op, name)                                                                          \
    template <bool_tile_convertible Lhs, bool_tile_convertible Rhs>                                   \
        requires broadcast_compatible<Lhs, Rhs>                                                       \
    __tile__ inline mutual_broadcast_t<Lhs, Rhs, bool> operator op(Lhs lhs, Rhs rhs) noexcept {       \
        return detail::logical<detail::binary_op::name>(lhs, rhs);                                    \
    }

TW_ARITHMETIC_FUNCTION(operator+, add)
TW_ARITHMETIC_FUNCTION(add, add)
TW_ROUNDED_FUNCTION(add, add, precise_rounding_mode_available)
TW_ARITHMETIC_FUNCTION(operator-, sub)
TW_ARITHMETIC_FUNCTION(sub, sub)
TW_ROUNDED_FUNCTION(sub, sub, precise_rounding_mode_available)
TW_ARITHMETIC_FUNCTION(operator*, mul)
TW_ARITHMETIC_FUNCTION(mul, mul)
TW_ROUNDED_FUNCTION(mul, mul, precise_rounding_mode_available)
TW_ARITHMETIC_FUNCTION(operator/, div)
TW_ARITHMETIC_FUNCTION(div, div)
TW_ROUNDED_FUNCTION(div, div, division_rounding_mode_available)
TW_INTEGRAL_FUNCTION(ceildiv, ceildiv)
TW_INTEGRAL_FUNCTION(floordiv, floordiv)
TW_INTEGRAL_FUNCTION(operator%, rem)
TW_ARITHMETIC_FUNCTION(remainder, rem)
TW_INTEGRAL_FUNCTION(operator&, bit_and)
TW_INTEGRAL_FUNCTION(operator|, bit_or)
TW_INTEGRAL_FUNCTION(operator^, bit_xor)
TW_INTEGRAL_FUNCTION(mulhi, mulhi)
TW_MAX_MIN(max)
TW_MAX_MIN(min)
TW_COMPARISON(==, eq)
TW_COMPARISON(!=, ne)
TW_COMPARISON(<, lt)
TW_COMPARISON(<=, le)
TW_COMPARISON(>, gt)
TW_COMPARISON(>=, ge)
TW_SHIFT(<<, shl)
TW_SHIFT(>>, shr)
TW_LOGICAL(&&, bit_and)
TW_LOGICAL(||, bit_or)

#undef TW_ROUNDED_FUNCTION
#undef TW_MAX_MIN
#undef TW_INTEGRAL_FUNCTION
#undef TW_COMPARISON
#undef TW_SHIFT
#undef TW_LOGICAL
#undef TW_ARITHMETIC_FUNCTION

template <arithmetic_tile T>
__tile__ inline arithmetic_tile_promotion_t<T> operator+(T x) noexcept {
    using P = arithmetic_tile_promotion_t<T>;
    return detail::make<P>(detail::converted_to<P>(x));
}
template <arithmetic_tile U>
__tile__ inline U operator-(U x) noexcept {
    return detail::elementwise<detail::unary_op::neg>(x);
}
template <integral_tile T>
    requires detail::element_is_not_bool<T>
__tile__ inline T operator~(T in) noexcept {
    return detail::elementwise<detail::unary_op::bit_not>(in);
}
template <bool_tile_convertible T>
__tile__ inline tile_with_element_t<T, bool> operator!(T x) noexcept {
    using B = tile_with_element_t<T, bool>;
    return detail::elementwise<detail::unary_op::bit_not>(detail::make<B>(detail::converted_to<B>(x)));
}
template <arithmetic_tile U>
__tile__ inline U abs(U x) noexcept {
    if constexpr (detail::is_integer_code(detail::element_code_of<U>) && !__is_signed(tile_element_t<U>)) return x;
    else return detail::elementwise<detail::unary_op::abs>(x);
}

// What is said of operators that tiles do not have, where the compiler's own message would name no constraint. Operands
// are converted, so that every other operator, a program's own included, fits better.
namespace detail {
struct tile_operand {
    template <tile_like T>
        requires(!scalar<T>)
    tile_operand(T const&);
};
struct any_operand {
    template <typename T>
    any_operand(T const&);
};
}  // namespace detail
void operator+(detail::tile_operand) = delete("it takes an arithmetic tile (arithmetic_tile) or a pointer tile");
void operator-(detail::tile_operand) = delete("it takes an arithmetic tile (arithmetic_tile)");
void operator~(detail::tile_operand) = delete("it takes an integral tile (integral_tile), and not one of bool");
void operator++(detail::tile_operand) = delete("tiles have none: write x = x + 1");
void operator++(detail::tile_operand, int) = delete("tiles have none: write x = x + 1");
void operator--(detail::tile_operand) = delete("tiles have none: write x = x - 1");
void operator--(detail::tile_operand, int) = delete("tiles have none: write x = x - 1");
#define TW_NO_ASSIGNMENT(op, constraint)                             \
    void operator op##=(detail::tile_operand, detail::any_operand) = \
        delete("tiles have none: write x = x " #op " y, for which " #constraint " must hold");
TW_NO_ASSIGNMENT(+, arithmetic_tile_convertible)
TW_NO_ASSIGNMENT(-, arithmetic_tile_convertible)
TW_NO_ASSIGNMENT(*, arithmetic_tile_convertible)
TW_NO_ASSIGNMENT(/, arithmetic_tile_convertible)
TW_NO_ASSIGNMENT(%, arithmetic_tile_convertible)
TW_NO_ASSIGNMENT(&, arithmetic_tile_convertible)
TW_NO_ASSIGNMENT(|, arithmetic_tile_convertible)
TW_NO_ASSIGNMENT(^, arithmetic_tile_convertible)
TW_NO_ASSIGNMENT(<<, broadcast_compatible)
TW_NO_ASSIGNMENT(>>, broadcast_compatible)
#undef TW_NO_ASSIGNMENT

namespace detail {
template <typename T, typename Acc>
concept fma_operand =
    broadcastable_to<T, tile_shape_t<Acc>> && non_narrowing_scalar_convertible_to<tile_element_t<T>, tile_element_t<Acc>>;
}
template <rounding_mode Mode = default_rounding_mode(),
          subnormals_rounding_mode SubMode = default_subnormals_rounding_mode(), arithmetic_tile Lhs,
          arithmetic_tile Rhs, basic_floating_point_tile Acc>
    requires detail::fma_operand<Lhs, Acc> && detail::fma_operand<Rhs, Acc> &&
             detail::precise_rounding_mode_available<Acc, Mode> && detail::subnormals_mode_available<Acc, SubMode>
__tile__ inline Acc fma(Lhs lhs, Rhs rhs, Acc acc, rounding_mode_constant<Mode> = {},
                        subnormals_rounding_mode_constant<SubMode> = {}) noexcept {
    return detail::make<Acc>(__tw_fma(detail::tile_code<Acc>, detail::modes(Mode, SubMode),
                                      detail::converted_to<Acc>(lhs), detail::converted_to<Acc>(rhs),
                                      detail::handle(acc)));
}

}  // namespace cuda::tiles::inline v1
