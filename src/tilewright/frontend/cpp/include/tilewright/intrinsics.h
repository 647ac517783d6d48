// What the compiler itself provides: keywords, built-in types, and the functions that become Tile IR operations.
//
// A tile value is one opaque handle. Each operation is a call whose constant arguments are read from the optimized
// code, so they must be constant expressions. `type` packs the type of the result (see `tile_code`).
#pragma once
#pragma clang system_header

#ifndef TW_KEYWORDS_STAY
#include "tilewright/keywords.h"
#endif

using size_t = decltype(sizeof(0));
using ptrdiff_t = decltype((char*)nullptr - (char*)nullptr);
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;
namespace std {
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::ptrdiff_t;
using ::size_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
}  // namespace std

#include "tilewright/standard.h"

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

extern "C" int printf(char const*, ...);

typedef struct __tw_opaque __attribute__((address_space(100))) * __tw_tile;

// Checked programs keep every operation where it is, used or not, and say what they break.
#ifdef TW_CHECKED
#define TW_PURE noexcept
#define TW_IS_CHECKED true
#define TW_REQUIRE(condition, kind, x, y) \
    ((condition) ? void() : __tw_broken(int(cuda::tiles::detail::rule::kind), long(x), long(y)))
#else
#define TW_PURE noexcept __attribute__((const))
#define TW_IS_CHECKED false
#define TW_REQUIRE(condition, kind, x, y) void()
#endif
namespace cuda::tiles::inline v1::detail {
inline constexpr bool checked = TW_IS_CHECKED;
enum class rule : int {
    irange_step, irange_bound, extent_index, extent_overflow, dimension_map_index, stride_index, stride_overflow
};
}
extern "C" {
// What is left of a kernel launch, and of a function for SIMT code: tile code that gets there is refused.
void __tw_no_launch() noexcept;
void __tw_no_simt_function() noexcept;
int __tw_bid(int axis) TW_PURE;
int __tw_num_blocks(int axis) TW_PURE;
void __tw_broken(int rule, long x, long y) noexcept;

__tw_tile __tw_undefined(uint64_t type) TW_PURE;
__tw_tile __tw_iota(uint64_t type) TW_PURE;
__tw_tile __tw_unary(uint64_t type, int op, int modes, __tw_tile x) TW_PURE;
__tw_tile __tw_binary(uint64_t type, int op, int modes, __tw_tile x, __tw_tile y) TW_PURE;
__tw_tile __tw_compare(uint64_t type, int predicate, __tw_tile x, __tw_tile y) TW_PURE;
__tw_tile __tw_fma(uint64_t type, int modes, __tw_tile x, __tw_tile y, __tw_tile z) TW_PURE;
__tw_tile __tw_select(uint64_t type, __tw_tile condition, __tw_tile x, __tw_tile y) TW_PURE;
__tw_tile __tw_cast(uint64_t type, __tw_tile x) TW_PURE;
__tw_tile __tw_bitcast(uint64_t type, __tw_tile x) TW_PURE;
__tw_tile __tw_reshape(uint64_t type, __tw_tile x) TW_PURE;
// The bytes of a tile of two or four, as one number.
unsigned short __tw_pack_i16(uint64_t type, __tw_tile x) TW_PURE;
__tw_tile __tw_unpack_i16(uint64_t type, unsigned short bits) TW_PURE;
unsigned int __tw_pack_i32(uint64_t type, __tw_tile x) TW_PURE;
__tw_tile __tw_unpack_i32(uint64_t type, unsigned int bits) TW_PURE;
__tw_tile __tw_broadcast(uint64_t type, __tw_tile x) TW_PURE;
__tw_tile __tw_permute(uint64_t type, __tw_tile x, uint64_t axes) TW_PURE;
__tw_tile __tw_cat(uint64_t type, __tw_tile x, __tw_tile y, int axis) TW_PURE;
__tw_tile __tw_extract(uint64_t type, __tw_tile x, ...) TW_PURE;
__tw_tile __tw_offset(uint64_t type, __tw_tile pointers, __tw_tile offsets) TW_PURE;
__tw_tile __tw_difference(uint64_t type, __tw_tile x, __tw_tile y) TW_PURE;
__tw_tile __tw_mma(uint64_t type, __tw_tile x, __tw_tile y, __tw_tile accumulator) TW_PURE;
__tw_tile __tw_reduce(uint64_t type, int kind, int modes, int axis, __tw_tile x) TW_PURE;
__tw_tile __tw_scan(uint64_t type, int kind, int modes, int axis, __tw_tile x) TW_PURE;
__tw_tile __tw_assume(uint64_t type, int kind, __tw_tile x, ...) TW_PURE;

// Absent masks and paddings are null handles.
__tw_tile __tw_load(uint64_t type, int order, int scope, __tw_tile pointers, __tw_tile mask, __tw_tile pad) noexcept;
void __tw_store(int order, int scope, __tw_tile pointers, __tw_tile value, __tw_tile mask) noexcept;
__tw_tile __tw_atomic(uint64_t type, int kind, int order, int scope, __tw_tile pointers, __tw_tile value,
                      __tw_tile mask) noexcept;
__tw_tile __tw_compare_exchange(uint64_t type, int order, int scope, __tw_tile pointers, __tw_tile expected,
                                __tw_tile desired, __tw_tile mask) noexcept;
// The pack holds `rank` extents, strides and tile indices each. A padding of -1 promises a tile that is in bounds.
__tw_tile __tw_load_view(uint64_t type, int order, int scope, int padding, void const* base, int rank, ...) noexcept;
void __tw_store_view(uint64_t type, int order, int scope, int padding, void const* base, __tw_tile value, int rank,
                     ...) noexcept;

// Where a statement with hints begins, once per hint, and where it ends. Merged calls would lose their places.
__attribute__((nomerge)) void __tw_hint(char const* kind, long long hint) noexcept;
__attribute__((nomerge)) void __tw_hint_end() noexcept;
}

// A hint as one number; what no architecture or value can be becomes one that does not exist.
namespace __tw {
template <long long Architecture, long long Value>
inline constexpr long long hint =
    Architecture >= 0 && Architecture < 1 << 30 && Value >= 0 && Value < 1 << 30 ? Architecture << 32 | Value : -1;
}

// Scalars and handles of rank 0: the name says how the scalar is passed, `type` what it is.
#define TW_SCALAR(name, T)                                      \
    extern "C" __tw_tile __tw_wrap_##name(uint64_t, T) TW_PURE; \
    extern "C" T __tw_unwrap_##name(uint64_t, __tw_tile) TW_PURE;
TW_SCALAR(i1, bool)
TW_SCALAR(i8, unsigned char)
TW_SCALAR(i16, unsigned short)
TW_SCALAR(i32, unsigned int)
TW_SCALAR(i64, unsigned long)
TW_SCALAR(f16, _Float16)
TW_SCALAR(bf16, __bf16)
TW_SCALAR(f32, float)
TW_SCALAR(f64, double)
TW_SCALAR(ptr, void const*)
#undef TW_SCALAR
#undef TW_PURE

// The entry of a kernel: its address and the codes of its parameter types.
namespace cuda::tiles::inline v1 {
inline namespace launch {
__tile__ inline uint3 bid() noexcept {
    return {unsigned(__tw_bid(0)), unsigned(__tw_bid(1)), unsigned(__tw_bid(2))};
}
__tile__ inline dim3 num_blocks() noexcept {
    return {unsigned(__tw_num_blocks(0)), unsigned(__tw_num_blocks(1)), unsigned(__tw_num_blocks(2))};
}
}  // namespace launch
}  // namespace cuda::tiles::inline v1
