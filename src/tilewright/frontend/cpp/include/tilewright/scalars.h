// Scalars: classification, conversion ranks, common types (sections 1.4, 1.7 and 2.1).
#pragma once
#pragma clang system_header

struct __half;
struct __nv_bfloat16;
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;
struct __nv_tf32;

namespace cuda::tiles::inline v1 {
namespace detail {

// What the compiler calls an element type; pointers add 32 to the code of their pointee.
enum code : unsigned {
    code_bool, code_i8, code_i16, code_i32, code_i64, code_u8, code_u16, code_u32, code_u64,
    code_f16, code_bf16, code_f32, code_f64, code_tf32, code_e4m3, code_e5m2,
    code_void = 31, code_pointer = 32, code_none = 64
};

template <typename T>
consteval unsigned numeric_code() {
    if constexpr (__is_same(T, bool)) return code_bool;
    else if constexpr (__is_integral(T)) {
        constexpr unsigned base = __is_signed(T) ? code_i8 : code_u8;
        return sizeof(T) == 1 ? base : sizeof(T) == 2 ? base + 1 : sizeof(T) == 4 ? base + 2
             : sizeof(T) == 8 ? base + 3 : unsigned(code_none);
    }
    else if constexpr (__is_same(T, __half)) return code_f16;
    else if constexpr (__is_same(T, __nv_bfloat16)) return code_bf16;
    else if constexpr (__is_same(T, float)) return code_f32;
    else if constexpr (__is_same(T, double)) return code_f64;
    else if constexpr (__is_same(T, __nv_tf32)) return code_tf32;
    else if constexpr (__is_same(T, __nv_fp8_e4m3)) return code_e4m3;
    else if constexpr (__is_same(T, __nv_fp8_e5m2)) return code_e5m2;
    else return code_none;
}

template <typename T>
consteval unsigned element_code() {
    using U = __remove_cv(T);
    if constexpr (__is_pointer(U)) {
        using P = __remove_cv(__remove_pointer(U));
        if constexpr (__is_void(P)) return code_pointer + code_void;
        else return numeric_code<P>() == code_none ? unsigned(code_none) : code_pointer + numeric_code<P>();
    } else {
        return numeric_code<U>();
    }
}

constexpr bool is_integer_code(unsigned c) { return c <= code_u64; }
constexpr bool is_basic_float_code(unsigned c) { return c >= code_f16 && c <= code_f64; }
constexpr bool is_restricted_code(unsigned c) { return c >= code_tf32 && c <= code_e5m2; }
constexpr bool is_float_code(unsigned c) { return is_basic_float_code(c) || is_restricted_code(c); }
constexpr bool is_arithmetic_code(unsigned c) { return is_integer_code(c) || is_basic_float_code(c); }
constexpr bool is_numeric_code(unsigned c) { return c < code_void; }
constexpr bool is_pointer_code(unsigned c) { return c >= code_pointer && c < code_none; }
constexpr unsigned bits_of(unsigned c) {
    constexpr unsigned char bits[] = {1, 8, 16, 32, 64, 8, 16, 32, 64, 16, 16, 32, 64, 32, 8, 8};
    return c < 16 ? bits[c] : 64;
}

// Of two formats, the one with the greater level has the greater conversion rank; equal levels are unordered.
constexpr int float_level(unsigned c) {
    switch (c) {
        case code_f64: return 5;
        case code_f32: return 4;
        case code_tf32: return 3;
        case code_f16:
        case code_bf16: return 2;
        default: return 1;
    }
}

template <typename T>
inline constexpr unsigned code_of = element_code<T>();
template <typename T>
concept any_scalar = code_of<T> != code_none;

// Whether an integer type U can hold every value of the integer type T.
template <typename T, typename U>
consteval bool holds_all() {
    constexpr unsigned from = code_of<T>, to = code_of<U>;
    if (from == to || from == code_bool) return true;
    if (to == code_bool) return false;
    constexpr bool from_signed = from <= code_i64, to_signed = to <= code_i64;
    if (from_signed && !to_signed) return false;
    return bits_of(from) - from_signed <= bits_of(to) - to_signed;
}

template <typename T, typename U>
consteval bool scalar_conversion_exists() {
    constexpr unsigned from = code_of<T>, to = code_of<U>;
    if constexpr (is_pointer_code(from) && is_pointer_code(to)) return __is_convertible(T, U);
    else if constexpr (is_pointer_code(from)) return to == code_bool;
    else return is_numeric_code(to);
}
template <typename T, typename U>
consteval bool scalar_conversion_narrows() {
    constexpr unsigned from = code_of<T>, to = code_of<U>;
    if constexpr (is_pointer_code(to)) return false;
    else if constexpr (is_float_code(from) && is_float_code(to))
        return from != to && float_level(from) >= float_level(to);
    else if constexpr (is_float_code(from) || is_float_code(to)) return true;
    else return is_pointer_code(from) || !holds_all<T, U>();
}

template <typename T>
struct type_is {
    using type = T;
};
struct no_type {};

// Subranks among distinct integers of one width and signedness: `char` below the other character types, and those
// below the ordinary integers.
template <typename T>
consteval int integer_subrank() {
    if (__is_same(T, char)) return 0;
    if (__is_same(T, char8_t) || __is_same(T, char16_t) || __is_same(T, char32_t) || __is_same(T, wchar_t)) return 1;
    return 2;
}
template <typename T>
consteval int integer_rank() {
    if (__is_same(T, bool)) return 0;
    constexpr int size = sizeof(T) == 1 ? 1 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 3 : 4;
    return 2 * size + (__is_same(T, long long) || __is_same(T, unsigned long long));
}

// The arithmetic common type of two arithmetic scalars (section 1.7.4), or no_type.
template <typename T, typename U>
consteval auto common_arithmetic() {
    constexpr unsigned a = code_of<T>, b = code_of<U>;
    if constexpr (__is_same(T, U)) return type_is<T>{};
    else if constexpr (is_float_code(a) && is_float_code(b)) {
        if constexpr (float_level(a) == float_level(b)) return no_type{};
        else if constexpr (float_level(a) > float_level(b)) return type_is<T>{};
        else return type_is<U>{};
    }
    else if constexpr (is_float_code(a)) return type_is<T>{};
    else if constexpr (is_float_code(b)) return type_is<U>{};
    else if constexpr (__is_signed(T) != __is_signed(U)) {
        if constexpr (__is_signed(U)) return common_arithmetic<U, T>();
        else if constexpr (integer_rank<U>() > integer_rank<T>()) return type_is<U>{};
        else if constexpr (sizeof(T) > sizeof(U) || __is_same(U, bool)) return type_is<T>{};
        else return type_is<__make_unsigned(T)>{};
    }
    else if constexpr (integer_rank<T>() != integer_rank<U>()) {
        if constexpr (integer_rank<T>() > integer_rank<U>()) return type_is<T>{};
        else return type_is<U>{};
    }
    else if constexpr (integer_subrank<T>() > integer_subrank<U>()) return type_is<T>{};
    else return type_is<U>{};
}
template <typename T, typename U>
concept has_common_arithmetic = !__is_same(decltype(common_arithmetic<T, U>()), no_type);

template <typename T>
concept built_in_number = (__is_integral(T) || __is_floating_point(T)) && any_scalar<T>;
template <typename T>
concept any_number = is_numeric_code(code_of<T>);

// How a scalar crosses into tile code: the built-in type that carries its bits.
template <typename T>
consteval auto carrier() {
    constexpr unsigned c = code_of<T>;
    if constexpr (is_pointer_code(c)) return type_is<void const*>{};
    else if constexpr (c == code_bool) return type_is<bool>{};
    else if constexpr (c == code_f16) return type_is<_Float16>{};
    else if constexpr (c == code_bf16) return type_is<__bf16>{};
    else if constexpr (c == code_f32 || c == code_tf32) return type_is<float>{};
    else if constexpr (c == code_f64) return type_is<double>{};
    else if constexpr (bits_of(c) == 8) return type_is<unsigned char>{};
    else if constexpr (bits_of(c) == 16) return type_is<unsigned short>{};
    else if constexpr (bits_of(c) == 32) return type_is<unsigned int>{};
    else return type_is<unsigned long>{};
}

template <typename T>
__tile__ inline __tw_tile wrap(T x) noexcept {
    constexpr uint64_t type = code_of<T>;
    using C = typename decltype(carrier<T>())::type;
    C bits;
    if constexpr (is_pointer_code(code_of<T>)) bits = const_cast<void const*>(static_cast<void const volatile*>(x));
    else if constexpr (__is_class(T)) bits = __builtin_bit_cast(C, x);
    else bits = static_cast<C>(x);
    if constexpr (__is_same(C, bool)) return __tw_wrap_i1(type, bits);
    else if constexpr (__is_same(C, unsigned char)) return __tw_wrap_i8(type, bits);
    else if constexpr (__is_same(C, unsigned short)) return __tw_wrap_i16(type, bits);
    else if constexpr (__is_same(C, unsigned int)) return __tw_wrap_i32(type, bits);
    else if constexpr (__is_same(C, unsigned long)) return __tw_wrap_i64(type, bits);
    else if constexpr (__is_same(C, _Float16)) return __tw_wrap_f16(type, bits);
    else if constexpr (__is_same(C, __bf16)) return __tw_wrap_bf16(type, bits);
    else if constexpr (__is_same(C, float)) return __tw_wrap_f32(type, bits);
    else if constexpr (__is_same(C, double)) return __tw_wrap_f64(type, bits);
    else return __tw_wrap_ptr(type, bits);
}
template <typename T>
__tile__ inline T unwrap(__tw_tile h) noexcept {
    constexpr uint64_t type = code_of<T>;
    using C = typename decltype(carrier<T>())::type;
    C bits;
    if constexpr (__is_same(C, bool)) bits = __tw_unwrap_i1(type, h);
    else if constexpr (__is_same(C, unsigned char)) bits = __tw_unwrap_i8(type, h);
    else if constexpr (__is_same(C, unsigned short)) bits = __tw_unwrap_i16(type, h);
    else if constexpr (__is_same(C, unsigned int)) bits = __tw_unwrap_i32(type, h);
    else if constexpr (__is_same(C, unsigned long)) bits = __tw_unwrap_i64(type, h);
    else if constexpr (__is_same(C, _Float16)) bits = __tw_unwrap_f16(type, h);
    else if constexpr (__is_same(C, __bf16)) bits = __tw_unwrap_bf16(type, h);
    else if constexpr (__is_same(C, float)) bits = __tw_unwrap_f32(type, h);
    else if constexpr (__is_same(C, double)) bits = __tw_unwrap_f64(type, h);
    else bits = __tw_unwrap_ptr(type, h);
    if constexpr (is_pointer_code(code_of<T>)) return (T)bits;
    else if constexpr (__is_class(T)) return __builtin_bit_cast(T, bits);
    else return static_cast<T>(bits);
}
// Conversion of one scalar by the rules of tiles; the scalar types of the other headers are built on it.
template <typename To, typename From>
__tile__ inline To convert_scalar(From x) noexcept {
    return unwrap<To>(__tw_cast(code_of<To>, wrap(x)));
}

}  // namespace detail
}  // namespace cuda::tiles::inline v1
