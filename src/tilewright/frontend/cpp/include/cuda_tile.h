// The CUDA Tile C++ interface of tilewright.
#pragma once

#if __cplusplus < 202002L
#error "cuda_tile.h needs C++20 or later"
#endif

#include "tilewright/intrinsics.h"
#include "cuda_runtime.h"
// Constant wrappers, extents and tiles.
#include "tilewright/constants.h"
#include "tilewright/extents.h"
#include "tilewright/scalars.h"
#include "tilewright/tile_object.h"
#include "tilewright/tile.h"
// Operations on tiles.
#include "tilewright/arithmetic.h"
#include "tilewright/pointers.h"
#include "tilewright/operations.h"
#include "tilewright/math.h"
#include "tilewright/matmul.h"
#include "tilewright/reductions.h"
// Memory.
#include "tilewright/memory.h"
#include "tilewright/layouts.h"
#include "tilewright/views.h"
// Loops and promises to the compiler.
#include "tilewright/ranges.h"
#include "tilewright/assumptions.h"
