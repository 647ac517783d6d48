// The tensor float 32 type.
#pragma once
#pragma clang system_header
#include "tilewright/scalar_types.h"

struct __nv_tf32 {
    float __x;
    TW_STORAGE_FLOAT(__nv_tf32, __tw_stored::tf32(float(x)), __x)
};
