// Copies to shared memory that run beside a kernel. Here they have ended when the call returns.
#pragma once
#pragma clang system_header
#include "cuda_runtime.h"

__device__ inline void __pipeline_memcpy_async(void* target, void const* source, size_t size, size_t zeros = 0) {
    __builtin_memcpy(target, source, size - zeros);
    __builtin_memset((char*)target + (size - zeros), 0, zeros);
}
__device__ inline void __pipeline_commit() {}
__device__ inline void __pipeline_wait_prior(size_t) {}
