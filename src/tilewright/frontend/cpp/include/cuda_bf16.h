// The bfloat16 type.
#pragma once
#define __CUDA_BF16_H__
#pragma clang system_header
#include "tilewright/scalar_types.h"
#include "tilewright/half_functions.h"
#include "tilewright/half_conversions.h"

TW_RAW(__nv_bfloat16)
struct __nv_bfloat16 {
    TW_FROM_RAW(__nv_bfloat16, __nv_bfloat16_raw)
    TW_NATIVE_FLOAT(__nv_bfloat16, __bf16)
};
TW_NATIVE_OPERATORS(__nv_bfloat16)
using nv_bfloat16 = __nv_bfloat16;
TW_PAIR(__nv_bfloat16, __nv_bfloat162)
using nv_bfloat162 = __nv_bfloat162;
TW_HALF_FUNCTIONS(__nv_bfloat16, __nv_bfloat162)
TW_HALF_ELEMENT_MATH(__nv_bfloat16)
TW_HALF_MATH(__nv_bfloat16, __nv_bfloat162)

__tile__ constexpr __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
__tile__ constexpr __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
__tile__ constexpr __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
__tile__ constexpr __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
__tile__ constexpr float __bfloat162float(__nv_bfloat16 x) { return float(x); }
__tile__ constexpr unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return __builtin_bit_cast(unsigned short, x); }
__tile__ constexpr __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) {
    return __builtin_bit_cast(__nv_bfloat16, x);
}

__tile__ constexpr __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
__tile__ constexpr __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
__tile__ constexpr __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
__tile__ constexpr __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
__tile__ constexpr float2 __bfloat1622float2(__nv_bfloat162 v) { return {float(v.x), float(v.y)}; }
__tile__ constexpr __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
__tile__ constexpr __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
__tile__ constexpr __nv_bfloat162 __float2bfloat162_rn(float x) { return {__nv_bfloat16(x), __nv_bfloat16(x)}; }
__tile__ constexpr __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)}; }
__tile__ constexpr __nv_bfloat162 __low2bfloat162(__nv_bfloat162 v) { return {v.x, v.x}; }
__tile__ constexpr __nv_bfloat162 __high2bfloat162(__nv_bfloat162 v) { return {v.y, v.y}; }
__tile__ constexpr __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x, b.x}; }
__tile__ constexpr __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.y, b.y}; }
#ifdef TW_SIMT
TW_HALF_CONVERSIONS(__nv_bfloat16, __nv_bfloat162, bfloat16)
TW_FROM_NEAREST(__nv_bfloat16, bfloat16, unsigned, uint)
TW_FROM_NEAREST(__nv_bfloat16, bfloat16, long long, ll)
#endif
