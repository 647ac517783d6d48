// Functions of the 16-bit floating-point types and their pairs. Each operation rounds once.
#pragma once
#pragma clang system_header

// The bits of a number and of a pair, and the pair.
#define TW_RAW(T)                       \
    struct alignas(2) T##_raw {         \
        unsigned short x;               \
    };                                  \
    struct alignas(4) T##2_raw {        \
        unsigned short x, y;            \
    };
#define TW_FROM_RAW(T, raw)                                                                          \
    __tile__ constexpr T(raw bits) noexcept : T(__builtin_bit_cast(T, bits)) {}                      \
    __tile__ constexpr operator raw() const noexcept { return __builtin_bit_cast(raw, *this); }
#define TW_PAIR(T, P)                                                      \
    struct alignas(4) P {                                                  \
        T x, y;                                                            \
        P() = default;                                                     \
        __tile__ constexpr P(T low, T high) noexcept : x(low), y(high) {}  \
        TW_FROM_RAW(P, P##_raw)                                            \
    };

#define TW_HALF_BINARY(T, name, op) \
    __tile__ constexpr T name(T a, T b) noexcept { return a op b; }
#define TW_HALF_TEST(T, name, op) \
    __tile__ constexpr bool name(T a, T b) noexcept { return a op b; }
#define TW_PAIR_BINARY(T, P, name, one) \
    __tile__ constexpr P name(P a, P b) noexcept { return P{one(a.x, b.x), one(a.y, b.y)}; }
#define TW_PAIR_TEST(T, P, name, op)                                                                           \
    __tile__ constexpr P __h##name##2(P a, P b) noexcept {                                                     \
        return P{T(float(__h##name(a.x, b.x))), T(float(__h##name(a.y, b.y)))};                                \
    }                                                                                                          \
    __tile__ constexpr bool __hb##name##2(P a, P b) noexcept { return __h##name(a.x, b.x) && __h##name(a.y, b.y); } \
    __tile__ constexpr bool operator op(P a, P b) noexcept { return a.x op b.x && a.y op b.y; }
#define TW_PAIR_OPERATOR(P, op)                                                                      \
    __tile__ constexpr P operator op(P a, P b) noexcept { return P{a.x op b.x, a.y op b.y}; }                  \
    __tile__ constexpr P& operator op##=(P& a, P b) noexcept { return a = a op b; }
#define TW_HALF_SATURATED(T, P, name, expression)                                                              \
    __tile__ constexpr T name##_sat(T a, T b) noexcept { return __tw_saturated(expression); }                  \
    __tile__ constexpr P name##2_sat(P a, P b) noexcept { return P{name##_sat(a.x, b.x), name##_sat(a.y, b.y)}; }
#define TW_HALF_FUNCTIONS(T, P)                                                                                \
    __tile__ constexpr T __tw_saturated(T a) noexcept {                                                        \
        return a > T(1.0f) ? T(1.0f) : a > T(0.0f) ? a : T(0.0f);                                              \
    }                                                                                                          \
    __tile__ constexpr int __hisinf(T a) noexcept {                                                            \
        return a != a || a - a == a - a ? 0 : a > T(0.0f) ? 1 : -1;                                            \
    }                                                                                                          \
    __tile__ constexpr P __lowhigh2highlow(P a) noexcept { return P{a.y, a.x}; }                               \
    __tile__ constexpr float __low2float(P a) noexcept { return float(a.x); }                                  \
    __tile__ constexpr float __high2float(P a) noexcept { return float(a.y); }                                 \
    TW_HALF_BINARY(T, __hadd, +)                                                                               \
    TW_HALF_BINARY(T, __hsub, -)                                                                               \
    TW_HALF_BINARY(T, __hmul, *)                                                                               \
    TW_HALF_BINARY(T, __hdiv, /)                                                                               \
    TW_HALF_BINARY(T, __hadd_rn, +)                                                                            \
    TW_HALF_BINARY(T, __hsub_rn, -)                                                                            \
    TW_HALF_BINARY(T, __hmul_rn, *)                                                                            \
    TW_HALF_TEST(T, __heq, ==)                                                                                 \
    __tile__ constexpr bool __hne(T a, T b) noexcept { return a < b || a > b; }                                \
    TW_HALF_TEST(T, __hlt, <)                                                                                  \
    TW_HALF_TEST(T, __hle, <=)                                                                                 \
    TW_HALF_TEST(T, __hgt, >)                                                                                  \
    TW_HALF_TEST(T, __hge, >=)                                                                                 \
    __tile__ constexpr T __hneg(T a) noexcept { return -a; }                                                   \
    __tile__ constexpr T __habs(T a) noexcept { return float(a) <= 0.0f ? T(0.0f) - a : a; }                   \
    __tile__ constexpr bool __hisnan(T a) noexcept { return a != a; }                                          \
    /* -0 is less than 0. */                                                                                   \
    __tile__ constexpr bool __tw_less(T a, T b) noexcept {                                                     \
        return a < b || (a == b && __builtin_bit_cast(short, a) < __builtin_bit_cast(short, b));               \
    }                                                                                                          \
    __tile__ constexpr T __hmin(T a, T b) noexcept { return __tw_less(b, a) || a != a ? b : a; }               \
    __tile__ constexpr T __hmax(T a, T b) noexcept { return __tw_less(a, b) || a != a ? b : a; }               \
    __tile__ constexpr T __hfma(T a, T b, T c) noexcept {                                                      \
        /* In 64 bits the product is exact; what the sum loses makes its last bit odd, so that the second     \
           rounding is as if it were the only one. */                                                         \
        double p = double(a) * double(b), s = p + double(c), t = s - p, lost = (p - (s - t)) + (double(c) - t);    \
        auto bits = __builtin_bit_cast(long long, s);                                                          \
        if ((lost > 0 || lost < 0) && !(bits & 1)) bits += (lost > 0) == (s > 0) ? 1 : -1;                     \
        return T(__builtin_bit_cast(double, bits));                                                            \
    }                                                                                                          \
    TW_PAIR_BINARY(T, P, __hadd2, __hadd)                                                                      \
    TW_PAIR_BINARY(T, P, __hsub2, __hsub)                                                                      \
    TW_PAIR_BINARY(T, P, __hmul2, __hmul)                                                                      \
    TW_PAIR_BINARY(T, P, __h2div, __hdiv)                                                                      \
    TW_PAIR_BINARY(T, P, __hmin2, __hmin)                                                                      \
    TW_PAIR_BINARY(T, P, __hmax2, __hmax)                                                                      \
    TW_PAIR_OPERATOR(P, +)                                                                                    \
    TW_PAIR_OPERATOR(P, -)                                                                                    \
    TW_PAIR_OPERATOR(P, *)                                                                                    \
    TW_PAIR_OPERATOR(P, /)                                                                                    \
    TW_PAIR_TEST(T, P, eq, ==)                                                                                 \
    TW_PAIR_TEST(T, P, ne, !=)                                                                                 \
    TW_PAIR_TEST(T, P, lt, <)                                                                                  \
    TW_PAIR_TEST(T, P, le, <=)                                                                                 \
    TW_PAIR_TEST(T, P, gt, >)                                                                                  \
    TW_PAIR_TEST(T, P, ge, >=)                                                                                 \
    TW_HALF_SATURATED(T, P, __hadd, a + b)                                                                     \
    TW_HALF_SATURATED(T, P, __hsub, a - b)                                                                     \
    TW_HALF_SATURATED(T, P, __hmul, a * b)                                                                     \
    __tile__ constexpr T __hfma_sat(T a, T b, T c) noexcept { return __tw_saturated(__hfma(a, b, c)); }        \
    __tile__ constexpr T __hmin_nan(T a, T b) noexcept { return a != a ? a : b != b ? b : __hmin(a, b); }      \
    __tile__ constexpr T __hmax_nan(T a, T b) noexcept { return a != a ? a : b != b ? b : __hmax(a, b); }      \
    __tile__ constexpr T __hfma_relu(T a, T b, T c) noexcept { return __hmax_nan(__hfma(a, b, c), T(0.0f)); }      \
    __tile__ constexpr P __habs2(P a) noexcept { return P{__habs(a.x), __habs(a.y)}; }                         \
    __tile__ constexpr P operator+(P a) noexcept { return a; }                                                 \
    __tile__ constexpr P operator-(P a) noexcept { return P{-a.x, -a.y}; }                                     \
    __tile__ constexpr P __hneg2(P a) noexcept { return P{-a.x, -a.y}; }                                       \
    __tile__ constexpr P __hfma2(P a, P b, P c) noexcept {                                                     \
        return P{__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                                \
    }
#ifdef TW_SIMT
#define TW_HALF_MATH(T, P)                                                     \
    inline P atomicAdd(P* p, P v) { return P{atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)}; }  \
    TW_PAIR_MATH(P, exp)                                                       \
    TW_PAIR_MATH(P, exp2)                                                      \
    TW_PAIR_MATH(P, log)                                                       \
    TW_PAIR_MATH(P, log2)                                                      \
    TW_PAIR_MATH(P, sqrt)                                                      \
    TW_PAIR_MATH(P, rsqrt)                                                     \
    TW_PAIR_MATH(P, rcp)                                                       \
    TW_PAIR_MATH(P, sin)                                                       \
    TW_PAIR_MATH(P, cos)                                                       \
    TW_PAIR_MATH(P, floor)                                                     \
    TW_PAIR_MATH(P, ceil)                                                      \
    TW_PAIR_MATH(P, rint)                                                      \
    TW_PAIR_MATH(P, trunc)
#define TW_PAIR_MATH(P, name) \
    inline P h2##name(P v) { return P{h##name(v.x), h##name(v.y)}; }
#define TW_HALF_ELEMENT_MATH(T)                                                       \
    inline T hexp10(T x) { return T(powf(10.0f, float(x))); }                  \
    inline T hlog10(T x) { return T(log10f(float(x))); }                       \
    inline T hexp(T x) { return T(expf(float(x))); }                           \
    inline T hexp2(T x) { return T(exp2f(float(x))); }                         \
    inline T hlog(T x) { return T(logf(float(x))); }                           \
    inline T hlog2(T x) { return T(log2f(float(x))); }                         \
    inline T hsqrt(T x) { return T(sqrtf(float(x))); }                         \
    inline T hrsqrt(T x) { return T(1.0f / sqrtf(float(x))); }                 \
    inline T hrcp(T x) { return T(1.0f / float(x)); }                          \
    inline T hsin(T x) { return T(sinf(float(x))); }                           \
    inline T hcos(T x) { return T(cosf(float(x))); }                           \
    inline T htanh(T x) { return T(tanhf(float(x))); }                         \
    inline T hfloor(T x) { return T(floorf(float(x))); }                       \
    inline T hceil(T x) { return T(ceilf(float(x))); }                         \
    inline T hrint(T x) { return T(rintf(float(x))); }                         \
    inline T htrunc(T x) { return T(truncf(float(x))); }                       \
    inline T atomicAdd(T* p, T v) {                                            \
        auto* place = (unsigned short*)p;                                      \
        unsigned short old = __atomic_load_n(place, __ATOMIC_RELAXED);         \
        for (;;) {                                                             \
            T before = __builtin_bit_cast(T, old);                             \
            auto after = __builtin_bit_cast(unsigned short, before + v);       \
            if (__atomic_compare_exchange_n(place, &old, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) \
                return before;                                                 \
        }                                                                      \
    }
#else
#define TW_HALF_ELEMENT_MATH(T)
#define TW_HALF_MATH(T, P)
#endif
