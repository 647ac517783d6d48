// The keywords of CUDA and Tile C++. Text that is rewritten after the preprocessor ran gets them only then.
#pragma once
#pragma clang system_header

#define __tile__
#define __host__
#define __device__
#define __constant__
#define __managed__
#ifdef TW_SIMT
#define __shared__ static thread_local
#else
#define __shared__ __attribute__((annotate("tw.shared")))
#endif
#define __grid_constant__
#define __nv_pure__
#define __maxnreg__(registers)
#define __cluster_dims__(...)  // refused but for 1
// Bounds that only devices can tell are none in the pass for the host.
template <typename... A>
constexpr int __tw_bound(int threads, A...) {
    return threads;
}
#define __launch_bounds__(...) \
    __attribute__((annotate("tw.bounds", __builtin_constant_p(__tw_bound(__VA_ARGS__)) ? __tw_bound(__VA_ARGS__) : 0)))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __align__(bytes)
#define __inline_hint__ inline
#define __global__ __attribute__((annotate("tw.simt"), used))
#define __tile_global__ __attribute__((annotate("tw.kernel"), used))
// No lambda has a type of its own for the device.
#define __nv_is_extended_device_lambda_closure_type(...) false
#define __nv_is_extended_host_device_lambda_closure_type(...) false
#define __nv_is_extended_device_lambda_with_preserved_return_type(...) false
// A wish, which is left out: headers write __attribute__((__noinline__)), where no more than that may stand for it.
#if __has_include(<__config>)
#include <__config>  // asks whether there is such an attribute
#endif
#define __noinline__
