// Functions of SIMT code on integers, and on words that hold two integers of 16 bits or four of 8.
#pragma once
#pragma clang system_header

#define TW_EXTREMA(prefix, T)                                    \
    inline T prefix##min(T x, T y) { return y < x ? y : x; }     \
    inline T prefix##max(T x, T y) { return x < y ? y : x; }
TW_EXTREMA(u, unsigned)
TW_EXTREMA(ll, long long)
TW_EXTREMA(ull, unsigned long long)
#undef TW_EXTREMA
inline unsigned __uhadd(unsigned x, unsigned y) { return unsigned(((unsigned long long)x + y) >> 1); }
inline unsigned __urhadd(unsigned x, unsigned y) { return unsigned(((unsigned long long)x + y + 1) >> 1); }
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
    return unsigned((((unsigned long long)high << 32 | low) << (by < 32 ? by : 32)) >> 32);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
    return unsigned(((unsigned long long)high << 32 | low) >> (by < 32 ? by : 32));
}
#define TW_DOT2(name, W, H, B, first)                                                                      \
    inline W name(W halves, W bytes, W sum) {                                                              \
        return sum + W((H)halves) * W((B)(bytes >> first)) + W((H)(halves >> 16)) * W((B)(bytes >> (first + 8))); \
    }
TW_DOT2(__dp2a_lo, int, short, signed char, 0)
TW_DOT2(__dp2a_hi, int, short, signed char, 16)
TW_DOT2(__dp2a_lo, unsigned, unsigned short, unsigned char, 0)
TW_DOT2(__dp2a_hi, unsigned, unsigned short, unsigned char, 16)
#undef TW_DOT2

namespace tilewright_words {
template <typename T, typename F>
inline unsigned each(F of, unsigned x, unsigned y) {
    constexpr int bits = 8 * sizeof(T);
    unsigned found = 0;
    for (int at = 0; at < 32; at += bits) found |= (unsigned(of(int(T(x >> at)), int(T(y >> at)))) & ((1u << bits) - 1)) << at;
    return found;
}
template <typename T>
inline int saturated(int x) {
    constexpr int least = T(-1) < T(0) ? -(1 << (8 * sizeof(T) - 1)) : 0;
    constexpr int most = least + (1 << 8 * sizeof(T)) - 1;
    return x < least ? least : x > most ? most : x;
}
template <typename T, typename F>
inline unsigned sum(F of, unsigned x, unsigned y) {
    constexpr int bits = 8 * sizeof(T);
    unsigned found = 0;
    for (int at = 0; at < 32; at += bits) found += unsigned(of(int(T(x >> at)), int(T(y >> at))));
    return found;
}
}  // namespace tilewright_words

#define TW_WORDS(name, T, expression)                                                            \
    inline unsigned name(unsigned x, unsigned y) {                                               \
        return tilewright_words::each<T>([](int a, int b) -> int { return expression; }, x, y);  \
    }
#define TW_WORD(name, T, expression)                                                             \
    inline unsigned name(unsigned x) {                                                           \
        return tilewright_words::each<T>([](int a, int) -> int { return expression; }, x, 0);    \
    }
#define TW_COMPARED(name, T, op)                  \
    TW_WORDS(__vcmp##name, T, a op b ? -1 : 0)    \
    TW_WORDS(__vset##name, T, a op b ? 1 : 0)
#define TW_OF_SIZE(n, S, U)                                                          \
    TW_WORDS(__vadd##n, U, a + b)                                                    \
    TW_WORDS(__vsub##n, U, a - b)                                                    \
    TW_WORDS(__vaddss##n, S, tilewright_words::saturated<S>(a + b))                  \
    TW_WORDS(__vaddus##n, U, tilewright_words::saturated<U>(a + b))                  \
    TW_WORDS(__vsubss##n, S, tilewright_words::saturated<S>(a - b))                  \
    TW_WORDS(__vsubus##n, U, tilewright_words::saturated<U>(a - b))                  \
    TW_WORDS(__vmaxs##n, S, a < b ? b : a)                                           \
    TW_WORDS(__vmaxu##n, U, a < b ? b : a)                                           \
    TW_WORDS(__vmins##n, S, b < a ? b : a)                                           \
    TW_WORDS(__vminu##n, U, b < a ? b : a)                                           \
    TW_WORDS(__vavgs##n, S, (a + b + (a + b >= 0)) >> 1)                             \
    TW_WORDS(__vavgu##n, U, (a + b + 1) >> 1)                                        \
    TW_WORDS(__vhaddu##n, U, (a + b) >> 1)                                           \
    TW_WORDS(__vabsdiffs##n, S, a < b ? b - a : a - b)                               \
    TW_WORDS(__vabsdiffu##n, U, a < b ? b - a : a - b)                               \
    TW_WORD(__vabs##n, S, a < 0 ? -a : a)                                            \
    TW_WORD(__vabsss##n, S, tilewright_words::saturated<S>(a < 0 ? -a : a))          \
    TW_WORD(__vneg##n, S, -a)                                                        \
    TW_WORD(__vnegss##n, S, tilewright_words::saturated<S>(-a))                      \
    TW_COMPARED(eq##n, U, ==)                                                        \
    TW_COMPARED(ne##n, U, !=)                                                        \
    TW_COMPARED(gts##n, S, >)                                                        \
    TW_COMPARED(gtu##n, U, >)                                                        \
    TW_COMPARED(ges##n, S, >=)                                                       \
    TW_COMPARED(geu##n, U, >=)                                                       \
    TW_COMPARED(lts##n, S, <)                                                        \
    TW_COMPARED(ltu##n, U, <)                                                        \
    TW_COMPARED(les##n, S, <=)                                                       \
    TW_COMPARED(leu##n, U, <=)                                                       \
    inline unsigned __vsads##n(unsigned x, unsigned y) {                             \
        return tilewright_words::sum<S>([](int a, int b) { return a < b ? b - a : a - b; }, x, y); \
    }                                                                                \
    inline unsigned __vsadu##n(unsigned x, unsigned y) {                             \
        return tilewright_words::sum<U>([](int a, int b) { return a < b ? b - a : a - b; }, x, y); \
    }
TW_OF_SIZE(2, short, unsigned short)
TW_OF_SIZE(4, signed char, unsigned char)
#undef TW_OF_SIZE
#undef TW_COMPARED
#undef TW_WORD
#undef TW_WORDS

// Steps of dynamic programming: of numbers, and of the two halves of words. Sums wrap; what ends in relu is 0 if negative.
namespace tilewright_words {
template <typename T>
inline T most(T x, T y) {
    return x < y ? y : x;
}
template <typename T>
inline T least(T x, T y) {
    return y < x ? y : x;
}
template <typename T, typename F>
inline unsigned halves(F of, unsigned x, unsigned y, unsigned z) {
    unsigned low = (unsigned short)of(T(x), T(y), T(z)), high = (unsigned short)of(T(x >> 16), T(y >> 16), T(z >> 16));
    return high << 16 | low;
}
}  // namespace tilewright_words
#define TW_STEP(name, relu, expression)                                                \
    inline int name##_s32##relu(int a, int b, int c) {                                 \
        using T = int;                                                                 \
        return expression;                                                             \
    }                                                                                  \
    inline unsigned name##_s16x2##relu(unsigned x, unsigned y, unsigned z) {           \
        using T = short;                                                               \
        return tilewright_words::halves<T>([](T a, T b, T c) -> T { return expression; }, x, y, z); \
    }
#define TW_UNSIGNED_STEP(name, expression)                                             \
    inline unsigned name##_u32(unsigned a, unsigned b, unsigned c) {                   \
        using T = unsigned;                                                            \
        return expression;                                                             \
    }                                                                                  \
    inline unsigned name##_u16x2(unsigned x, unsigned y, unsigned z) {                 \
        using T = unsigned short;                                                      \
        return tilewright_words::halves<T>([](T a, T b, T c) -> T { return expression; }, x, y, z); \
    }
#define TW_STEPS(name, expression)                                                     \
    TW_STEP(name, , expression)                                                        \
    TW_STEP(name, _relu, tilewright_words::most<T>(expression, 0))                                   \
    TW_UNSIGNED_STEP(name, expression)
TW_STEPS(__viaddmax, tilewright_words::most<T>(T(unsigned(a) + unsigned(b)), c))
TW_STEPS(__viaddmin, tilewright_words::least<T>(T(unsigned(a) + unsigned(b)), c))
TW_STEPS(__vimax3, tilewright_words::most<T>(tilewright_words::most<T>(a, b), c))
TW_STEPS(__vimin3, tilewright_words::least<T>(tilewright_words::least<T>(a, b), c))
#undef TW_STEPS
#undef TW_UNSIGNED_STEP
#undef TW_STEP
#define TW_CLAMPED(name, three)                                                                            \
    inline int name##_s32_relu(int a, int b) { return three##_s32_relu(a, b, b); }                         \
    inline unsigned name##_s16x2_relu(unsigned a, unsigned b) { return three##_s16x2_relu(a, b, b); }
TW_CLAMPED(__vimax, __vimax3)
TW_CLAMPED(__vimin, __vimin3)
#undef TW_CLAMPED
// With whether it is the first number, for each half if there are two.
#define TW_CHOSEN(name, three, op)                                                                          \
    inline int name##_s32(int a, int b, bool* first) { return *first = a op b, three##_s32(a, b, b); }      \
    inline unsigned name##_u32(unsigned a, unsigned b, bool* first) { return *first = a op b, three##_u32(a, b, b); } \
    inline unsigned name##_s16x2(unsigned a, unsigned b, bool* high, bool* low) {                           \
        return *high = short(a >> 16) op short(b >> 16), *low = short(a) op short(b), three##_s16x2(a, b, b); \
    }                                                                                                       \
    inline unsigned name##_u16x2(unsigned a, unsigned b, bool* high, bool* low) {                           \
        return *high = a >> 16 op b >> 16, *low = (a & 0xffff) op(b & 0xffff), three##_u16x2(a, b, b);      \
    }
TW_CHOSEN(__vibmax, __vimax3, >=)
TW_CHOSEN(__vibmin, __vimin3, <=)
#undef TW_CHOSEN
