// The 16-bit IEEE 754 type.
#pragma once
#pragma clang system_header
#include "tilewright/scalar_types.h"

struct __half {
    TW_NATIVE_FLOAT(__half, _Float16)
};
TW_NATIVE_OPERATORS(__half)
using half = __half;

__tile__ constexpr __half __float2half(float x) { return __half(x); }
__tile__ constexpr __half __float2half_rn(float x) { return __half(x); }
__tile__ constexpr __half __double2half(double x) { return __half(x); }
__tile__ constexpr float __half2float(__half x) { return float(x); }
