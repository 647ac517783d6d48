// The 8-bit floating-point types.
#pragma once
#define __CUDA_FP8_H__
#pragma clang system_header
#include "tilewright/scalar_types.h"

struct __nv_fp8_e4m3 {
    unsigned char __x;
    TW_STORAGE_FLOAT(__nv_fp8_e4m3)
};
struct __nv_fp8_e5m2 {
    unsigned char __x;
    TW_STORAGE_FLOAT(__nv_fp8_e5m2)
};
