// Cooperative groups of a block and of parts of a warp. Those of more than a block need blocks that wait for each other.
#pragma once
#pragma clang system_header
#include "cuda_runtime.h"

namespace cooperative_groups {
template <typename T>
struct plus { T operator()(T x, T y) const { return x + y; } };
template <typename T>
struct less { T operator()(T x, T y) const { return y < x ? y : x; } };
template <typename T>
struct greater { T operator()(T x, T y) const { return x < y ? y : x; } };
template <typename T>
struct bit_and { T operator()(T x, T y) const { return x & y; } };
template <typename T>
struct bit_or { T operator()(T x, T y) const { return x | y; } };
template <typename T>
struct bit_xor { T operator()(T x, T y) const { return x ^ y; } };
}  // namespace cooperative_groups
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

// Lanes of a warp: what groups of them have in common. `Lanes` says which, and how they are numbered.
template <typename Lanes>
class __tw_lanes {
    unsigned mask() const { return static_cast<Lanes const*>(this)->__tw_mask(); }
    unsigned below() const { return mask() & ((1u << __tw_rank() % 32) - 1); }
    // The lane of a rank: that of the thread itself where there is none.
    unsigned lane_of(unsigned rank) const {
        unsigned left = mask(), own = __tw_rank() % 32;
        if (rank >= num_threads()) return own;
        for (; rank > 0; --rank) left &= left - 1;
        return unsigned(__ffs(int(left)) - 1);
    }
    template <typename T>
    T from(T value, unsigned rank, char const* file, int line) const {
        return __shfl_sync(mask(), value, int(lane_of(rank)), 32, file, line);
    }
    // The bits of the lanes of the group in a mask, next to each other.
    unsigned packed(unsigned lanes) const {
        unsigned found = 0, at = 0;
        for (unsigned left = mask(); left; left &= left - 1) found |= ((left & -left & lanes) != 0) << at++;
        return found;
    }

  public:
    void sync(TW_PLACE) const { __syncwarp(mask(), file, line); }
    unsigned thread_rank() const { return unsigned(__popc(below())); }
    unsigned num_threads() const { return unsigned(__popc(mask())); }
    unsigned size() const { return num_threads(); }
    template <typename T>
    T shfl(T value, int rank, TW_PLACE) const {
        return from(value, unsigned(rank) % num_threads(), file, line);
    }
    template <typename T>
    T shfl_up(T value, unsigned by, TW_PLACE) const {
        unsigned rank = thread_rank();
        return from(value, rank < by ? rank : rank - by, file, line);
    }
    template <typename T>
    T shfl_down(T value, unsigned by, TW_PLACE) const { return from(value, thread_rank() + by, file, line); }
    template <typename T>
    T shfl_xor(T value, unsigned by, TW_PLACE) const { return from(value, thread_rank() ^ by, file, line); }
    unsigned ballot(int predicate, TW_PLACE) const {
        return packed(__ballot_sync(mask(), predicate, file, line));
    }
    int any(int predicate, TW_PLACE) const { return __any_sync(mask(), predicate, file, line); }
    int all(int predicate, TW_PLACE) const { return __all_sync(mask(), predicate, file, line); }
    template <typename T>
    unsigned match_any(T value, TW_PLACE) const { return packed(__match_any_sync(mask(), value, file, line)); }
    template <typename T>
    unsigned match_all(T value, int& same, TW_PLACE) const {
        return packed(__match_all_sync(mask(), value, &same, file, line));
    }
};

template <unsigned Size, typename Parent = void>
class thread_block_tile : public __tw_lanes<thread_block_tile<Size, Parent>> {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0,
                  "groups of lanes have 1, 2, 4, 8, 16 or 32 of them on a CPU");

  public:
    thread_block_tile() = default;
    // One of any parent is one that does not say of which.
    template <typename Other, typename Any = Parent, typename = std::enable_if_t<std::is_void_v<Any>>>
    thread_block_tile(thread_block_tile<Size, Other> const&) {}
    static unsigned __tw_mask() {
        return (Size == 32 ? 0xffffffffu : (1u << Size % 32) - 1) << (__tw_rank() % 32 & ~(Size - 1));
    }
    static unsigned thread_rank() { return __tw_rank() % Size; }
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    // Among those of the group that was divided: the block, or lanes of a warp.
    static unsigned meta_group_rank() {
        if constexpr (requires { Parent::__tw_mask(); }) return Parent::thread_rank() / Size;
        else return __tw_rank() / Size;
    }
    static unsigned meta_group_size() {
        if constexpr (requires { Parent::__tw_mask(); }) return Parent::size() / Size;
        else return (thread_block::size() + Size - 1) / Size;
    }
    // The lanes of these are neighbours, whose numbers are simpler.
    template <typename T>
    static T shfl(T value, int lane, TW_PLACE) { return __shfl_sync(__tw_mask(), value, lane, Size, file, line); }
    template <typename T>
    static T shfl_up(T value, unsigned by, TW_PLACE) {
        return __shfl_up_sync(__tw_mask(), value, by, Size, file, line);
    }
    template <typename T>
    static T shfl_down(T value, unsigned by, TW_PLACE) {
        return __shfl_down_sync(__tw_mask(), value, by, Size, file, line);
    }
    template <typename T>
    static T shfl_xor(T value, unsigned by, TW_PLACE) {
        return __shfl_xor_sync(__tw_mask(), value, by, Size, file, line);
    }
    static unsigned ballot(int predicate, TW_PLACE) {
        return __ballot_sync(__tw_mask(), predicate, file, line) >> (__tw_rank() % 32 & ~(Size - 1));
    }
};
template <unsigned Size, typename Parent>
inline thread_block_tile<Size, Parent> tiled_partition(Parent const&) { return {}; }

// One thread of a group calls a function, and another form gives all what it returns.
template <typename Group, typename F, typename... A>
inline void invoke_one(Group const& group, F&& function, A&&... arguments) {
    if (group.thread_rank() == 0) function(static_cast<A&&>(arguments)...);
}
template <typename Group, typename F, typename... A>
inline auto invoke_one_broadcast(Group const& group, F&& function, A&&... arguments) {
    decltype(function(static_cast<A&&>(arguments)...)) result{};
    if (group.thread_rank() == 0) result = function(static_cast<A&&>(arguments)...);
    return group.shfl(result, 0);
}

class coalesced_group : public __tw_lanes<coalesced_group> {
    unsigned lanes, rank, groups;

  public:
    explicit coalesced_group(unsigned lanes, unsigned rank = 0, unsigned groups = 1)
        : lanes(lanes), rank(rank), groups(groups) {}
    unsigned __tw_mask() const { return lanes; }
    unsigned meta_group_rank() const { return rank; }
    unsigned meta_group_size() const { return groups; }
};
// The lanes that come here together.
inline coalesced_group coalesced_threads(TW_PLACE) {
#ifdef TW_SIMT_GPU
    return coalesced_group(__activemask());
#else
    return coalesced_group(__activemask(file, line));
#endif
}
// The lanes of a group that have the same label; groups are numbered by their first lanes.
template <typename Group, typename Label>
inline coalesced_group labeled_partition(Group const& group, Label label, TW_PLACE) {
    unsigned mask = group.__tw_mask(), mine = __match_any_sync(mask, label, file, line);
    unsigned lane = __tw_rank() % 32;
    unsigned firsts = __ballot_sync(mask, (mine & -mine) == 1u << lane, file, line);
    return coalesced_group(mine, unsigned(__popc(firsts & ((mine & -mine) - 1))), unsigned(__popc(firsts)));
}
template <typename Group>
inline coalesced_group binary_partition(Group const& group, bool predicate, TW_PLACE) {
    return labeled_partition(group, int(predicate), file, line);
}
// Neighbours of a group, `size` of them each.
inline coalesced_group tiled_partition(coalesced_group const& group, unsigned size) {
    unsigned number = group.thread_rank() / size, left = group.__tw_mask(), mine = 0;
    for (unsigned rank = 0; left; ++rank, left &= left - 1)
        if (rank / size == number) mine |= left & -left;
    return coalesced_group(mine, number, (group.num_threads() + size - 1) / size);
}

// Any of these groups: a block, or lanes of a warp.
class thread_group {
    unsigned lanes = 0;  // none: the block

  public:
    thread_group(thread_block) {}
    template <typename Group, typename = decltype(Group::__tw_mask)*>
    thread_group(Group const& group) : lanes(group.__tw_mask()) {}
    thread_group(coalesced_group const& group) : lanes(group.__tw_mask()) {}
    unsigned __tw_mask() const { return lanes; }
    bool is_block() const { return lanes == 0; }
    void sync(TW_PLACE) const {
        if (is_block()) __syncthreads(file, line);
        else __syncwarp(lanes, file, line);
    }
    unsigned thread_rank() const {
        return is_block() ? __tw_rank() : unsigned(__popc(lanes & ((1u << __tw_rank() % 32) - 1)));
    }
    unsigned num_threads() const { return is_block() ? thread_block::size() : unsigned(__popc(lanes)); }
    unsigned size() const { return num_threads(); }
};
inline coalesced_group tiled_partition(thread_block, unsigned size) {
    unsigned lane = __tw_rank() % 32, first = lane / size * size;
    return coalesced_group((size == 32 ? 0xffffffffu : (1u << size) - 1) << first, __tw_rank() / size,
                           (thread_block::size() + size - 1) / size);
}
inline thread_group tiled_partition(thread_group const& group, unsigned size) {
    if (group.is_block()) return tiled_partition(thread_block(), size);
    return tiled_partition(coalesced_group(group.__tw_mask()), size);
}

template <typename Group>
inline void sync(Group const& group, TW_PLACE) { group.sync(file, line); }

// Copies that threads of a group share end in `wait`.
template <typename Group, typename T>
inline void memcpy_async(Group const& group, T* target, T const* source, size_t bytes) {
    for (size_t i = group.thread_rank(); i < bytes / sizeof(T); i += group.num_threads()) target[i] = source[i];
}
template <typename Group>
inline void memcpy_async(Group const& group, void* target, void const* source, size_t bytes) {
    memcpy_async(group, (char*)target, (char const*)source, bytes);
}
template <typename Group, typename T>
inline void memcpy_async(Group const& group, T* target, size_t room, T const* source, size_t count) {
    memcpy_async(group, target, source, (room < count ? room : count) * sizeof(T));
}
template <typename Group>
inline void wait(Group const& group, TW_PLACE) { group.sync(file, line); }
template <unsigned Stages, typename Group>
inline void wait_prior(Group const& group, TW_PLACE) { group.sync(file, line); }

// All lanes get the result, in the order that all lanes combine in.
template <unsigned Size, typename Parent, typename T, typename F>
inline T reduce(thread_block_tile<Size, Parent> const& group, T value, F&& combine, TW_PLACE) {
    for (unsigned by = Size / 2; by > 0; by /= 2) value = combine(value, group.shfl_xor(value, by, file, line));
    return value;
}
template <typename Group, typename T, typename F>
inline T inclusive_scan(Group const& group, T value, F&& combine, TW_PLACE) {
    for (unsigned by = 1; by < group.num_threads(); by *= 2) {
        T before = group.shfl_up(value, by, file, line);
        if (group.thread_rank() >= by) value = combine(before, value);
    }
    return value;
}
template <typename T, typename F>
inline T reduce(coalesced_group const& group, T value, F&& combine, TW_PLACE) {
    value = inclusive_scan(group, value, combine, file, line);
    return group.shfl(value, int(group.num_threads()) - 1, file, line);
}
// The first lane gets T(), as nothing is before it.
template <typename Group, typename T, typename F>
inline T exclusive_scan(Group const& group, T value, F&& combine, TW_PLACE) {
    T before = group.shfl_up(inclusive_scan(group, value, combine, file, line), 1, file, line);
    return group.thread_rank() == 0 ? T() : before;
}
template <typename Group, typename T>
inline T inclusive_scan(Group const& group, T value, TW_PLACE) {
    return inclusive_scan(group, value, plus<T>(), file, line);
}
template <typename Group, typename T>
inline T exclusive_scan(Group const& group, T value, TW_PLACE) {
    return exclusive_scan(group, value, plus<T>(), file, line);
}

#define TW_NO_GROUP(what) __attribute__((unavailable(what " is not available on a CPU; launch another kernel instead")))
// Threads of a grid have numbers, and do not wait for each other.
class grid_group {
    static unsigned long long number(dim3 at, dim3 of) { return (at.z * (unsigned long long)of.y + at.y) * of.x + at.x; }

  public:
    static constexpr bool is_valid() { return false; }
    static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long block_rank() { return number(blockIdx, gridDim); }
    static unsigned long long num_threads() { return num_blocks() * thread_block::size(); }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long thread_rank() { return block_rank() * thread_block::size() + __tw_rank(); }
    static dim3 group_dim() { return gridDim; }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 block_index() { return blockIdx; }
    TW_NO_GROUP("a barrier of the whole grid") static void sync();
};
inline grid_group this_grid() { return {}; }
TW_NO_GROUP("a barrier of the whole grid") void sync(grid_group const&);
TW_NO_GROUP("a group of a cluster") grid_group this_cluster();
#undef TW_NO_GROUP
}  // namespace cooperative_groups
#else
// Tile code has no threads: names alone, for declarations of SIMT code beside it.
namespace cooperative_groups {
class thread_block;
template <unsigned Size, typename Parent = void>
class thread_block_tile;
class coalesced_group;
class thread_group;
struct grid_group;
}  // namespace cooperative_groups
#endif
