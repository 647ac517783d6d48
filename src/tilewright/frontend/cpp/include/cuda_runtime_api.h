// The CUDA runtime for host code: another name of the same header.
#pragma once
#include "cuda_runtime.h"
