// Constant wrappers: integers, modes, paddings, memory orders and scopes as types (section 2.13).
#pragma once
#pragma clang system_header

namespace cuda::tiles::inline v1 {

template <typename T>
concept integral = __is_integral(T);

template <integral auto V>
struct integral_constant {
    using type = integral_constant;
    using value_type = __remove_cv(decltype(V));
    static constexpr value_type value = V;
    constexpr operator value_type() const noexcept { return V; }
    constexpr value_type operator()() const noexcept { return V; }
};

#define TW_OPERATOR(op)                                                                                              \
    template <auto x, auto y>                                                                                        \
    __tile__ constexpr integral_constant<(x op y)> operator op(integral_constant<x>, integral_constant<y>) noexcept { \
        return {};                                                                                                   \
    }
TW_OPERATOR(+)
TW_OPERATOR(-)
TW_OPERATOR(*)
TW_OPERATOR(/)
TW_OPERATOR(%)
TW_OPERATOR(&)
TW_OPERATOR(|)
TW_OPERATOR(^)
TW_OPERATOR(<<)
TW_OPERATOR(>>)
#undef TW_OPERATOR
#define TW_OPERATOR(op)                                                                          \
    template <auto x>                                                                            \
    __tile__ constexpr integral_constant<(op x)> operator op(integral_constant<x>) noexcept { \
        return {};                                                                               \
    }
TW_OPERATOR(+)
TW_OPERATOR(-)
TW_OPERATOR(~)
#undef TW_OPERATOR

namespace detail {
template <typename T>
inline constexpr bool is_integral_constant = false;
template <auto V>
inline constexpr bool is_integral_constant<integral_constant<V>> = true;

constexpr bool is_decimal(char const* text, size_t length) {
    if (length > 1 && text[0] == '0') return false;
    for (size_t i = 0; i < length; ++i)
        if (text[i] != '\'' && (text[i] < '0' || text[i] > '9')) return false;
    return true;
}
// The value of a decimal literal, or 2^64 - 1 if it is greater; digit separators do not count.
constexpr unsigned long decimal_value(char const* text, size_t length) {
    unsigned long value = 0;
    for (size_t i = 0; i < length; ++i) {
        if (text[i] == '\'') continue;
        unsigned long digit = text[i] - '0';
        if (value > (~0ul - digit) / 10) return ~0ul;
        value = value * 10 + digit;
    }
    return value;
}
template <char... C>
consteval auto literal() {
    constexpr char text[] = {C...};
    static_assert(is_decimal(text, sizeof...(C)), "_ic needs a decimal integer literal");
    constexpr unsigned long value = decimal_value(text, sizeof...(C));
    static_assert(value <= 0x7fffffffffffffff, "this literal does not fit any integer type");
    if constexpr (value <= 0x7fffffff) return integral_constant<int(value)>{};
    else return integral_constant<long(value)>{};
}
}  // namespace detail

namespace literals {
template <char... C>
__tile__ constexpr auto operator""_ic() noexcept {
    return detail::literal<C...>();
}
}  // namespace literals

// An enumeration `name` with values 0 ... count - 1, and its wrapper.
#define TW_WRAPPER(name, wrapper, count)                     \
    namespace detail {                                       \
    template <name Value>                                    \
    concept valid_##name = int(Value) >= 0 && int(Value) < count; \
    }                                                        \
    template <name Value>                                    \
        requires detail::valid_##name<Value>                 \
    struct wrapper {                                         \
        using type = wrapper;                                \
        using value_type = name;                             \
        static constexpr name value = Value;                 \
        constexpr operator name() const noexcept { return Value; }   \
        constexpr name operator()() const noexcept { return Value; } \
    };

enum class rounding_mode : int {
    round_ties_to_even = 0,
    round_toward_zero = 1,
    round_toward_negative = 2,
    round_toward_positive = 3,
    round_approximate = 4,
    round_full = 5
};
TW_WRAPPER(rounding_mode, rounding_mode_constant, 6)
__tile__ constexpr rounding_mode default_rounding_mode() noexcept { return rounding_mode::round_ties_to_even; }
using round_ties_to_even_t = rounding_mode_constant<rounding_mode::round_ties_to_even>;
using round_toward_zero_t = rounding_mode_constant<rounding_mode::round_toward_zero>;
using round_toward_negative_t = rounding_mode_constant<rounding_mode::round_toward_negative>;
using round_toward_positive_t = rounding_mode_constant<rounding_mode::round_toward_positive>;
using round_approximate_t = rounding_mode_constant<rounding_mode::round_approximate>;
using round_full_t = rounding_mode_constant<rounding_mode::round_full>;
using default_rounding_mode_t = rounding_mode_constant<default_rounding_mode()>;

enum class subnormals_rounding_mode : int { preserve_subnormals = 0, round_subnormals_to_zero = 1 };
TW_WRAPPER(subnormals_rounding_mode, subnormals_rounding_mode_constant, 2)
__tile__ constexpr subnormals_rounding_mode default_subnormals_rounding_mode() noexcept {
    return subnormals_rounding_mode::preserve_subnormals;
}
using preserve_subnormals_t = subnormals_rounding_mode_constant<subnormals_rounding_mode::preserve_subnormals>;
using round_subnormals_to_zero_t =
    subnormals_rounding_mode_constant<subnormals_rounding_mode::round_subnormals_to_zero>;
using default_subnormals_rounding_mode_t = subnormals_rounding_mode_constant<default_subnormals_rounding_mode()>;

enum class nan_propagation_mode : int { suppress_nan = 0, propagate_nan = 1 };
TW_WRAPPER(nan_propagation_mode, nan_propagation_mode_constant, 2)
template <nan_propagation_mode Value>
using nan_propagation_constant = nan_propagation_mode_constant<Value>;
__tile__ constexpr nan_propagation_mode default_nan_propagation_mode() noexcept {
    return nan_propagation_mode::suppress_nan;
}
using suppress_nan_t = nan_propagation_mode_constant<nan_propagation_mode::suppress_nan>;
using propagate_nan_t = nan_propagation_mode_constant<nan_propagation_mode::propagate_nan>;
using default_nan_propagation_mode_t = nan_propagation_mode_constant<default_nan_propagation_mode()>;

enum class view_padding : int { zero = 0, negative_zero = 1, positive_inf = 2, negative_inf = 3, nan = 4 };
TW_WRAPPER(view_padding, view_padding_constant, 5)
__tile__ constexpr view_padding default_view_padding() noexcept { return view_padding::zero; }
using view_padding_zero_t = view_padding_constant<view_padding::zero>;
using view_padding_negative_zero_t = view_padding_constant<view_padding::negative_zero>;
using view_padding_positive_inf_t = view_padding_constant<view_padding::positive_inf>;
using view_padding_negative_inf_t = view_padding_constant<view_padding::negative_inf>;
using view_padding_nan_t = view_padding_constant<view_padding::nan>;
using default_view_padding_t = view_padding_constant<default_view_padding()>;

enum class memory_order : int { relaxed = 0, acquire = 1, release = 2, acq_rel = 3 };
TW_WRAPPER(memory_order, memory_order_constant, 4)
using memory_order_relaxed_t = memory_order_constant<memory_order::relaxed>;
using memory_order_acquire_t = memory_order_constant<memory_order::acquire>;
using memory_order_release_t = memory_order_constant<memory_order::release>;
using memory_order_acq_rel_t = memory_order_constant<memory_order::acq_rel>;
template <memory_order Order>
concept read_memory_order = Order == memory_order::relaxed || Order == memory_order::acquire;
template <memory_order Order>
concept write_memory_order = Order == memory_order::relaxed || Order == memory_order::release;

enum class thread_scope : int { system = 0, device = 1, block = 2 };
TW_WRAPPER(thread_scope, thread_scope_constant, 3)
__tile__ constexpr thread_scope default_thread_scope() noexcept { return thread_scope::system; }
using thread_scope_system_t = thread_scope_constant<thread_scope::system>;
using thread_scope_device_t = thread_scope_constant<thread_scope::device>;
using thread_scope_block_t = thread_scope_constant<thread_scope::block>;
using default_thread_scope_t = thread_scope_constant<default_thread_scope()>;
#undef TW_WRAPPER

namespace detail {
template <size_t... Idx>
consteval bool is_permutation() {
    constexpr size_t n = sizeof...(Idx);
    bool seen[n + 1] = {};
    constexpr size_t values[] = {Idx..., n};
    for (size_t i : values) {
        if (i > n || seen[i]) return false;
        seen[i] = true;
    }
    return true;
}
}  // namespace detail

template <size_t... Idx>
    requires(detail::is_permutation<Idx...>())
struct dimension_map {
    using rank_type = size_t;
    constexpr dimension_map() noexcept = default;
    template <typename... Ts>
        requires(sizeof...(Ts) > 0)
    explicit constexpr dimension_map(Ts...) noexcept {}
    static constexpr size_t rank() noexcept { return sizeof...(Idx); }
    static constexpr size_t mapping(rank_type i) noexcept {
        constexpr size_t values[] = {Idx..., 0};
        TW_REQUIRE(i < rank(), dimension_map_index, i, rank());
        return values[i];
    }
};
template <auto... Vs>
    requires requires { (size_t(Vs), ...); }
dimension_map(integral_constant<Vs>...) -> dimension_map<size_t(Vs)...>;

}  // namespace cuda::tiles::inline v1
