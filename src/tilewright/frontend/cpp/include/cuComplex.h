// Complex numbers as pairs.
#pragma once
#pragma clang system_header
#include "cuda_runtime.h"
#include <math.h>

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define TW_COMPLEX(S, NUMBER, PAIR, ROOT)                                                             \
    __host__ __device__ inline NUMBER cuCreal##S(PAIR a) { return a.x; }                                         \
    __host__ __device__ inline NUMBER cuCimag##S(PAIR a) { return a.y; }                                         \
    __host__ __device__ inline PAIR cuConj##S(PAIR a) { return PAIR{a.x, -a.y}; }                                \
    __host__ __device__ inline PAIR cuCadd##S(PAIR a, PAIR b) { return PAIR{a.x + b.x, a.y + b.y}; }             \
    __host__ __device__ inline PAIR cuCsub##S(PAIR a, PAIR b) { return PAIR{a.x - b.x, a.y - b.y}; }             \
    __host__ __device__ inline PAIR cuCmul##S(PAIR a, PAIR b) {                                                  \
        return PAIR{a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};                                               \
    }                                                                                                            \
    /* Divides by the larger part first, so that squares do not overflow. */                                    \
    __host__ __device__ inline PAIR cuCdiv##S(PAIR a, PAIR b) {                                                  \
        NUMBER x = b.x < 0 ? -b.x : b.x, y = b.y < 0 ? -b.y : b.y, unit = x + y;                                 \
        PAIR p{a.x / unit, a.y / unit}, q{b.x / unit, b.y / unit};                                               \
        NUMBER square = q.x * q.x + q.y * q.y;                                                                   \
        return PAIR{(p.x * q.x + p.y * q.y) / square, (p.y * q.x - p.x * q.y) / square};                         \
    }                                                                                                            \
    __host__ __device__ inline PAIR cuCfma##S(PAIR a, PAIR b, PAIR c) { return cuCadd##S(cuCmul##S(a, b), c); }      \
    __host__ __device__ inline NUMBER cuCabs##S(PAIR a) { return ROOT(a.x, a.y); }
TW_COMPLEX(f, float, cuFloatComplex, hypotf)
TW_COMPLEX(, double, cuDoubleComplex, hypot)
#undef TW_COMPLEX
__host__ __device__ inline cuFloatComplex make_cuFloatComplex(float re, float im) { return {re, im}; }
__host__ __device__ inline cuDoubleComplex make_cuDoubleComplex(double re, double im) { return {re, im}; }
__host__ __device__ inline cuComplex make_cuComplex(float re, float im) { return {re, im}; }
__host__ __device__ inline cuComplex cuComplexDoubleToFloat(cuDoubleComplex a) { return {float(a.x), float(a.y)}; }
__host__ __device__ inline cuDoubleComplex cuComplexFloatToDouble(cuComplex a) { return {a.x, a.y}; }
