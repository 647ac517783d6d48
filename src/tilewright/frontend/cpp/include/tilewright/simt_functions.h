// Functions of SIMT code beside those of the C library. Those with less precision are the precise ones here.
#pragma once
#pragma clang system_header
#include "tilewright/half_conversions.h"

#define TW_ROUNDED(T, letter)                                                     \
    inline T __##letter##add_rn(T x, T y) { return x + y; }                       \
    inline T __##letter##sub_rn(T x, T y) { return x - y; }                       \
    inline T __##letter##mul_rn(T x, T y) { return x * y; }                       \
    inline T __##letter##div_rn(T x, T y) { return x / y; }                       \
    inline T __##letter##rcp_rn(T x) { return T(1) / x; }                         \
    inline T __##letter##sqrt_rn(T x) { return T(__builtin_sqrt(double(x))); }
TW_ROUNDED(float, f)
TW_ROUNDED(double, d)
#undef TW_ROUNDED
inline float __frsqrt_rn(float x) { return float(1 / ::sqrt(double(x))); }
inline double __fma_rn(double x, double y, double z) { return ::fma(x, y, z); }
inline float fdividef(float x, float y) { return x / y; }
inline double fdivide(double x, double y) { return x / y; }
inline float __log10f(float x) { return log10f(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __tanf(float x) { return tanf(x); }
inline void __sincosf(float x, float* sine, float* cosine) {
    *sine = sinf(x);
    *cosine = cosf(x);
}
// The fraction of a turn is exact before it meets pi.
inline double sinpi(double x) { return ::sin(M_PI * (x - 2 * ::floor(x / 2))); }
inline double cospi(double x) { return ::cos(M_PI * (x - 2 * ::floor(x / 2))); }
inline float sinpif(float x) { return float(sinpi(x)); }
inline float cospif(float x) { return float(cospi(x)); }
inline void sincospi(double x, double* sine, double* cosine) {
    *sine = sinpi(x);
    *cosine = cospi(x);
}
inline void sincospif(float x, float* sine, float* cosine) {
    *sine = sinpif(x);
    *cosine = cospif(x);
}
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline double rcbrt(double x) { return 1.0 / ::cbrt(x); }
inline float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }
inline double rhypot(double x, double y) { return 1.0 / ::hypot(x, y); }
inline double norm3d(double x, double y, double z) { return ::hypot(::hypot(x, y), z); }
inline double rnorm3d(double x, double y, double z) { return 1.0 / norm3d(x, y, z); }
inline double norm4d(double x, double y, double z, double w) { return ::hypot(norm3d(x, y, z), w); }
inline double rnorm4d(double x, double y, double z, double w) { return 1.0 / norm4d(x, y, z, w); }
inline double norm(int count, double const* x) {
    double found = 0;
    for (int i = 0; i < count; ++i) found = ::hypot(found, x[i]);
    return found;
}
inline double rnorm(int count, double const* x) { return 1.0 / norm(count, x); }
inline float norm3df(float x, float y, float z) { return float(::sqrt(double(x) * x + double(y) * y + double(z) * z)); }
inline float rnorm3df(float x, float y, float z) { return 1.0f / norm3df(x, y, z); }
inline float normcdff(float x) { return 0.5f * erfcf(-x * float(M_SQRT1_2)); }
inline double normcdf(double x) { return 0.5 * ::erfc(-x * M_SQRT1_2); }
// Steps of Newton's method, from a start that is right to two digits; towards 1 on the complement, which stays exact.
inline double erfcinv(double y) {
    if (!(y > 0 && y < 2)) return y == 0 ? INFINITY : y == 2 ? -INFINITY : NAN;
    double least = y < 1 ? y : 2 - y, log = ::log(least * (2 - least)), half = 2 / (M_PI * 0.147) + log / 2;
    double x = ::sqrt(::sqrt(half * half - log / 0.147) - half);
    for (int i = 0; i < 4 && least < 1; ++i) x += (::erfc(x) - least) / (M_2_SQRTPI * ::exp(-x * x));
    return y < 1 ? x : -x;
}
inline double erfinv(double y) {
    if (::fabs(y) > 0.5) return erfcinv(1 - y);
    double x = y / M_2_SQRTPI;
    for (int i = 0; i < 6; ++i) x -= (::erf(x) - y) / (M_2_SQRTPI * ::exp(-x * x));
    return x;
}
inline float erfinvf(float y) { return float(erfinv(y)); }
inline float erfcinvf(float y) { return float(erfcinv(y)); }
inline double normcdfinv(double y) { return -M_SQRT2 * erfcinv(2 * y); }
inline float normcdfinvf(float y) { return float(normcdfinv(y)); }

// exp(x * x) * erfc(x): above 10 by its series in 1 / x, below with what the square loses.
inline double erfcx(double x) {
    if (!(x > 10)) {
        double square = x * x, lost = ::fma(x, x, -square);
        return square > 709.8 ? (x != x ? x : INFINITY) : ::exp(square) * (1 + lost) * ::erfc(x);
    }
    double term = 1, sum = 1, step = -0.5 / x / x;
    for (int i = 1; i < 24; i += 2) sum += term *= i * step;
    return sum * (M_2_SQRTPI / 2) / x;
}
inline float erfcxf(float x) { return float(erfcx(x)); }
// Sums of positive terms.
inline double __tw_bessel_i(int order, double x) {
    double quarter = x * x / 4, term = order ? x / 2 : 1, sum = term;
    for (int k = 1; k < 2000 && ::fabs(term) > ::fabs(sum) * 1e-17; ++k) sum += term *= quarter / (double(k) * (k + order));
    return sum;
}
inline double cyl_bessel_i0(double x) { return __tw_bessel_i(0, x); }
inline double cyl_bessel_i1(double x) { return __tw_bessel_i(1, x); }
inline float cyl_bessel_i0f(float x) { return float(__tw_bessel_i(0, x)); }
inline float cyl_bessel_i1f(float x) { return float(__tw_bessel_i(1, x)); }

// Integers.
// Where the bit is that is set as the `offset`-th one from `base` on, or below it; all bits where there is none.
inline unsigned __fns(unsigned mask, unsigned base, int offset) {
    int step = offset < 0 ? -1 : 1, left = offset < 0 ? -offset : offset;
    if (left == 0) return mask >> base & 1 ? base : ~0u;
    for (int i = int(base); i >= 0 && i < 32; i += step)
        if ((mask >> i & 1) && --left == 0) return unsigned(i);
    return ~0u;
}
inline int __mul24(int x, int y) { return int((long long)(x << 8 >> 8) * (y << 8 >> 8)); }
inline unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
inline int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((unsigned long long)x * y >> 32); }
inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
inline unsigned __sad(int x, int y, unsigned z) { return z + unsigned(x < y ? (long long)y - x : (long long)x - y); }
inline unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x < y ? y - x : x - y); }
inline int __hadd(int x, int y) { return int(((long long)x + y) >> 1); }
inline int __rhadd(int x, int y) { return int(((long long)x + y + 1) >> 1); }
inline int __dp4a(int x, int y, int sum) {
    for (int i = 0; i < 32; i += 8) sum += int((signed char)(x >> i)) * int((signed char)(y >> i));
    return sum;
}
inline unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
    for (int i = 0; i < 32; i += 8) sum += (x >> i & 255) * (y >> i & 255);
    return sum;
}
inline unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned found = 0;
    for (int i = 0; i < 4; ++i) found |= unsigned(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return found;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return unsigned(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}

// Conversions: to the nearest, towards zero, up, down; what an integer cannot be becomes the nearest that it can.
#define TW_CONVERSION(from, From, to, To, way, rounded) \
    inline To __##from##2##to##_##way(From x) { return __tw_simt::saturated_integer<To>(From(rounded(double(x)))); }
#define TW_CONVERSIONS(from, From, to, To)                      \
    TW_CONVERSION(from, From, to, To, rn, __builtin_rint)       \
    TW_CONVERSION(from, From, to, To, rz, __builtin_trunc)      \
    TW_CONVERSION(from, From, to, To, ru, __builtin_ceil)       \
    TW_CONVERSION(from, From, to, To, rd, __builtin_floor)
TW_CONVERSIONS(float, float, int, int)
TW_CONVERSIONS(float, float, uint, unsigned)
TW_CONVERSIONS(float, float, ll, long long)
TW_CONVERSIONS(float, float, ull, unsigned long long)
TW_CONVERSIONS(double, double, int, int)
TW_CONVERSIONS(double, double, uint, unsigned)
TW_CONVERSIONS(double, double, ll, long long)
TW_CONVERSIONS(double, double, ull, unsigned long long)
#undef TW_CONVERSIONS
#undef TW_CONVERSION
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline double __int2double_rn(int x) { return double(x); }
inline double __ll2double_rn(long long x) { return double(x); }
inline float __double2float_rn(double x) { return float(x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return int(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)high << 32 | unsigned(low));
}

// Memory with hints about caches, which are left out.
#define TW_LOAD(name)           \
    template <typename T>       \
    inline T name(T const* p) { \
        return *p;              \
    }
TW_LOAD(__ldcg)
TW_LOAD(__ldca)
TW_LOAD(__ldcs)
TW_LOAD(__ldlu)
TW_LOAD(__ldcv)
#undef TW_LOAD
#define TW_STORE(name)                \
    template <typename T>             \
    inline void name(T* p, T value) { \
        *p = value;                   \
    }
TW_STORE(__stwb)
TW_STORE(__stcg)
TW_STORE(__stcs)
TW_STORE(__stwt)
#undef TW_STORE
inline void __nanosleep(unsigned) {}
inline long long clock64() { return (long long)__builtin_readcyclecounter(); }
namespace __tw_simt {
inline unsigned long long nanoseconds() {
#ifdef TW_SIMT_GPU
    return __builtin_readsteadycounter();
#else
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
#endif
}
// The SM that runs a block: blocks take turns, as which processor runs a thread may change.
inline unsigned sm_id() {
#ifdef TW_SIMT_GPU
    return __tw_simt_sm_id();
#else
    unsigned row = __tw_simt_index(4) + __tw_simt_index(10) * __tw_simt_index(5);
    return (__tw_simt_index(3) + __tw_simt_index(9) * row) % __tw_simt_sm_count();
#endif
}
}  // namespace __tw_simt
inline void __trap() { __builtin_trap(); }

// Warps: lanes with the same value, and reductions.
template <typename T>
inline unsigned __match_any_sync(unsigned mask, T value, TW_PLACE) {
    auto mine = __tw_simt::bits_of(value);
    auto all = __tw_simt::exchange(mask, mine, file, line);
    unsigned found = 0;
    for (int i = 0; i < 32; ++i) found |= unsigned((mask >> i & 1) && all[i] == mine) << i;
    return found;
}
inline int __uni_sync(unsigned mask, int predicate, TW_PLACE) {
    unsigned found = __ballot_sync(mask, predicate, file, line);
    return found == 0 || found == mask;
}
template <typename T>
inline unsigned __match_all_sync(unsigned mask, T value, int* same, TW_PLACE) {
    unsigned found = __match_any_sync(mask, value, file, line);
    *same = found == mask;
    return *same ? mask : 0;
}
#define TW_REDUCE(name, T, start, step)                                                \
    inline T __reduce_##name##_sync(unsigned mask, T value, TW_PLACE) {                \
        auto all = __tw_simt::exchange(mask, __tw_simt::bits_of(value), file, line);   \
        T x = start;                                                                   \
        for (int i = 0; i < 32; ++i)                                                   \
            if (mask >> i & 1) {                                                       \
                T y = __tw_simt::value_of<T>(all[i]);                                  \
                x = step;                                                              \
            }                                                                          \
        return x;                                                                      \
    }
TW_REDUCE(add, int, 0, int(unsigned(x) + unsigned(y)))
TW_REDUCE(add, unsigned, 0, x + y)
TW_REDUCE(min, int, INT_MAX, x < y ? x : y)
TW_REDUCE(min, unsigned, UINT_MAX, x < y ? x : y)
TW_REDUCE(max, int, INT_MIN, x < y ? y : x)
TW_REDUCE(max, unsigned, 0, x < y ? y : x)
TW_REDUCE(and, unsigned, UINT_MAX, x & y)
TW_REDUCE(or, unsigned, 0, x | y)
TW_REDUCE(xor, unsigned, 0, x ^ y)
#undef TW_REDUCE

// There is one space of addresses. Those of shared memory have 32 bits, though.
#define TW_SPACE(name)                                                                \
    inline size_t __cvta_generic_to_##name(void const* p) { return size_t(p); }       \
    inline void* __cvta_##name##_to_generic(size_t address) { return (void*)address; }
#ifdef TW_SIMT_GPU
TW_SPACE(shared)
#else
inline size_t __cvta_generic_to_shared(void const* p) { return unsigned((char const*)p - __tw_simt_window()); }
inline void* __cvta_shared_to_generic(size_t address) { return __tw_simt_window() + int(address); }
#endif
TW_SPACE(global) TW_SPACE(local) TW_SPACE(constant) TW_SPACE(grid_constant)
#undef TW_SPACE

// What a CPU does not have.
// Libraries ask for it in functions that no kernel leads to.
#define TW_NO_FUNCTION(result, name, ...) \
    extern "C" __attribute__((weak, noinline)) result name(__VA_ARGS__) noexcept { __builtin_trap(); }
#define TW_NO_SPACE(name) TW_NO_FUNCTION(unsigned, __is##name, void const*)
TW_NO_SPACE(Global) TW_NO_SPACE(Shared) TW_NO_SPACE(Local) TW_NO_SPACE(Constant) TW_NO_SPACE(GridConstant)
TW_NO_SPACE(ClusterShared)
TW_NO_FUNCTION(void, __barrier_sync, unsigned) TW_NO_FUNCTION(void, __barrier_sync_count, unsigned, unsigned)
#undef TW_NO_SPACE
#undef TW_NO_FUNCTION
// The kernels before have ended when one begins.
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline void __brkpt() { __builtin_debugtrap(); }
inline void __prof_trigger(int) {}
#define TW_NO_TEXTURE __attribute__((unavailable("textures and surfaces are not available on a CPU; read the array")))
#define TW_TEXTURES(name)                       \
    template <typename T = void, typename... A> \
    TW_NO_TEXTURE T name(A...);
#define TW_SAMPLED(name) TW_TEXTURES(name) TW_TEXTURES(name##Lod) TW_TEXTURES(name##Grad)
#define TW_SURFACES(name) TW_TEXTURES(name##read) TW_TEXTURES(name##write)
TW_SAMPLED(tex1D) TW_SAMPLED(tex1DLayered) TW_SAMPLED(tex2D) TW_SAMPLED(tex2DLayered) TW_SAMPLED(tex3D)
TW_SAMPLED(texCubemap) TW_SAMPLED(texCubemapLayered) TW_TEXTURES(tex1Dfetch) TW_TEXTURES(tex2Dgather)
TW_SURFACES(surf1D) TW_SURFACES(surf1DLayered) TW_SURFACES(surf2D) TW_SURFACES(surf2DLayered) TW_SURFACES(surf3D)
TW_SURFACES(surfCubemap) TW_SURFACES(surfCubemapLayered)
#undef TW_SURFACES
#undef TW_SAMPLED
#undef TW_TEXTURES
#undef TW_NO_TEXTURE
