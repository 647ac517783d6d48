// What code of the device finds before it under NVRTC, which has no headers of the C and C++ libraries.
#if __has_include(<cuda/std/cstdint>)
#include <cuda/std/cstdint>
namespace std { using namespace cuda::std; }
#else
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef signed short int16_t;
typedef unsigned short uint16_t;
typedef signed int int32_t;
typedef unsigned int uint32_t;
typedef signed long long int64_t;
typedef unsigned long long uint64_t;
namespace std {
using ::size_t; using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
}
#endif
// What `assert` of the C library leaves.
#define __extension__
extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);
static __device__ inline void __assert_fail(const char* what, const char* file, unsigned line, const char* function) {
    __assertfail(what, file, line, function, 1);
}
