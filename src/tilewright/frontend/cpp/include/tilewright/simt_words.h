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
