// SIMT code on the CPU: built-in variables, barriers, warp operations, atomics. Host code includes it where a program
#pragma once
#pragma clang system_header
#include <cmath>
#include <ctime>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <utility>

extern "C" {
// The coordinates of a thread: threadIdx, blockIdx, blockDim, gridDim, each x, y, z. They become parameters.
__attribute__((const)) unsigned __tw_simt_index(int which) noexcept;
// Waits for the threads of the block. The result combines the predicates: their number, whether all hold, or any.
// Calls of convergent functions stay one each, where LLVM would copy them into branches that threads part at.
__attribute__((convergent)) int __tw_simt_barrier(int kind, int predicate, char const* file, int line);
// Waits for the lanes of `mask`, then yields what each of them gave: 32 values of 4 or 8 bytes, of which those of other
// lanes mean nothing. A mask of 0 stands for the lanes that come here together; each of them gets their mask as its own.
__attribute__((convergent)) void const* __tw_simt_exchange(unsigned mask, unsigned long long value, int bytes,
                                                           char const* file, int line);
// What addresses of shared memory count from, in this processor's thread.
__attribute__((const)) char* __tw_simt_window() noexcept;
__attribute__((const)) unsigned __tw_simt_sm_count() noexcept;
__attribute__((const)) unsigned __tw_simt_sm_id() noexcept;  // on a GPU, which one runs the block
void __tw_simt_passed(int kind);  // told of a barrier that threads have passed, where accesses are checked
// On a GPU, where nothing is yielded: what one lane gave, which lanes gave another number than 0, and which run.
unsigned long long __tw_simt_shuffle(unsigned mask, unsigned long long value, unsigned lane);
unsigned __tw_simt_ballot(unsigned mask, unsigned predicate);
unsigned __tw_simt_active();
// What is left of inline assembly in functions for devices, which kernels must not lead to and hosts must not run.
__attribute__((weak, noinline)) void __tw_no_assembly() noexcept { __builtin_trap(); }
// The end of a thread: it becomes a return of the kernel.
__attribute__((weak, noinline, noreturn)) void __tw_simt_exit() noexcept { __builtin_trap(); }
}

namespace __tw_simt {
template <int First>
struct coordinates {
    __declspec(property(get = get_x)) unsigned x;
    __declspec(property(get = get_y)) unsigned y;
    __declspec(property(get = get_z)) unsigned z;
    unsigned get_x() const { return __tw_simt_index(First); }
    unsigned get_y() const { return __tw_simt_index(First + 1); }
    unsigned get_z() const { return __tw_simt_index(First + 2); }
    operator uint3() const { return {get_x(), get_y(), get_z()}; }
    operator dim3() const { return {get_x(), get_y(), get_z()}; }
};
// The number of a thread in its warp: threads are counted along x, then y, then z.
inline unsigned lane() {
#ifdef TW_SIMT_GPU
    unsigned row = __tw_simt_index(1) + __tw_simt_index(7) * __tw_simt_index(2);
    return (__tw_simt_index(0) + __tw_simt_index(6) * row) & 31;
#else
    return __tw_simt_index(12);
#endif
}
template <int Bytes>
struct word {
    using type = unsigned long long;
};
template <>
struct word<4> {
    using type = unsigned;
};
template <typename T>
inline auto bits_of(T value) {
    static_assert(sizeof(T) <= 8, "warp shuffles move values of up to 8 bytes");
    typename word<sizeof(T) <= 4 ? 4 : 8>::type bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return bits;
}
template <typename T, typename W>
inline T value_of(W bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
#ifdef TW_SIMT_GPU
struct exchanged {
    unsigned mask;
    unsigned long long given;
    unsigned long long operator[](unsigned lane) const { return __tw_simt_shuffle(mask, given, lane); }
};
inline exchanged exchange(unsigned mask, unsigned long long value, char const*, int) { return {mask, value}; }
// What the lane `by` behind this one gave, unless that is `outside` of the segment.
inline unsigned long long from(exchanged all, unsigned lane, int by, bool outside) { return all[outside ? lane : lane + by]; }
#else
template <typename W>
inline W const* exchange(unsigned mask, W value, char const* file, int line) {
    return (W const*)__tw_simt_exchange(mask, value, sizeof value, file, line);
}
// The same; there are words on both sides of those of the lanes, so that loops over these read words in a row.
template <typename W>
inline W from(W const* all, unsigned lane, int by, bool) {
    return all[int(lane) + by];
}
// The lanes that gave something but 0.
inline unsigned lanes_of(unsigned const* all) {
    using words = unsigned __attribute__((ext_vector_type(32)));
    using bits = bool __attribute__((ext_vector_type(32)));
    typedef words unaligned __attribute__((aligned(4)));
    return __builtin_bit_cast(unsigned, __builtin_convertvector(words(*(unaligned const*)all), bits));
}
#endif
inline int reach(unsigned delta) { return delta < 32 ? int(delta) : 32; }
template <typename T, typename F>
inline T update(T* address, F change) {
    using bits = typename word<sizeof(T)>::type;
    auto* place = (bits*)address;
    bits old = __atomic_load_n(place, __ATOMIC_RELAXED);
    for (;;) {
        T before = __builtin_bit_cast(T, old), after = change(before);
        if (__atomic_compare_exchange_n(place, &old, __builtin_bit_cast(bits, after), false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return before;
    }
}
}  // namespace __tw_simt
#ifdef TW_SIMT_GPU
#define TW_LINE __builtin_LINE()
#else
#define TW_LINE __builtin_LINE() | (__builtin_COLUMN() & 1023) << 20  // `column_shift` of the runtime
#endif
#define TW_PLACE char const *file = __builtin_FILE(), int line = TW_LINE

static constexpr __tw_simt::coordinates<0> threadIdx{};
static constexpr __tw_simt::coordinates<3> blockIdx{};
static constexpr __tw_simt::coordinates<6> blockDim{};
static constexpr __tw_simt::coordinates<9> gridDim{};
static constexpr int warpSize = 32;

// Barriers and fences.
inline void __syncthreads(TW_PLACE) { __tw_simt_barrier(0, 0, file, line); }
inline int __syncthreads_count(int predicate, TW_PLACE) { return __tw_simt_barrier(0, predicate != 0, file, line); }
inline int __syncthreads_and(int predicate, TW_PLACE) { return __tw_simt_barrier(1, predicate != 0, file, line); }
inline int __syncthreads_or(int predicate, TW_PLACE) { return __tw_simt_barrier(2, predicate != 0, file, line); }
// A cluster is one block.
inline void __cluster_barrier_arrive() {}
inline void __cluster_barrier_arrive_relaxed() {}
inline void __cluster_barrier_wait(TW_PLACE) { __syncthreads(file, line); }
inline void __syncwarp(unsigned mask = 0xffffffffu, TW_PLACE) { __tw_simt_exchange(mask, 0, 4, file, line); }
inline void cudaGraphSetConditional(unsigned long long handle, unsigned value) {
    __atomic_store_n((unsigned*)handle, value, __ATOMIC_RELAXED);
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Votes, and which lanes run at the same moment: those of the warp that come to this place together.
#ifdef TW_SIMT_GPU
inline unsigned __activemask() { return __tw_simt_active(); }
inline unsigned __ballot_sync(unsigned mask, int predicate, char const* = nullptr, int = 0) {
    return __tw_simt_ballot(mask, predicate != 0);
}
#else
inline unsigned __activemask(TW_PLACE) { return __tw_simt::exchange(0, 0u, file, line)[__tw_simt::lane()]; }
inline unsigned __ballot_sync(unsigned mask, int predicate, TW_PLACE) {
    return __tw_simt::lanes_of(__tw_simt::exchange(mask, unsigned(predicate != 0), file, line)) & mask;
}
#endif
inline int __any_sync(unsigned mask, int predicate, TW_PLACE) { return __ballot_sync(mask, predicate, file, line) != 0; }
inline int __all_sync(unsigned mask, int predicate, TW_PLACE) {
    return __ballot_sync(mask, !predicate, file, line) == 0;
}

// Shuffles: what the lane of each form is, in a segment of `width` lanes.
template <typename T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, TW_PLACE) {
    auto all = __tw_simt::exchange(mask, __tw_simt::bits_of(value), file, line);
    unsigned lane = __tw_simt::lane();
    return __tw_simt::value_of<T>(all[(lane & ~unsigned(width - 1)) | (source & (width - 1))]);
}
template <typename T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, TW_PLACE) {
    auto all = __tw_simt::exchange(mask, __tw_simt::bits_of(value), file, line);
    unsigned lane = __tw_simt::lane(), within = lane & (width - 1);
    T other = __tw_simt::value_of<T>(__tw_simt::from(all, lane, -__tw_simt::reach(delta), within < delta));
    return within < delta ? value : other;
}
template <typename T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, TW_PLACE) {
    auto all = __tw_simt::exchange(mask, __tw_simt::bits_of(value), file, line);
    unsigned lane = __tw_simt::lane(), within = lane & (width - 1);
    bool outside = within + delta >= unsigned(width);
    T other = __tw_simt::value_of<T>(__tw_simt::from(all, lane, __tw_simt::reach(delta), outside));
    return outside ? value : other;
}
template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, TW_PLACE) {
    auto all = __tw_simt::exchange(mask, __tw_simt::bits_of(value), file, line);
    unsigned lane = __tw_simt::lane(), other = lane ^ unsigned(lanes);
    // A lane of a later segment is out of reach; one of an earlier segment is not.
    bool outside = other >= (lane & ~unsigned(width - 1)) + width;
#ifndef TW_SIMT_GPU
    if (lanes > 0 && lanes < 32 && !(lanes & (lanes - 1))) {  // lanes that are so far away on one side or the other
        auto before = __tw_simt::from(all, lane, -lanes, false), behind = __tw_simt::from(all, lane, lanes, false);
        return outside ? value : __tw_simt::value_of<T>(lane & lanes ? before : behind);
    }
#endif
    T given = __tw_simt::value_of<T>(all[outside ? lane : other]);
    return outside ? value : given;
}

// Atomics, all relaxed, each the value before.
#define TW_ATOMIC_INTEGER(T)                                                                                   \
    inline T atomicAdd(T* p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }                       \
    inline T atomicSub(T* p, T v) { return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED); }                       \
    inline T atomicAnd(T* p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); }                       \
    inline T atomicOr(T* p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }                         \
    inline T atomicXor(T* p, T v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); }                       \
    inline T atomicExch(T* p, T v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }                     \
    inline T atomicMin(T* p, T v) { return __atomic_fetch_min(p, v, __ATOMIC_RELAXED); }                       \
    inline T atomicMax(T* p, T v) { return __atomic_fetch_max(p, v, __ATOMIC_RELAXED); }                       \
    inline T atomicCAS(T* p, T old, T v) {                                                                     \
        __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                    \
        return old;                                                                                            \
    }
TW_ATOMIC_INTEGER(int)
TW_ATOMIC_INTEGER(unsigned)
TW_ATOMIC_INTEGER(unsigned long long)
TW_ATOMIC_INTEGER(long long)
#undef TW_ATOMIC_INTEGER
inline unsigned short atomicCAS(unsigned short* p, unsigned short old, unsigned short v) {
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}
inline unsigned atomicInc(unsigned* p, unsigned limit) {
    return __tw_simt::update(p, [limit](unsigned x) { return x >= limit ? 0u : x + 1; });
}
inline unsigned atomicDec(unsigned* p, unsigned limit) {
    return __tw_simt::update(p, [limit](unsigned x) { return x == 0 || x > limit ? limit : x - 1; });
}
inline float atomicAdd(float* p, float v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline double atomicAdd(double* p, double v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
// Each element for itself, as on a GPU.
inline float2 atomicAdd(float2* p, float2 v) { return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)}; }
inline float4 atomicAdd(float4* p, float4 v) {
    return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y), atomicAdd(&p->z, v.z), atomicAdd(&p->w, v.w)};
}
inline float atomicExch(float* p, float v) { return __tw_simt::update(p, [v](float) { return v; }); }
// All threads share one memory, so that scopes are the same.
#define TW_SCOPED(name)                \
    template <typename... A>           \
    inline auto name##_block(A... a) { \
        return name(a...);             \
    }                                  \
    template <typename... A>           \
    inline auto name##_system(A... a) { \
        return name(a...);             \
    }
TW_SCOPED(atomicAdd)
TW_SCOPED(atomicSub)
TW_SCOPED(atomicExch)
TW_SCOPED(atomicMin)
TW_SCOPED(atomicMax)
TW_SCOPED(atomicInc)
TW_SCOPED(atomicDec)
TW_SCOPED(atomicCAS)
TW_SCOPED(atomicAnd)
TW_SCOPED(atomicOr)
TW_SCOPED(atomicXor)
#undef TW_SCOPED

// Functions of device code. Those with less precision are the precise ones here.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return ::fmin(a, b); }
inline double max(double a, double b) { return ::fmax(a, b); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / ::sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
template <typename T>
inline T __ldg(T const* p) { return *p; }
#include "tilewright/simt_functions.h"
#include "tilewright/simt_rounding.h"
#include "tilewright/simt_words.h"
#include "tilewright/ptx.h"
