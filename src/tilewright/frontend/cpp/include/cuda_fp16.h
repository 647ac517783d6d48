// The 16-bit IEEE 754 type.
#pragma once
#define __CUDA_FP16_H__
#pragma clang system_header
#include "tilewright/scalar_types.h"
#include "tilewright/half_functions.h"
#include "tilewright/half_conversions.h"

TW_RAW(__half)
struct __half {
    TW_FROM_RAW(__half, __half_raw)
    TW_NATIVE_FLOAT(__half, _Float16)
};
TW_NATIVE_OPERATORS(__half)
using half = __half;
TW_PAIR(__half, __half2)
using half2 = __half2;
TW_HALF_FUNCTIONS(__half, __half2)
TW_HALF_ELEMENT_MATH(__half)
TW_HALF_MATH(__half, __half2)

__tile__ constexpr __half __float2half(float x) { return __half(x); }
__tile__ constexpr __half __float2half_rn(float x) { return __half(x); }
__tile__ constexpr __half __double2half(double x) { return __half(x); }
__tile__ constexpr __half __int2half_rn(int x) { return __half(x); }
__tile__ constexpr float __half2float(__half x) { return float(x); }
__tile__ constexpr __half __uint2half_rn(unsigned x) { return __half(double(x)); }
__tile__ constexpr __half __ll2half_rn(long long x) { return __half(double(x)); }
__tile__ constexpr unsigned short __half_as_ushort(__half x) { return __builtin_bit_cast(unsigned short, x); }
__tile__ constexpr __half __ushort_as_half(unsigned short x) { return __builtin_bit_cast(__half, x); }

__tile__ constexpr __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
__tile__ constexpr __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
__tile__ constexpr __half2 __low2half2(__half2 v) { return {v.x, v.x}; }
__tile__ constexpr __half2 __high2half2(__half2 v) { return {v.y, v.y}; }
__tile__ constexpr __half2 make_half2(__half x, __half y) { return {x, y}; }
__tile__ constexpr __half2 __halves2half2(__half x, __half y) { return {x, y}; }
__tile__ constexpr __half2 __half2half2(__half x) { return {x, x}; }
__tile__ constexpr __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
__tile__ constexpr __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
__tile__ constexpr __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
__tile__ constexpr float2 __half22float2(__half2 v) { return {float(v.x), float(v.y)}; }
__tile__ constexpr __half __low2half(__half2 v) { return v.x; }
__tile__ constexpr __half __high2half(__half2 v) { return v.y; }
#ifdef TW_SIMT
TW_HALF_CONVERSIONS(__half, __half2, half)
#else
__tile__ constexpr int __half2int_rz(__half x) { return int(x); }
__tile__ constexpr unsigned __half2uint_rz(__half x) { return unsigned(float(x)); }
#endif
