// Arithmetic of SIMT code that rounds towards zero, up or down. What is exact is the sum of two numbers: the operation's
// result, rounded to nearest in more bits or as many, and what is left, which says on which side of that it is.
#pragma once
#pragma clang system_header

namespace tilewright_rounding {
struct exact {
    double value, rest;
    bool cancels = false;  // the sum of numbers of both signs is 0: -0, rounded down
};
inline exact sum(double x, double y) {
    double s = x + y, other = s - x;
    return {s, (x - (s - other)) + (y - other), s == 0 && __builtin_signbit(x) != __builtin_signbit(y)};
}
inline exact product(double x, double y) {
    double p = x * y;
    return {p, __builtin_fma(x, y, -p)};
}
inline exact quotient(double x, double y) {
    double q = x / y, rest = __builtin_fma(-q, y, x);
    return {q, rest == 0 ? 0 : (rest < 0) == (y < 0) ? 1 : -1};
}
inline exact root(double x) {
    double r = __builtin_sqrt(x);
    return {r, __builtin_fma(-r, r, x)};
}
inline exact fused(double product, double y) { return sum(product, y); }  // of floats, whose product is exact
inline exact fused(double x, double y, double z) {
    exact p = product(x, y), low = sum(z, p.rest), high = sum(p.value, low.value);
    double near = __builtin_fma(x, y, z);
    return {near, ((high.value - near) + high.rest) + low.rest, near == 0 && __builtin_signbit(p.value) != __builtin_signbit(z)};
}
template <typename I>
inline exact whole(I x) {
    double near = double(x);
    return {near, double(__int128(x) - __int128(near))};
}

inline float next(float x, float to) { return __builtin_nextafterf(x, to); }
inline double next(double x, double to) { return __builtin_nextafter(x, to); }

// `of` in T, rounded: 'z' towards zero, 'u' up, 'd' down.
template <typename T, char way>
inline T rounded(exact of) {
    T near = T(of.value);
    if (near != near || of.value - of.value != 0) return near;
    if (of.cancels) return way == 'd' ? -T(0) : T(0);
    double left = of.value - double(near), side = left != 0 ? left : of.rest;  // above `near`, or below
    bool down = way == 'd' || (way == 'z' && of.value > 0);
    bool up = way == 'u' || (way == 'z' && of.value < 0);
    if (side < 0 && down) return next(near, -T(__builtin_inf()));
    return side > 0 && up ? next(near, T(__builtin_inf())) : near;
}
}  // namespace tilewright_rounding

#define TW_TO(name, T, letter, parameters, exact)                                                                            \
    inline T name##_r##letter parameters { return tilewright_rounding::rounded<T, #letter[0]>(tilewright_rounding::exact); }
#define TW_DIRECTED(name, T, parameters, exact) \
    TW_TO(name, T, z, parameters, exact)        \
    TW_TO(name, T, u, parameters, exact)        \
    TW_TO(name, T, d, parameters, exact)
TW_DIRECTED(__fadd, float, (float x, float y), sum(x, y))
TW_DIRECTED(__fsub, float, (float x, float y), sum(x, -y))
TW_DIRECTED(__fmul, float, (float x, float y), product(x, y))
TW_DIRECTED(__fmaf, float, (float x, float y, float z), fused(double(x) * y, z))
TW_DIRECTED(__fdiv, float, (float x, float y), quotient(x, y))
TW_DIRECTED(__frcp, float, (float x), quotient(1, x))
TW_DIRECTED(__fsqrt, float, (float x), root(x))
TW_DIRECTED(__dadd, double, (double x, double y), sum(x, y))
TW_DIRECTED(__dsub, double, (double x, double y), sum(x, -y))
TW_DIRECTED(__dmul, double, (double x, double y), product(x, y))
TW_DIRECTED(__ddiv, double, (double x, double y), quotient(x, y))
TW_DIRECTED(__drcp, double, (double x), quotient(1, x))
TW_DIRECTED(__dsqrt, double, (double x), root(x))
TW_DIRECTED(__double2float, float, (double x), sum(x, 0))
TW_DIRECTED(__int2float, float, (int x), sum(x, 0))
TW_DIRECTED(__uint2float, float, (unsigned x), sum(x, 0))
TW_DIRECTED(__fmaf_ieee, float, (float x, float y, float z), fused(double(x) * y, z))
TW_DIRECTED(__fma, double, (double x, double y, double z), fused(x, y, z))
TW_DIRECTED(__ll2float, float, (long long x), whole(x))
TW_DIRECTED(__ull2float, float, (unsigned long long x), whole(x))
TW_DIRECTED(__ll2double, double, (long long x), whole(x))
TW_DIRECTED(__ull2double, double, (unsigned long long x), whole(x))
#undef TW_DIRECTED
#undef TW_TO
inline float __fmaf_ieee_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double __uint2double_rn(unsigned x) { return x; }
inline double __ull2double_rn(unsigned long long x) { return double(x); }
inline float __ull2float_rn(unsigned long long x) { return float(x); }
inline float norm4df(float x, float y, float z, float w) {
    return float(__builtin_sqrt(double(x) * x + double(y) * y + double(z) * z + double(w) * w));
}
inline float rnorm4df(float x, float y, float z, float w) { return 1.0f / norm4df(x, y, z, w); }
inline float normf(int count, float const* x) {
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += double(x[i]) * x[i];
    return float(__builtin_sqrt(sum));
}
inline float rnormf(int count, float const* x) { return 1.0f / normf(count, x); }
#define TW_PAIRS(way)                                                                                                    \
    inline float2 __fadd2_##way(float2 x, float2 y) { return {__fadd_##way(x.x, y.x), __fadd_##way(x.y, y.y)}; }         \
    inline float2 __fmul2_##way(float2 x, float2 y) { return {__fmul_##way(x.x, y.x), __fmul_##way(x.y, y.y)}; }         \
    inline float2 __ffma2_##way(float2 x, float2 y, float2 z) {                                                          \
        return {__fmaf_##way(x.x, y.x, z.x), __fmaf_##way(x.y, y.y, z.y)};                                               \
    }
TW_PAIRS(rn) TW_PAIRS(rz) TW_PAIRS(ru) TW_PAIRS(rd)
#undef TW_PAIRS
