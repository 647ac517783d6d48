// What the headers of the extended floating-point types share.
#pragma once
#pragma clang system_header
#include "cuda_tile.h"

namespace cuda::tiles::inline v1::detail {
template <typename T, typename U>
inline constexpr bool is_other_native = __is_class(T) && !__is_same(T, U) && is_basic_float_code(code_of<T>);
}

// A type that the compiler computes with itself: each operation rounds once.
#define TW_NATIVE_FLOAT(name, native)                                                                   \
    native __x;                                                                                         \
    name() = default;                                                                                   \
    template <cuda::tiles::detail::built_in_number T>                                                   \
    __tile__ constexpr name(T x) noexcept : __x(static_cast<native>(x)) {}                              \
    template <typename T>                                                                               \
        requires(__is_enum(T) && __is_convertible(T, long))                                             \
    __tile__ constexpr name(T x) noexcept : __x(static_cast<native>(x)) {}                              \
    template <typename T>                                                                               \
        requires(cuda::tiles::detail::is_other_native<T, name>)                                         \
    __tile__ constexpr explicit name(T x) noexcept : __x(static_cast<native>(static_cast<float>(x))) {} \
    template <cuda::tiles::detail::built_in_number T>                                                   \
    __tile__ constexpr operator T() const noexcept {                                                    \
        return static_cast<T>(__x);                                                                     \
    }

#define TW_NATIVE_OPERATOR(name, op)                               \
    __tile__ constexpr name operator op(name a, name b) noexcept { \
        name r{};                                                  \
        r.__x = a.__x op b.__x;                                    \
        return r;                                                  \
    }                                                              \
    __tile__ constexpr name& operator op##=(name& a, name b) noexcept { return a = a op b; }
#define TW_NATIVE_STEP(name, op)                                                            \
    __tile__ constexpr name& operator op##op(name& a) noexcept { return a = a op name(1); } \
    __tile__ constexpr name operator op##op(name& a, int) noexcept {                        \
        name before = a;                                                                    \
        a = a op name(1);                                                                   \
        return before;                                                                      \
    }
#define TW_NATIVE_COMPARISON(name, op) \
    __tile__ constexpr bool operator op(name a, name b) noexcept { return a.__x op b.__x; }
#define TW_NATIVE_OPERATORS(name)                                    \
    TW_NATIVE_OPERATOR(name, +)                                      \
    TW_NATIVE_OPERATOR(name, -)                                      \
    TW_NATIVE_OPERATOR(name, *)                                      \
    TW_NATIVE_OPERATOR(name, /)                                      \
    TW_NATIVE_STEP(name, +)                                          \
    TW_NATIVE_STEP(name, -)                                          \
    TW_NATIVE_COMPARISON(name, ==)                                   \
    TW_NATIVE_COMPARISON(name, !=)                                   \
    TW_NATIVE_COMPARISON(name, <)                                    \
    TW_NATIVE_COMPARISON(name, <=)                                   \
    TW_NATIVE_COMPARISON(name, >)                                    \
    TW_NATIVE_COMPARISON(name, >=)                                   \
    __tile__ constexpr name operator+(name a) noexcept { return a; } \
    __tile__ constexpr name operator-(name a) noexcept {             \
        name r{};                                                    \
        r.__x = -a.__x;                                              \
        return r;                                                    \
    }

// A type that is only stored and converted; the conversions are those of tile elements, and elsewhere `here` and `back`.
#ifdef TW_HOST
#include "tilewright/stored_floats.h"
#define TW_STORAGE_FLOAT(name, here, back)                                  \
    name() = default;                                                       \
    template <cuda::tiles::detail::any_number T>                            \
        requires(!__is_same(T, name))                                       \
    constexpr explicit name(T x) noexcept : __x(here) {}                    \
    template <cuda::tiles::detail::any_number T>                            \
        requires(!__is_same(T, name))                                       \
    constexpr explicit operator T() const noexcept {                        \
        return T(back);                                                     \
    }
#else
#define TW_STORAGE_FLOAT(name, here, back)                          \
    name() = default;                                         \
    template <cuda::tiles::detail::any_number T>              \
        requires(!__is_same(T, name))                         \
    __tile__ explicit name(T x) noexcept {                    \
        *this = cuda::tiles::detail::convert_scalar<name>(x); \
    }                                                         \
    template <cuda::tiles::detail::any_number T>              \
        requires(!__is_same(T, name))                         \
    __tile__ explicit operator T() const noexcept {           \
        return cuda::tiles::detail::convert_scalar<T>(*this); \
    }
#endif
