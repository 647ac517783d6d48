// Instructions of inline PTX in SIMT code, by the names that `assembly.py` gives them: one that is not here is refused.
// Types of an instruction are template arguments in its order.
#pragma once
#pragma clang system_header
#include <bit>
#include <type_traits>

namespace __tw_ptx {
using u64 = unsigned long long;
// What is in a register: bits, which an instruction reads as its type.
template <typename T, typename S>
inline T bits(S value) {
    T found{};
    if constexpr (std::is_integral_v<S> && std::is_integral_v<T>) return T(value);
    __builtin_memcpy(&found, &value, sizeof(S) < sizeof(T) ? sizeof(S) : sizeof(T));
    return found;
}
template <typename S>
struct in {
    S value;
    template <typename T>
    operator T() const {
        return bits<T>(value);
    }
};
template <typename S>
in(S) -> in<S>;
template <typename S, typename T>
inline void set(S& place, T value) {
    place = bits<S>(value);
}
template <typename T>
using word = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::make_unsigned<T>,
                                std::type_identity<T>>::type;

#define TW_TWO(name, value)              \
    template <typename T>                \
    inline T op_##name(T left, T right) { \
        auto a = word<T>(left), b = word<T>(right); \
        return T(value);                 \
    }
TW_TWO(add, a + b) TW_TWO(sub, a - b) TW_TWO(mul, a * b) TW_TWO(mul_lo, a * b)
TW_TWO(and, a & b) TW_TWO(or, a | b) TW_TWO(xor, a ^ b)
TW_TWO(min, left < right || right != right ? left : right) TW_TWO(max, left > right || right != right ? left : right)
#undef TW_TWO
template <typename T>
inline auto op_mul_wide(T a, T b) {
    using wide = std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, long long, u64>,
                                    std::conditional_t<std::is_signed_v<T>, int, unsigned>>;
    return wide(wide(a) * wide(b));
}
template <typename T>
inline T op_mul_hi(T a, T b) {
    using wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return T(wide(a) * wide(b) >> 8 * sizeof(T));
}
template <typename T>
inline T op_mad_lo(T a, T b, T c) { return op_add<T>(op_mul_lo<T>(a, b), c); }
template <typename T>
inline auto op_mad_wide(T a, T b, decltype(op_mul_wide(T(), T())) c) { return op_add(op_mul_wide<T>(a, b), c); }
template <typename T>
inline T op_fma(T a, T b, T c) { return std::fma(a, b, c); }
template <typename T>
inline T op_not(T a) { return std::is_same_v<T, bool> ? T(!a) : T(~a); }
template <typename T>
inline T op_neg(T a) { return T(-word<T>(a)); }
template <typename T>
inline T op_abs(T a) { return a < 0 ? op_neg(a) : a; }
template <typename T>
inline T op_shl(T a, unsigned by) { return by < 8 * sizeof(T) ? T(word<T>(a) << by) : T(0); }
template <typename T>
inline T op_shr(T a, unsigned by) { return by < 8 * sizeof(T) ? T(a >> by) : T(a < 0 ? -1 : 0); }
inline unsigned op_lop3(unsigned a, unsigned b, unsigned c, unsigned table) {
    unsigned found = 0;
    for (unsigned i = 0; i < 8; ++i)
        if (table >> i & 1) found |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return found;
}
template <typename T>
inline T op_lop3(unsigned a, unsigned b, unsigned c, unsigned table) { return op_lop3(a, b, c, table); }
template <typename T>
inline unsigned op_popc(T a) { return unsigned(__builtin_popcountll(a)); }
template <typename T>
inline unsigned op_clz(T a) { return unsigned(std::countl_zero(a)); }
template <typename T>
inline T op_brev(T a) { return sizeof(T) == 8 ? T(__builtin_bitreverse64(a)) : T(__builtin_bitreverse32(a)); }
template <typename T>
inline unsigned op_bfind(T a) {
    auto found = word<T>(a < 0 ? ~a : a);
    return found ? 8 * sizeof(T) - 1 - unsigned(std::countl_zero(found)) : ~0u;
}
// A field of `length` bits from the bit `start` on; the sign of what is beyond the value is its sign.
template <typename T>
inline T op_bfe(T a, unsigned start, unsigned length) {
    start &= 255, length &= 255;
    constexpr unsigned width = 8 * sizeof(T);
    if (length == 0) return 0;
    T moved = op_shr(a, start);
    if (length >= width) return moved;
    return op_shr(op_shl(moved, width - length), width - length);
}
template <typename T>
inline T op_bfi(T field, T whole, unsigned start, unsigned length) {
    start &= 255, length &= 255;
    T mask = op_shl(length < 8 * sizeof(T) ? T(op_shl(T(1), length) - 1) : T(~T(0)), start);
    return (whole & ~mask) | (op_shl(field, start) & mask);
}
template <typename T>
inline unsigned op_bmsk_clamp(unsigned first, unsigned length) {
    return op_shl(length < 32 ? (1u << length) - 1 : ~0u, first);
}
template <typename T>
inline unsigned op_bmsk_wrap(unsigned first, unsigned length) { return op_bmsk_clamp<T>(first & 31, length & 31); }
template <typename T>
inline unsigned op_prmt(unsigned a, unsigned b, unsigned which) {
    unsigned found = 0;
    for (unsigned i = 0; i < 4; ++i) {
        unsigned one = which >> 4 * i, byte = unsigned((u64(b) << 32 | a) >> 8 * (one & 7)) & 255;
        found |= (one & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * i;
    }
    return found;
}
#define TW_COMPARE(name, how) \
    template <typename T>     \
    inline bool op_setp_##name(T a, T b, bool* not_so = nullptr) { \
        bool found = a how b; \
        if (not_so) *not_so = !found; \
        return found;         \
    }
TW_COMPARE(eq, ==) TW_COMPARE(ne, !=) TW_COMPARE(lt, <) TW_COMPARE(le, <=) TW_COMPARE(gt, >) TW_COMPARE(ge, >=)
TW_COMPARE(lo, <) TW_COMPARE(ls, <=) TW_COMPARE(hi, >) TW_COMPARE(hs, >=)
#undef TW_COMPARE
template <typename T>
inline T op_selp(T a, T b, bool first) { return first ? a : b; }
template <typename T>
inline T op_mov(T a) { return a; }
template <typename T>
inline T op_cvta(T a) { return a; }
template <typename To, typename From>
inline To op_cvt(From a) { return To(a); }
// Registers of equal size as one, the first lowest, and a part of such a one.
template <typename T, typename... S>
inline T op_pack(S... parts) {
    constexpr unsigned width = 8 * sizeof(T) / sizeof...(S);
    u64 found = 0;
    unsigned i = 0;
    ((found |= (bits<u64>(parts.value) & (~0ull >> (64 - width))) << width * i++), ...);
    return T(found);
}
template <typename T>
inline T op_part(T whole, unsigned width, unsigned number) { return whole >> width * number; }

// Memory. What is ordered, or volatile, is atomic here.
template <typename T>
inline T op_ld(T const* p, int i = 0) { return p[i]; }
template <typename T>
inline T op_ld_ordered(T const* p, int i = 0) {
    T found;
    __atomic_load(p + i, &found, __ATOMIC_ACQUIRE);
    return found;
}
template <typename T>
inline void op_st(T* p, T value, int i = 0) { p[i] = value; }
template <typename T>
inline void op_st_ordered(T* p, T value, int i = 0) { __atomic_store(p + i, &value, __ATOMIC_RELEASE); }
#define TW_ATOMIC(name, value) \
    template <typename T>      \
    inline T op_atom_##name(T* p, T v) { return value; }
TW_ATOMIC(add, ::atomicAdd(p, v)) TW_ATOMIC(exch, ::__atomic_exchange_n(p, v, __ATOMIC_ACQ_REL))
TW_ATOMIC(min, ::atomicMin(p, v)) TW_ATOMIC(max, ::atomicMax(p, v)) TW_ATOMIC(inc, ::atomicInc(p, v))
TW_ATOMIC(dec, ::atomicDec(p, v)) TW_ATOMIC(and, ::__atomic_fetch_and(p, v, __ATOMIC_ACQ_REL))
TW_ATOMIC(or, ::__atomic_fetch_or(p, v, __ATOMIC_ACQ_REL)) TW_ATOMIC(xor, ::__atomic_fetch_xor(p, v, __ATOMIC_ACQ_REL))
#undef TW_ATOMIC
template <typename T>
inline T op_atom_cas(T* p, T old, T value) {
    __atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return old;
}
inline void op_fence() { ::__threadfence(); }

// Warps. A shuffle is told by `c` which lane is the last in reach, and which bits of its number stay.
inline unsigned lanes_in_reach(unsigned c) {
    unsigned stay = c >> 8 & 31;
    return (::__tw_simt::lane() & stay) | (c & 31 & ~stay);
}
#define TW_SHUFFLE(name, other, reached, given)                                                                   \
    template <typename T>                                                                                         \
    inline unsigned op_shfl_##name(unsigned value, unsigned by, unsigned c, unsigned mask, bool* in = nullptr, TW_PLACE) { \
        auto all = ::__tw_simt::exchange(mask, value, file, line);                                                \
        int lane = int(::__tw_simt::lane()), last = int(lanes_in_reach(c)), from = other;                         \
        bool found = reached;                                                                                     \
        if (in) *in = found;                                                                                      \
        unsigned theirs = unsigned(given); /* by all lanes, as GPUs want it */                                    \
        return found ? theirs : value;                                                                            \
    }
TW_SHUFFLE(up, lane - int(by & 31), from >= last, ::__tw_simt::from(all, unsigned(lane), -int(by & 31), !found))
TW_SHUFFLE(down, lane + int(by & 31), from <= last, ::__tw_simt::from(all, unsigned(lane), int(by & 31), !found))
TW_SHUFFLE(bfly, lane ^ int(by & 31), from <= last, all[found ? unsigned(from) : unsigned(lane)])
TW_SHUFFLE(idx, (lane & int(c >> 8 & 31)) | int(by & ~(c >> 8) & 31), from <= last, all[found ? unsigned(from) : unsigned(lane)])
#undef TW_SHUFFLE
template <typename T>
inline unsigned op_vote_ballot(bool own, unsigned mask, TW_PLACE) { return ::__ballot_sync(mask, own, file, line); }
template <typename T>
inline bool op_vote_any(bool own, unsigned mask, TW_PLACE) { return ::__any_sync(mask, own, file, line); }
template <typename T>
inline bool op_vote_all(bool own, unsigned mask, TW_PLACE) { return ::__all_sync(mask, own, file, line); }
template <typename T>
inline bool op_vote_uni(bool own, unsigned mask, TW_PLACE) { return ::__uni_sync(mask, own, file, line); }
template <typename T>
inline unsigned op_activemask() { return ::__activemask(); }
template <typename T>
inline unsigned op_match_any(T value, unsigned mask, TW_PLACE) { return ::__match_any_sync(mask, value, file, line); }
template <typename T>
inline unsigned op_match_all(T value, unsigned mask, bool* same = nullptr, TW_PLACE) {
    int found;
    unsigned lanes = ::__match_all_sync(mask, value, &found, file, line);
    if (same) *same = found;
    return lanes;
}
#define TW_REDUX(name) \
    template <typename T> \
    inline T op_redux_##name(T value, unsigned mask, TW_PLACE) { return ::__reduce_##name##_sync(mask, value, file, line); }
TW_REDUX(add) TW_REDUX(min) TW_REDUX(max) TW_REDUX(and) TW_REDUX(or) TW_REDUX(xor)
#undef TW_REDUX
inline void op_bar_warp(unsigned mask, TW_PLACE) { ::__syncwarp(mask, file, line); }
// Barriers of the whole block, which is number 0.
inline void op_bar(TW_PLACE) { ::__syncthreads(file, line); }
template <typename T>
inline void op_nanosleep(unsigned time) { ::__nanosleep(time); }
inline void op_trap() { ::__trap(); }
inline void op_exit() { ::__tw_simt_exit(); }
template <typename T = unsigned>
inline unsigned op_elect(unsigned mask, bool* elected, TW_PLACE) {
    ::__syncwarp(mask, file, line);
    unsigned first = unsigned(std::countr_zero(mask));
    *elected = ::__tw_simt::lane() == first;
    return first;
}

// Shared memory by addresses of 32 bits, and barriers in it, which count arrivals and bytes that are still to come; a
// copy has ended when it is made.
inline u64 op_to_shared(u64 p) { return __cvta_generic_to_shared((void*)p); }
inline u64 op_from_shared(u64 address) { return u64(__cvta_shared_to_generic(address)); }
inline u64 op_from_shared_32(u64 address) {
#ifdef TW_SIMT_GPU
    ::__tw_no_assembly();  // where those have all bits of an address
#endif
    return op_from_shared(address);
}
struct mbarrier {
    unsigned short pending, expected;
    int bytes : 31;
    unsigned phase : 1;
};
template <typename T = u64>
inline u64 op_mbarrier_arrive(u64* p, unsigned arrivals = 1, int bytes = 0) {
    u64 before = ::__tw_simt::update(p, [=](u64 old) {
        auto b = __builtin_bit_cast(mbarrier, old);
        b.pending -= arrivals, b.bytes += bytes;
        if (b.pending == 0 && b.bytes == 0) b.pending = b.expected, b.phase ^= 1;
        return __builtin_bit_cast(u64, b);
    });
    return before >> 63;
}
template <typename T>
inline void op_mbarrier_init(u64* p, unsigned count) { *p = count | count << 16; }
template <typename T>
inline void op_mbarrier_inval(u64*) {}
template <typename T>
inline u64 op_mbarrier_arrive_expect_tx(u64* p, int bytes) { return op_mbarrier_arrive(p, 1, bytes); }
template <typename T>
inline bool op_mbarrier_try_wait(u64* p, unsigned phase, unsigned = 0) {
    bool found = __atomic_load_n(p, __ATOMIC_ACQUIRE) >> 63 != phase;
#ifdef TW_CHECKED
    if (found) ::__tw_simt_passed(0);  // what came before is in order
#endif
    return found;
}
template <typename T>
inline bool op_mbarrier_try_wait_parity(u64* p, unsigned parity, unsigned = 0) {
    return op_mbarrier_try_wait<T>(p, parity);
}
inline void op_cp_async_bulk(void* to, void const* from, unsigned bytes, u64* p) {
    __builtin_memcpy(to, from, bytes);
    op_mbarrier_arrive(p, 0, -int(bytes));
}
// Hints, and what kernels wait for that were launched before.
inline void op_hint() {}
}  // namespace __tw_ptx
