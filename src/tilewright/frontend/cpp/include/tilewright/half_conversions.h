// Conversions of the 16-bit floating-point types in SIMT code, by the direction of their rounding, and comparisons that
// hold for what is not a number. Integers are saturated, as on GPUs.
#pragma once
#pragma clang system_header

#ifdef TW_SIMT
namespace __tw_simt {
template <typename I, typename F>
inline I saturated_integer(F x) {
    constexpr I least = I(-1) < I(0) ? I(I(1) << (8 * sizeof(I) - 1)) : I(0), most = I(~least);
    if (x != x) return sizeof(F) == 8 || sizeof(I) == 8 ? I(I(1) << (8 * sizeof(I) - 1)) : I(0);
    return x <= F(least) ? least : x >= F(most) ? most : I(x);
}
// Whether `x` is above (1) or below (-1) a value; integers of 64 bits are compared as such.
template <typename N>
inline int side(double x, N value) {
    if (N(1) / N(2) == N(0) && (x > 9e15 || x < -9e15) && !__builtin_isinf(x)) {
        __int128 a = __int128(x), b = __int128(value);
        return (a > b) - (a < b);
    }
    return (x > double(value)) - (x < double(value));
}
// The number that is next to `value` in a direction: down (-1), up (1), or towards zero (0).
template <typename T, typename N>
inline T rounded_towards(N value, int direction) {
    T near = T(double(value));
    if (direction == 0) direction = value < N(0) ? 1 : -1;
    if (side(double(near), value) != -direction) return near;  // it is equal, or on the side that is wanted
    auto bits = __builtin_bit_cast(unsigned short, near);
    bool zero = (bits & 0x7fff) == 0, negative = bits >> 15;
    bits = zero ? (direction < 0 ? 0x8001 : 1) : (unsigned short)((direction < 0) == negative ? bits + 1 : bits - 1);
    return __builtin_bit_cast(T, bits);
}
}  // namespace __tw_simt

#define TW_TO_INTEGER(T, name, I, integer, way, rounded) \
    inline I __##name##2##integer##_##way(T x) { return __tw_simt::saturated_integer<I>(rounded(float(x))); }
#define TW_TO_ROUNDED(T, name, I, integer)         \
    TW_TO_INTEGER(T, name, I, integer, rn, rintf)  \
    TW_TO_INTEGER(T, name, I, integer, rd, floorf) \
    TW_TO_INTEGER(T, name, I, integer, ru, ceilf)
#define TW_FROM_NUMBER(T, name, N, number)                                                                \
    inline T __##number##2##name##_rd(N x) { return __tw_simt::rounded_towards<T>(x, -1); }               \
    inline T __##number##2##name##_ru(N x) { return __tw_simt::rounded_towards<T>(x, 1); }                \
    inline T __##number##2##name##_rz(N x) { return __tw_simt::rounded_towards<T>(x, 0); }
#define TW_FROM_NEAREST(T, name, N, number) \
    inline T __##number##2##name##_rn(N x) { return T(double(x)); }
#define TW_UNORDERED(T, P, name, op)                                                                      \
    inline bool __h##name##u(T a, T b) { return a != a || b != b || a op b; }                             \
    inline P __h##name##u2(P a, P b) {                                                                    \
        return P{T(float(__h##name##u(a.x, b.x))), T(float(__h##name##u(a.y, b.y)))};                     \
    }                                                                                                     \
    inline bool __hb##name##u2(P a, P b) { return __h##name##u(a.x, b.x) && __h##name##u(a.y, b.y); }     \
    inline unsigned __h##name##2_mask(P a, P b) {                                                         \
        return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);           \
    }                                                                                                     \
    inline unsigned __h##name##u2_mask(P a, P b) {                                                        \
        return (__h##name##u(a.x, b.x) ? 0xffffu : 0u) | (__h##name##u(a.y, b.y) ? 0xffff0000u : 0u);     \
    }
#define TW_HALF_CONVERSIONS(T, P, name)                                                                   \
    TW_TO_ROUNDED(T, name, int, int)                                                                      \
    TW_TO_ROUNDED(T, name, unsigned, uint)                                                                \
    TW_TO_ROUNDED(T, name, short, short)                                                                  \
    TW_TO_ROUNDED(T, name, unsigned short, ushort)                                                        \
    TW_TO_ROUNDED(T, name, long long, ll)                                                                 \
    TW_TO_ROUNDED(T, name, unsigned long long, ull)                                                       \
    TW_TO_INTEGER(T, name, int, int, rz, truncf)                                                          \
    TW_TO_INTEGER(T, name, unsigned, uint, rz, truncf)                                                    \
    TW_TO_INTEGER(T, name, short, short, rz, truncf)                                                      \
    TW_TO_INTEGER(T, name, unsigned short, ushort, rz, truncf)                                            \
    TW_TO_INTEGER(T, name, long long, ll, rz, truncf)                                                     \
    TW_TO_INTEGER(T, name, unsigned long long, ull, rz, truncf)                                           \
    TW_TO_INTEGER(T, name, signed char, char, rz, truncf)                                                 \
    TW_TO_INTEGER(T, name, unsigned char, uchar, rz, truncf)                                              \
    TW_FROM_NUMBER(T, name, float, float)                                                                 \
    TW_FROM_NUMBER(T, name, int, int)                                                                     \
    TW_FROM_NUMBER(T, name, unsigned, uint)                                                               \
    TW_FROM_NUMBER(T, name, short, short)                                                                 \
    TW_FROM_NUMBER(T, name, unsigned short, ushort)                                                       \
    TW_FROM_NUMBER(T, name, long long, ll)                                                                \
    TW_FROM_NUMBER(T, name, unsigned long long, ull)                                                      \
    TW_FROM_NEAREST(T, name, short, short)                                                                \
    TW_FROM_NEAREST(T, name, unsigned short, ushort)                                                      \
    TW_FROM_NEAREST(T, name, unsigned long long, ull)                                                     \
    inline short __##name##_as_short(T x) { return __builtin_bit_cast(short, x); }                        \
    inline T __short_as_##name(short x) { return __builtin_bit_cast(T, x); }                              \
    TW_UNORDERED(T, P, eq, ==)                                                                            \
    TW_UNORDERED(T, P, ne, !=)                                                                            \
    TW_UNORDERED(T, P, lt, <)                                                                             \
    TW_UNORDERED(T, P, le, <=)                                                                            \
    TW_UNORDERED(T, P, gt, >)                                                                             \
    TW_UNORDERED(T, P, ge, >=)                                                                            \
    inline P __hadd2_rn(P a, P b) { return a + b; }                                                       \
    inline P __hsub2_rn(P a, P b) { return a - b; }                                                       \
    inline P __hmul2_rn(P a, P b) { return a * b; }                                                       \
    inline P __hmin2_nan(P a, P b) { return P{__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)}; }              \
    inline P __hmax2_nan(P a, P b) { return P{__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)}; }              \
    inline P __hfma2_sat(P a, P b, P c) { return P{__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)}; }     \
    inline P __hfma2_relu(P a, P b, P c) { return P{__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)}; }  \
    inline P __hisnan2(P a) { return P{T(float(a.x != a.x)), T(float(a.y != a.y))}; }                     \
    /* Complex numbers: a * b + c. */                                                                     \
    inline P __hcmadd(P a, P b, P c) {                                                                    \
        return P{__hfma(-a.y, b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))};      \
    }                                                                                                     \
    inline T htanh_approx(T x) { return htanh(x); }                                                       \
    TW_PAIR_MATH(P, exp10)                                                                                \
    TW_PAIR_MATH(P, log10)                                                                                \
    TW_PAIR_MATH(P, tanh)                                                                                 \
    TW_PAIR_MATH(P, tanh_approx)
#endif
