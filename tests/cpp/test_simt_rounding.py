"""Directed rounding and integers in words, beside what the processor does in its rounding modes, and loops."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = r"""
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#pragma STDC FENV_ACCESS ON
constexpr int count = 4096, results = 48;
__global__ void rounded(float const* x, float const* y, float const* z, float* f, double* d, unsigned* w) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = x[i], b = y[i], c = z[i];
    double p = double(a) + double(b) * 1e-9, q = double(c) * 1.0000001;
    float* o = f + i * results;
#define OF(way) *o++ = __fadd_##way(a, b); *o++ = __fsub_##way(a, b); *o++ = __fmul_##way(a, b); *o++ = __fmaf_##way(a, b, c); \
    *o++ = __fdiv_##way(a, b); *o++ = __frcp_##way(a); *o++ = __fsqrt_##way(fabsf(a)); *o++ = __double2float_##way(p);
    OF(rz) OF(ru) OF(rd)
    double* e = d + i * results; volatile double product = -p * q; double third = product * (i % 3); long long big = (long long)__double_as_longlong(p) >> 1 & 0x7fffffffffffffff;
#define OF2(way) *e++ = __dadd_##way(p, q); *e++ = __dsub_##way(p, q); *e++ = __dmul_##way(p, q); *e++ = __ddiv_##way(p, q); \
    *e++ = __dsqrt_##way(fabs(p)); *e++ = __fma_##way(p, q, third); *e++ = __ll2double_##way(big); *e++ = __ull2float_##way(big);
    OF2(rz) OF2(ru) OF2(rd)
    e[5] = fma(p, q, third);
    unsigned m = __float_as_uint(a) * 2654435761u, n = __float_as_uint(b) * 40503u + 7, *v = w + i * results;
    *v++ = m; *v++ = n; *v++ = __vadd4(m, n); *v++ = __vsubss2(m, n); *v++ = __vaddus4(m, n); *v++ = __vmaxs2(m, n);
    *v++ = __vavgs4(m, n); *v++ = __vcmpgtu4(m, n); *v++ = __vabsdiffu4(m, n); *v++ = __vsadu4(m, n); *v++ = __vneg2(m);
    *v++ = __funnelshift_rc(m, n, i % 40); *v++ = unsigned(__dp2a_hi(int(m), int(n), 3)); *v++ = __urhadd(m, n);
}
static int wrong;
template <typename T> static void same(char const* what, int i, T have, T want) {
    if (memcmp(&have, &want, sizeof have) != 0 && !(have != have && want != want) && wrong++ < 20)
        printf("%s %d: %.17g, not %.17g\n", what, i, double(have), double(want));
}
int main() {
    float *x, *y, *z, *f; double* d; unsigned* w;
    cudaMallocManaged(&x, count * 4); cudaMallocManaged(&y, count * 4); cudaMallocManaged(&z, count * 4);
    cudaMallocManaged(&f, count * results * 4); cudaMallocManaged(&d, count * results * 8); cudaMallocManaged(&w, count * results * 4);
    unsigned seed = 1;
    auto next = [&] { seed = seed * 1664525 + 1013904223; return seed; };
    for (int i = 0; i < count; ++i)
        for (float* p : {x, y, z}) {
            p[i] = std::ldexp(float(int(next())), int(next() >> 8) % 40 - 50);
            if (next() >> 28 == 0) p[i] = float(int(next() >> 8) % 7 - 3);
        }
    rounded<<<count / 64, 64>>>(x, y, z, f, d, w);
    if (cudaDeviceSynchronize() != cudaSuccess) return 2;
    int const modes[] = {FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
    for (int i = 0; i < count; ++i) {
        volatile float a = x[i], b = y[i], c = z[i], r;
        volatile double p = double(a) + double(b) * 1e-9, q = double(c) * 1.0000001, t;
        for (int k = 0; k < 3; ++k) {
            float* o = f + i * results + 8 * k; double* e = d + i * results + 8 * k;
            std::fesetround(modes[k]);
            r = a + b; same("add", i, *o++, (float)r); r = a - b; same("sub", i, *o++, (float)r); r = a * b; same("mul", i, *o++, (float)r);
            r = std::fma((float)a, (float)b, (float)c); same("fma", i, *o++, (float)r); r = a / b; same("div", i, *o++, (float)r);
            r = 1.0f / a; same("rcp", i, *o++, (float)r); r = std::fabs((float)a); r = std::sqrt((float)r); same("sqrt", i, *o++, (float)r);
            r = (float)p; same("convert", i, *o++, (float)r);
            t = p + q; same("dadd", i, *e++, (double)t); t = p - q; same("dsub", i, *e++, (double)t); t = p * q; same("dmul", i, *e++, (double)t);
            t = p / q; same("ddiv", i, *e++, (double)t); t = std::fabs((double)p); t = std::sqrt((double)t); same("dsqrt", i, *e++, (double)t);
            volatile long long big = (long long)__builtin_bit_cast(long long, (double)p) >> 1 & 0x7fffffffffffffff;
            ++e; t = (double)big; same("ll", i, *e++, (double)t); r = (float)(unsigned long long)big; same("ull", i, *e++, (double)r);
        }
        std::fesetround(FE_TONEAREST);
        double *fused = d + i * results + 5, z = fused[0], up = fused[8], down = fused[16], mid = fused[24];
        if (z != (mid > 0 ? down : up) || !(down <= mid && mid <= up) || (down != up && std::nextafter(down, INFINITY) != up))
            printf("dfma %d: %.17g %.17g %.17g %.17g\n", i, z, up, down, mid), ++wrong;
        unsigned *v = w + i * results, m = *v++, n = *v++, want[12] = {};
        auto bytes = [&](unsigned u, int k) { return int(u >> 8 * k & 255); };
        auto halves = [&](unsigned u, int k) { return int(short(u >> 16 * k)); };
        for (int k = 0; k < 4; ++k) {
            int a1 = bytes(m, k), b1 = bytes(n, k), s1 = (signed char)a1 + (signed char)b1;
            want[0] |= unsigned((a1 + b1) & 255) << 8 * k; want[2] |= unsigned(a1 + b1 > 255 ? 255 : a1 + b1) << 8 * k;
            want[4] |= unsigned(int(std::floor(s1 / 2.0 + (s1 >= 0 ? 0.5 : 0))) & 255) << 8 * k;
            want[5] |= (a1 > b1 ? 255u : 0u) << 8 * k; want[6] |= unsigned(std::abs(a1 - b1)) << 8 * k; want[7] += unsigned(std::abs(a1 - b1));
        }
        for (int k = 0; k < 2; ++k) {
            int a1 = halves(m, k), b1 = halves(n, k), c1 = a1 - b1;
            want[1] |= (unsigned(c1 > 32767 ? 32767 : c1 < -32768 ? -32768 : c1) & 65535) << 16 * k;
            want[3] |= (unsigned(a1 > b1 ? a1 : b1) & 65535) << 16 * k; want[8] |= (unsigned(-a1) & 65535) << 16 * k;
        }
        int by = i % 40 < 32 ? i % 40 : 32;
        want[9] = unsigned(((unsigned long long)n << 32 | m) >> by);
        want[10] = unsigned(3 + halves(m, 0) * (signed char)bytes(n, 2) + halves(m, 1) * (signed char)bytes(n, 3));
        want[11] = unsigned(((unsigned long long)m + n + 1) / 2);
        for (int k = 0; k < 12; ++k) same("word", 100 * i + k, double(v[k]), double(want[k]));
    }
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
"""


def output(tmp_path: Path, text: str) -> str:
    program = tmp_path / "program.cu"
    program.write_text(text)
    command = [sys.executable, "-m", "tilewright", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_directed_rounding_and_words(tmp_path: Path) -> None:
    assert output(tmp_path, PROGRAM) == "0 wrong\n"


SCALARS = r"""#include <cstdio>
#include <cuComplex.h>
__global__ void k(double* o) {
    o[0] = erfcx(-1.0); o[1] = erfcx(0.5); o[2] = erfcx(30.0); o[3] = erfcx(1e200); o[4] = erfcx(-30.0);
    o[5] = cyl_bessel_i0(2.0); o[6] = cyl_bessel_i1(-2.0); o[7] = cyl_bessel_i0f(0.0f); o[8] = cyl_bessel_i1(300.0) / 1e128;
    o[9] = __fns(0b101100, 0, 2) * 1000 + __fns(0b101100, 3, -2) * 10 + (__fns(1, 1, 1) == ~0u);
    o[10] = cuCfma(make_cuDoubleComplex(1, 2), make_cuDoubleComplex(3, 4), make_cuDoubleComplex(5, 6)).y;
    o[11] = sizeof(double4_32a) + make_double4_16a(1, 2, 3, 4).w / 8;
}
int main() { double* o; cudaMallocManaged(&o, 256); k<<<1, 1>>>(o); if (cudaDeviceSynchronize()) return 1; for (int i = 0; i < 12; ++i) printf("%.12g\n", o[i]); }
"""


def test_scalar_functions(tmp_path: Path) -> None:
    erfcx = [5.008980080762, 0.6156903441929, 0.0187958888614, 5.6418958354776e-201, math.inf]  # of tables
    others = [2.2795853023361, -1.5906368546373, 1, 4.46838138504, 3021, 16, 32.5]
    assert [float(line) for line in output(tmp_path, SCALARS).split()] == pytest.approx([*erfcx, *others], rel=1e-8)


CONVERSIONS = r"""#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void integers(long long* out, float const* in) {
  __half h = in[threadIdx.x];
  long long found[] = {__half2int_rn(h), __half2int_rd(h), __half2int_ru(h), __half2short_rz(h), __half2uint_rn(h),
                       __half2uchar_rz(h), __half2char_rz(h), __half2ll_ru(h), __bfloat162int_rz(__nv_bfloat16(in[threadIdx.x]))};
  for (int i = 0; i < 9; ++i) out[9 * threadIdx.x + i] = found[i];
}
__global__ void numbers(float* out) {
  int i = 0;
  for (int n : {2049, -2049, 70000, 0, 4096})
    for (__half h : {__int2half_rd(n), __int2half_ru(n), __int2half_rz(n)}) out[i++] = float(h);
  for (float x : {1e-9f, -1e-9f, 0.1f})
    for (__nv_bfloat16 b : {__float2bfloat16_rd(x), __float2bfloat16_ru(x), __float2bfloat16_rz(x)}) out[i++] = float(b);
  out[i++] = float(__ll2bfloat16_ru((1ll << 60) + 1)) - float(1ll << 60);
  __half nan = __short_as_half(0x7e00);
  __half2 a{1.0f, nan}, b{2.0f, 1.0f};
  out[i++] = __hltu(a.y, b.y) * 8 + __hbltu2(a, b) * 4 + __hblt2(a, b) * 2 + __heq(a.x, b.x);
  out[i++] = __hlt2_mask(a, b) == 0xffffu && __hgtu2_mask(a, b) == 0xffff0000u;
  __half2 c = __hcmadd(__half2{1.0f, 2.0f}, __half2{3.0f, -1.0f}, __half2{10.0f, 20.0f});
  out[i++] = float(c.x) * 100 + float(c.y);
  out[i++] = float(rnorm3d(2, 3, 6) * 7 + rhypot(3, 4) * 5);
}
int main() {
  float *in, *f; long long* n;
  cudaMallocManaged(&in, 16); cudaMallocManaged(&f, 256); cudaMallocManaged(&n, 512);
  in[0] = 2.5f, in[1] = -2.5f, in[2] = 60000, in[3] = __builtin_nanf("");
  integers<<<1, 4>>>(n, in); numbers<<<1, 1>>>(f);
  if (cudaDeviceSynchronize()) return 1;
  for (int i = 0; i < 36; ++i) printf("%lld%c", n[i], i % 9 == 8 ? '\n' : ' ');
  for (int i = 0; i < 29; ++i) printf("%.8g ", f[i]);
}
"""


def test_conversions_of_16_bit_floats(tmp_path: Path) -> None:
    *integers, numbers = output(tmp_path, CONVERSIONS).strip().split("\n")
    assert integers == [
        "2 2 3 2 2 2 2 3 2",
        "-2 -3 -2 -2 0 0 -2 -2 -2",
        "60000 60000 60000 32767 60000 255 127 60000 59904",
        f"0 0 0 0 0 0 0 {-(2**63)} 0",
    ]
    assert numbers.strip() == (
        "2048 2050 2048 -2050 -2048 -2048 65504 inf 65504 0 0 0 4096 4096 4096 "
        "9.9680619e-10 1.0040822e-09 9.9680619e-10 -1.0040822e-09 -9.9680619e-10 -9.9680619e-10 "
        "0.099609375 0.10009766 0.099609375 9.0071993e+15 12 1 1525 2"
    )
