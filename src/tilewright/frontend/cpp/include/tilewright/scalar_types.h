// What the headers of the extended floating-point types share.
#pragma once
#pragma clang system_header
#include "cuda_tile.h"

// A type that the compiler computes with itself: each operation rounds once.
#define TW_NATIVE_FLOAT(name, native)                                     \
    native __x;                                                           \
    name() = default;                                                     \
    template <cuda::tiles::detail::built_in_number T>                     \
    __tile__ constexpr name(T x) noexcept : __x(static_cast<native>(x)) {} \
    template <cuda::tiles::detail::built_in_number T>                     \
    __tile__ constexpr operator T() const noexcept {                      \
        return static_cast<T>(__x);                                       \
    }

#define TW_NATIVE_OPERATOR(name, op)                                                                \
    __tile__ constexpr name operator op(name a, name b) noexcept {                                  \
        name r{};                                                                                   \
        r.__x = a.__x op b.__x;                                                                     \
        return r;                                                                                   \
    }                                                                                               \
    __tile__ constexpr name& operator op##=(name& a, name b) noexcept { return a = a op b; }
#define TW_NATIVE_COMPARISON(name, op) \
    __tile__ constexpr bool operator op(name a, name b) noexcept { return a.__x op b.__x; }
#define TW_NATIVE_OPERATORS(name)                                    \
    TW_NATIVE_OPERATOR(name, +)                                      \
    TW_NATIVE_OPERATOR(name, -)                                      \
    TW_NATIVE_OPERATOR(name, *)                                      \
    TW_NATIVE_OPERATOR(name, /)                                      \
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

// A type that is only stored and converted; the conversions are those of tile elements.
#define TW_STORAGE_FLOAT(name)                                                                \
    name() = default;                                                                         \
    template <cuda::tiles::detail::any_number T>                                              \
        requires(!__is_same(T, name))                                                         \
    __tile__ explicit name(T x) noexcept {                                                    \
        *this = cuda::tiles::detail::convert_scalar<name>(x);                                 \
    }                                                                                         \
    template <cuda::tiles::detail::any_number T>                                              \
        requires(!__is_same(T, name))                                                         \
    __tile__ explicit operator T() const noexcept {                                           \
        return cuda::tiles::detail::convert_scalar<T>(*this);                                 \
    }
