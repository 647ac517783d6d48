// The keywords of CUDA and Tile C++. Text that is rewritten after the preprocessor ran gets them only then.
#pragma once
#pragma clang system_header

#define __tile__
#define __host__
#define __device__
#define __global__ __attribute__((annotate("tw.simt"), used))
#define __tile_global__ __attribute__((annotate("tw.kernel"), used))
