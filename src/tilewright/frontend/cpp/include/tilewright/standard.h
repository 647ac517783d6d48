// What the original compiler includes before every program, so that programs use it without an include: limits and
// constants of the C library, assert, and the small vector types of CUDA. Standard headers may be included as well.
#pragma once
#pragma clang system_header

using intptr_t = long;
using uintptr_t = unsigned long;
using intmax_t = long;
using uintmax_t = unsigned long;
using uint = unsigned int;
using ushort = unsigned short;
using ulong = unsigned long;
namespace std {
using ::intmax_t;
using ::intptr_t;
using ::uintmax_t;
using ::uintptr_t;
using nullptr_t = decltype(nullptr);
}  // namespace std

#ifndef NULL
#define NULL __null
#endif
#ifndef CHAR_BIT
#define CHAR_BIT 8
#define SCHAR_MAX __SCHAR_MAX__
#define SCHAR_MIN (-SCHAR_MAX - 1)
#define UCHAR_MAX (SCHAR_MAX * 2 + 1)
#define CHAR_MAX SCHAR_MAX
#define CHAR_MIN SCHAR_MIN
#define SHRT_MAX __SHRT_MAX__
#define SHRT_MIN (-SHRT_MAX - 1)
#define USHRT_MAX (SHRT_MAX * 2 + 1)
#define INT_MAX __INT_MAX__
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX (INT_MAX * 2U + 1U)
#define LONG_MAX __LONG_MAX__
#define LONG_MIN (-LONG_MAX - 1L)
#define ULONG_MAX (LONG_MAX * 2UL + 1UL)
#define LLONG_MAX __LONG_LONG_MAX__
#define LLONG_MIN (-LLONG_MAX - 1LL)
#define ULLONG_MAX (LLONG_MAX * 2ULL + 1ULL)
#endif
#ifndef INT32_MAX
#define INT8_MAX SCHAR_MAX
#define INT8_MIN SCHAR_MIN
#define UINT8_MAX UCHAR_MAX
#define INT16_MAX SHRT_MAX
#define INT16_MIN SHRT_MIN
#define UINT16_MAX USHRT_MAX
#define INT32_MAX INT_MAX
#define INT32_MIN INT_MIN
#define UINT32_MAX UINT_MAX
#define INT64_MAX LONG_MAX
#define INT64_MIN LONG_MIN
#define UINT64_MAX ULONG_MAX
#define SIZE_MAX ULONG_MAX
#endif
#ifndef INFINITY
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define HUGE_VAL (__builtin_huge_val())
#define HUGE_VALF (__builtin_huge_valf())
#endif
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif

extern "C" {
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
void* memcpy(void*, void const*, size_t) noexcept;
void* memmove(void*, void const*, size_t) noexcept;
void* memset(void*, int, size_t) noexcept;
__attribute__((noreturn)) void __assert_fail(char const*, char const*, unsigned int, char const*) noexcept;
}
#ifndef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \
    ((condition) ? (void)0 : __assert_fail(#condition, __FILE__, __LINE__, static_cast<char const*>(__func__)))
#endif
#endif

// The members of a vector share its alignment: that of the whole where it has 2 or 4 of them, at most 16 bytes.
#define TW_VECTORS(name, type, two, four)           \
    struct name##1 { type x; };                     \
    struct alignas(two) name##2 { type x, y; };     \
    struct name##3 { type x, y, z; };               \
    struct alignas(four) name##4 { type x, y, z, w; }; \
    TW_MAKE_VECTORS(name, type)
#define TW_MAKE_VECTORS(name, type)                                                                        \
    constexpr name##1 make_##name##1(type x) { return {x}; }                                               \
    constexpr name##2 make_##name##2(type x, type y) { return {x, y}; }                                    \
    constexpr name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                         \
    constexpr name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
TW_VECTORS(char, signed char, 2, 4)
TW_VECTORS(uchar, unsigned char, 2, 4)
TW_VECTORS(short, short, 4, 8)
TW_VECTORS(ushort, unsigned short, 4, 8)
TW_VECTORS(int, int, 8, 16)
TW_VECTORS(uint, unsigned int, 8, 16)
TW_VECTORS(long, long, 16, 16)
TW_VECTORS(ulong, unsigned long, 16, 16)
TW_VECTORS(longlong, long long, 16, 16)
TW_VECTORS(ulonglong, unsigned long long, 16, 16)
TW_VECTORS(float, float, 8, 16)
TW_VECTORS(double, double, 16, 16)
#undef TW_VECTORS
#define TW_ALIGNED(name, type, bytes)                                                                      \
    struct alignas(bytes) name { type x, y, z, w; };                                                       \
    constexpr name make_##name(type x, type y, type z, type w) { return {x, y, z, w}; }
#define TW_BOTH_ALIGNED(name, type) TW_ALIGNED(name##4_16a, type, 16) TW_ALIGNED(name##4_32a, type, 32)
TW_BOTH_ALIGNED(long, long)
TW_BOTH_ALIGNED(ulong, unsigned long)
TW_BOTH_ALIGNED(longlong, long long)
TW_BOTH_ALIGNED(ulonglong, unsigned long long)
TW_BOTH_ALIGNED(double, double)
#undef TW_BOTH_ALIGNED
#undef TW_ALIGNED
#undef TW_MAKE_VECTORS
