// Another name of the CUDA runtime's header, which has all of it.
#pragma once
#include "cuda_runtime.h"
