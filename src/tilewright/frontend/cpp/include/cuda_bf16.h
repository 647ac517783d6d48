// The bfloat16 type.
#pragma once
#pragma clang system_header
#include "tilewright/scalar_types.h"

struct __nv_bfloat16 {
    TW_NATIVE_FLOAT(__nv_bfloat16, __bf16)
};
TW_NATIVE_OPERATORS(__nv_bfloat16)
using nv_bfloat16 = __nv_bfloat16;

__tile__ constexpr __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
__tile__ constexpr __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
__tile__ constexpr float __bfloat162float(__nv_bfloat16 x) { return float(x); }
