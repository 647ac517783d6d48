// The 8-bit floating-point types.
#pragma once
#define __CUDA_FP8_H__
#pragma clang system_header
#include "tilewright/flags.h"
#include "tilewright/scalar_types.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
struct __nv_fp8_e4m3 {
    __nv_fp8_storage_t __x;
    TW_STORAGE_FLOAT(__nv_fp8_e4m3, __tw_stored::e4m3::bits(double(x), true), __tw_stored::e4m3::value(__x))
};
struct __nv_fp8_e5m2 {
    __nv_fp8_storage_t __x;
    TW_STORAGE_FLOAT(__nv_fp8_e5m2, __tw_stored::e5m2::bits(double(x), true), __tw_stored::e5m2::value(__x))
};
#ifdef TW_HOST
#include "cuda_bf16.h"
#include "cuda_fp16.h"

constexpr __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t how, __nv_fp8_interpretation_t kind) {
    bool finite = how == __NV_SATFINITE;
    return kind == __NV_E4M3 ? __tw_stored::e4m3::bits(x, finite) : __tw_stored::e5m2::bits(x, finite);
}
constexpr __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t how, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8(x, how, kind);
}
#define TW_FROM_RAW_FLOAT(name, T)                                                                                        \
    inline __nv_fp8_storage_t __nv_cvt_##name##raw_to_fp8(T##_raw x, __nv_saturation_t how, __nv_fp8_interpretation_t kind) { \
        return __nv_cvt_double_to_fp8(double(T(x)), how, kind);                                                           \
    }
TW_FROM_RAW_FLOAT(half, __half)
TW_FROM_RAW_FLOAT(bfloat16, __nv_bfloat16)
#undef TW_FROM_RAW_FLOAT
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return __half(kind == __NV_E4M3 ? __tw_stored::e4m3::value(x) : __tw_stored::e5m2::value(x));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_halfraw(x & 255, kind).x, __nv_cvt_fp8_to_halfraw(x >> 8, kind).x};
}
#define TW_PAIR_TO_FP8(name, P, first, second, one)                                                               \
    inline __nv_fp8x2_storage_t __nv_cvt_##name##_to_fp8x2(P v, __nv_saturation_t how, __nv_fp8_interpretation_t kind) { \
        return __nv_fp8x2_storage_t(__nv_cvt_##one##_to_fp8(first, how, kind) | __nv_cvt_##one##_to_fp8(second, how, kind) << 8); \
    }
TW_PAIR_TO_FP8(float2, float2, v.x, v.y, float)
TW_PAIR_TO_FP8(double2, double2, v.x, v.y, double)
TW_PAIR_TO_FP8(halfraw2, __half2_raw, __half_raw{v.x}, __half_raw{v.y}, halfraw)
TW_PAIR_TO_FP8(bfloat16raw2, __nv_bfloat162_raw, __nv_bfloat16_raw{v.x}, __nv_bfloat16_raw{v.y}, bfloat16raw)
#undef TW_PAIR_TO_FP8
#define TW_FP8_VECTORS(T, kind, one)                                                                                  \
    struct alignas(2) __nv_fp8x2_##kind {                                                                             \
        __nv_fp8x2_storage_t __x;                                                                                     \
        __nv_fp8x2_##kind() = default;                                                                                \
        explicit __nv_fp8x2_##kind(float2 v) : __x((unsigned short)(one(v.x).__x | one(v.y).__x << 8)) {}             \
        explicit __nv_fp8x2_##kind(__half2 v) : __nv_fp8x2_##kind(float2{float(v.x), float(v.y)}) {}                  \
        explicit operator float2() const { return {float(T::value(__x & 255)), float(T::value(__x >> 8))}; }                        \
        explicit operator __half2() const { return {__half(T::value(__x & 255)), __half(T::value(__x >> 8))}; }       \
    };                                                                                                                \
    struct alignas(4) __nv_fp8x4_##kind {                                                                             \
        __nv_fp8x4_storage_t __x;                                                                                     \
        __nv_fp8x4_##kind() = default;                                                                                \
        explicit __nv_fp8x4_##kind(float4 v)                                                                          \
            : __x(one(v.x).__x | one(v.y).__x << 8 | one(v.z).__x << 16 | unsigned(one(v.w).__x) << 24) {}            \
        explicit operator float4() const {                                                                            \
            return {float(T::value(__x & 255)), float(T::value(__x >> 8 & 255)), float(T::value(__x >> 16 & 255)), float(T::value(__x >> 24))};\
        }                                                                                                             \
    };
TW_FP8_VECTORS(__tw_stored::e4m3, e4m3, __nv_fp8_e4m3)
TW_FP8_VECTORS(__tw_stored::e5m2, e5m2, __nv_fp8_e5m2)
#undef TW_FP8_VECTORS
#endif

// Powers of two, of which a number becomes the next one down or up; a sign is lost.
constexpr __nv_fp8_storage_t __nv_cvt_double_to_e8m0(double x, __nv_saturation_t how, cudaRoundMode rounding) {
    auto bits = __builtin_bit_cast(unsigned long long, x) << 1 >> 1;
    int exponent = int(bits >> 52) - 1023 + 127 + (rounding == cudaRoundPosInf && bits << 12 != 0);
    if (x != x) return 255;
    return exponent < 0 ? 0 : exponent < 255 ? exponent : how == __NV_SATFINITE ? 254 : 255;
}
constexpr __nv_fp8_storage_t __nv_cvt_float_to_e8m0(float x, __nv_saturation_t how, cudaRoundMode rounding) {
    return __nv_cvt_double_to_e8m0(x, how, rounding);
}
struct __nv_fp8_e8m0 {
    __nv_fp8_storage_t __x;
    __nv_fp8_e8m0() = default;
    constexpr explicit __nv_fp8_e8m0(double x) : __x(__nv_cvt_double_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf)) {}
    constexpr explicit __nv_fp8_e8m0(float x) : __nv_fp8_e8m0(double(x)) {}
#ifdef TW_HOST
    explicit __nv_fp8_e8m0(__half x) : __nv_fp8_e8m0(double(x)) {}
    explicit __nv_fp8_e8m0(__nv_bfloat16 x) : __nv_fp8_e8m0(double(x)) {}
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(double(*this)); }
#endif
    constexpr explicit operator double() const {
        return __x == 255 ? __builtin_nan("") : __builtin_bit_cast(double, (__x + 1023ull - 127) << 52);
    }
    constexpr explicit operator float() const { return float(double(*this)); }
};
#ifdef TW_HOST
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_e8m0(__nv_bfloat16_raw x, __nv_saturation_t how, cudaRoundMode rounding) {
    return __nv_cvt_double_to_e8m0(double(__nv_bfloat16(x)), how, rounding);
}
inline __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x) {
    __nv_fp8_e8m0 number;
    number.__x = x;
    return __nv_bfloat16(number);
}
#endif
