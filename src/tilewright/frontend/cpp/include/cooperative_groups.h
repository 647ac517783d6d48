// Cooperative groups of a block and of parts of a warp. Those of more than a block need blocks that wait for each other.
#pragma once
#pragma clang system_header
#include "cuda_runtime.h"

#ifdef TW_SIMT
namespace cooperative_groups {
inline unsigned __tw_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
class thread_block {
  public:
    static void sync(TW_PLACE) { __syncthreads(file, line); }
    static unsigned thread_rank() { return __tw_rank(); }
    static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned num_threads() { return size(); }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

template <unsigned Size, typename Parent = void>
class thread_block_tile {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0,
                  "groups of lanes have 1, 2, 4, 8, 16 or 32 of them on a CPU");
    static unsigned mask() {
        return (Size == 32 ? 0xffffffffu : (1u << Size % 32) - 1) << (__tw_rank() % 32 & ~(Size - 1));
    }

  public:
    static void sync(TW_PLACE) { __syncwarp(mask(), file, line); }
    static unsigned thread_rank() { return __tw_rank() % Size; }
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned meta_group_rank() { return __tw_rank() / Size; }
    static unsigned meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
    template <typename T>
    static T shfl(T value, int lane, TW_PLACE) { return __shfl_sync(mask(), value, lane, Size, file, line); }
    template <typename T>
    static T shfl_up(T value, unsigned by, TW_PLACE) { return __shfl_up_sync(mask(), value, by, Size, file, line); }
    template <typename T>
    static T shfl_down(T value, unsigned by, TW_PLACE) {
        return __shfl_down_sync(mask(), value, by, Size, file, line);
    }
    template <typename T>
    static T shfl_xor(T value, unsigned by, TW_PLACE) { return __shfl_xor_sync(mask(), value, by, Size, file, line); }
    static unsigned ballot(int predicate, TW_PLACE) {
        return __ballot_sync(mask(), predicate, file, line) >> (__tw_rank() % 32 & ~(Size - 1));
    }
    static int any(int predicate, TW_PLACE) { return __any_sync(mask(), predicate, file, line); }
    static int all(int predicate, TW_PLACE) { return __all_sync(mask(), predicate, file, line); }
};
template <unsigned Size, typename Parent>
inline thread_block_tile<Size, Parent> tiled_partition(Parent const&) { return {}; }

template <typename Group>
inline void sync(Group const& group, TW_PLACE) { group.sync(file, line); }

template <typename T>
struct plus { T operator()(T x, T y) const { return x + y; } };
template <typename T>
struct less { T operator()(T x, T y) const { return y < x ? y : x; } };
template <typename T>
struct greater { T operator()(T x, T y) const { return x < y ? y : x; } };
// All lanes get the result, in the order that all lanes combine in.
template <unsigned Size, typename Parent, typename T, typename F>
inline T reduce(thread_block_tile<Size, Parent> const& group, T value, F&& combine, TW_PLACE) {
    for (unsigned by = Size / 2; by > 0; by /= 2) value = combine(value, group.shfl_xor(value, by, file, line));
    return value;
}

#define TW_NO_GROUP(what) __attribute__((unavailable(what " is not available on a CPU; launch another kernel instead")))
struct grid_group {};
TW_NO_GROUP("a group of the whole grid") grid_group this_grid();
TW_NO_GROUP("a group of a cluster") grid_group this_cluster();
TW_NO_GROUP("a group of the active lanes") grid_group coalesced_threads();
#undef TW_NO_GROUP
}  // namespace cooperative_groups
#else
// Tile code has no threads: names alone, for declarations of SIMT code beside it.
namespace cooperative_groups {
class thread_block;
template <unsigned Size, typename Parent = void>
class thread_block_tile;
struct grid_group;
template <typename T>
struct plus;
template <typename T>
struct less;
template <typename T>
struct greater;
}  // namespace cooperative_groups
#endif
