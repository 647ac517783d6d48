// Profilers of the machine see all of a program; these mark parts of it for NVIDIA's.
#pragma once
#pragma clang system_header
#include "cuda_runtime.h"

inline cudaError_t cudaProfilerStart() { return cudaSuccess; }
inline cudaError_t cudaProfilerStop() { return cudaSuccess; }
