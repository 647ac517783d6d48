// Conversions of the 8-bit floating-point types and tfloat32 where the processor computes them, in host and SIMT code.
#pragma once
#pragma clang system_header

namespace __tw_stored {
// Numbers of `M` bits behind the point, with exponents from `least` on; `most` are the bits of the greatest one.
template <int M, int least, unsigned most, bool infinite>
struct format {
    static constexpr double unit(int exponent) {
        return __builtin_bit_cast(double, (unsigned long long)(1023 + exponent) << 52);
    }
    static constexpr double value(unsigned bits) {
        unsigned magnitude = bits & 127, exponent = magnitude >> M, fraction = magnitude & ((1u << M) - 1);
        double found = exponent ? double(fraction + (1u << M)) * unit(int(exponent) - 1 + least - M) : fraction * unit(least - M);
        if (magnitude > most) found = infinite && fraction == 0 ? __builtin_inf() : __builtin_nan("");
        return bits & 128 ? -found : found;
    }
    static constexpr unsigned char bits(double x, bool finite) {
        if (x != x) return 127;
        auto all = __builtin_bit_cast(unsigned long long, x);
        double size = x < 0 ? -x : x;
        unsigned sign = unsigned(all >> 56) & 128, past = infinite ? most + 1 : 127u;
        int exponent = int(all >> 52 & 2047) - 1023;
        exponent = exponent < least ? least : exponent;
        if (size >= 2 * value(most)) return (unsigned char)(sign | (finite ? most : past));
        double scaled = size * unit(M - exponent), whole = double((long long)scaled), rest = scaled - whole;
        auto number = unsigned(whole) + ((rest > 0.5 || (rest == 0.5 && (unsigned(whole) & 1))) ? 1 : 0);
        number += unsigned(exponent - least) << M;
        return (unsigned char)(sign | (number > most ? (finite ? most : past) : number));
    }
};
using e4m3 = format<3, -6, 126, false>;
using e5m2 = format<2, -14, 123, true>;
constexpr float tf32(float x) {  // ties away from zero
    auto bits = __builtin_bit_cast(unsigned, x);
    return x != x || x - x != 0 ? x : __builtin_bit_cast(float, (bits + 0x1000) & ~0x1fffu);
}
}  // namespace __tw_stored
