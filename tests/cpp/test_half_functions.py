"""Functions of the 16-bit floats in SIMT code, one by one and in pairs, beside NumPy: of random bits and special numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
COUNT = 2048
TYPES = {"half": ("__half", "__half2", np.float16), "bfloat16": ("__nv_bfloat16", "__nv_bfloat162", ml_dtypes.bfloat16)}


def nearest(x: Array, type: Any) -> Array:
    """``x``, in 64 bits, as the nearest number of ``type``: floats of 32 bits on the way keep on which side it is."""
    single = x.astype(np.float32)
    bits, off = single.view(np.uint32), single != x
    larger = np.abs(single).astype(np.float64) > np.abs(x)
    odd = np.where(off & np.isfinite(x), (bits - larger) | 1, bits).astype(np.uint32).view(np.float32)
    return odd.astype(type)


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c with one rounding, to an odd last bit of 64, so that another one is as if it were the only one."""
    p = a * b  # exact
    s = p + c
    t = s - p
    e = (p - (s - t)) + (c - t)
    bits = s.view(np.int64)
    step = np.where((e > 0) == (s > 0), 1, -1)
    return np.where(((e > 0) | (e < 0)) & (bits & 1 == 0), bits + step, bits).view(np.float64)


def saturated(x: Array) -> Array:
    return np.where(x > 0, np.minimum(x, 1), 0.0)


UNARY: dict[str, tuple[Callable[[Array], Array], int]] = {  # and the last places that they may be off
    **{f"h{n}": (getattr(np, n), 1) for n in ("exp", "exp2", "log", "log2", "log10", "sin", "cos", "tanh")},
    **{f"h{n}": (getattr(np, n), 0) for n in ("sqrt", "floor", "ceil", "rint", "trunc")},
    "hexp10": (lambda x: np.power(10.0, x), 1),
    "hrsqrt": (lambda x: 1 / np.sqrt(x), 1),
    "hrcp": (lambda x: 1 / x, 0),
    "__hneg": (np.negative, 0),
    "__habs": (np.abs, 0),
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    **{
        f"__h{n}{end}": f
        for n, f in {"add": np.add, "sub": np.subtract, "mul": np.multiply}.items()
        for end in ("", "_rn")
    },
    "__hdiv": np.divide,
    "__hmin": lambda a, b: np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b)),  # -0 is less than 0
    "__hmax": lambda a, b: np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b)),
    "__hmin_nan": lambda a, b: np.where(a == b, np.where(np.signbit(a), a, b), np.minimum(a, b)),
    "__hmax_nan": lambda a, b: np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b)),
}
SATURATED = {f"__h{n}_sat": BINARY[f"__h{n}"] for n in ("add", "sub", "mul")}
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": lambda a, b: (a < b) | (a > b), "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal
}  # fmt: skip
PAIRS = {"__hdiv": "__h2div"}  # where it is not the name with a 2
WAYS: dict[str, Callable[[Array], Array]] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
INTEGERS = {"int": ("int", np.int32), "uint": ("unsigned", np.uint32), "short": ("short", np.int16),
            "ushort": ("unsigned short", np.uint16), "ll": ("long long", np.int64)}  # fmt: skip


def pair(name: str) -> str:
    if name.startswith("h"):
        return f"h2{name[1:]}"
    base, _, end = name.removeprefix("__").partition("_")
    return PAIRS.get(name, f"__{base}2{'_' if end else ''}{end}")


def expressions(name: str) -> Iterator[str]:
    """What the kernel stores, in the order of ``results``: each function, then that of pairs."""
    for function in UNARY:
        yield from (f"bits({function}(x))", f"bits({pair(function)}(v).y)")
    for function in (*BINARY, *SATURATED):
        yield from (f"bits({function}(x, y))", f"bits({pair(function)}(v, w).y)")
    for function in ("__hfma", "__hfma_sat", "__hfma_relu"):
        yield from (f"bits({function}(x, y, z))", f"bits({pair(function)}(v, w, u).y)")
    for comparison in COMPARISONS:
        for end in ("", "u"):
            yield from (f"__h{comparison}{end}(x, y)", f"float(__h{comparison}{end}2(v, w).y) == 1")
            yield from (f"__h{comparison}{end}2_mask(v, w) >> 31", f"__hb{comparison}{end}2(v, w)")
    for word, (type, _) in INTEGERS.items():
        yield from (f"(long long)__{name}2{word}_{way}(x)" for way in WAYS)
        yield from (f"bits(__{word}2{name}_{way}(({type})(n[i] >> 13)))" for way in WAYS)
    yield from (f"bits(__float2{name}_{way}(s[i]))" for way in WAYS)
    yield from (f"bits(__double2{name}(d[i]))", "__hisnan(x)", f"bits(__{name}2{name}2(x).y)", "__hisinf(x)")
    yield from ("__high2float(w) == float(y)", "__low2float(__lowhigh2highlow(w)) == float(y)")


def results(type: Any, x: Array, y: Array, z: Array, n: Array, d: Array) -> Iterator[tuple[Array, int]]:
    """What NumPy has for these, and the last places that each may be off."""
    a, b, c = (v.astype(np.float64) for v in (x, y, z))
    for one, off in UNARY.values():
        yield from [(nearest(np.asarray(one(a), np.float64), type), off)] * 2
    for two in BINARY.values():
        yield from [(nearest(two(a, b), type), 0)] * 2
    for two in SATURATED.values():
        yield from [(nearest(saturated(nearest(two(a, b), type).astype(np.float64)), type), 0)] * 2
    sums = nearest(fused(a, b, c), type).astype(np.float64)
    for made in (sums, saturated(sums), np.where(sums < 0, 0, sums)):
        yield from [(made.astype(type), 0)] * 2
    unordered = np.isnan(a) | np.isnan(b)
    for compare in COMPARISONS.values():
        for found in (compare(a, b), compare(a, b) | unordered):
            yield from [(found.astype(np.int64), 0)] * 4
    for _, integer in INTEGERS.values():
        least, most = int(np.iinfo(integer).min), int(np.iinfo(integer).max)
        for way in WAYS.values():
            nan = least if integer is np.int64 else 0  # as the conversions of the hardware give it
            whole = (nan if v != v else int(max(min(v, 2.0**70), -(2.0**70))) for v in way(a))
            yield np.array([min(max(v, least), most) for v in whole], np.int64), 0
        whole_numbers = (n >> 13).astype(integer).astype(np.float64)
        yield from ((towards(whole_numbers, way, type), 0) for way in WAYS)
    yield from ((towards(d.astype(np.float32).astype(np.float64), way, type), 0) for way in WAYS)
    yield from [(nearest(d, type), 0), (np.isnan(a).astype(np.int64), 0), (x, 0)]
    yield (np.where(np.isinf(a), np.sign(a), 0).astype(np.int64), 0)
    yield from [((~np.isnan(b)).astype(np.int64), 0)] * 2


def towards(values: Array, way: str, type: Any) -> Array:
    """``values``, which are exact in 64 bits, as numbers of ``type`` that are next to them in a direction."""
    near = nearest(values, type)
    bits, back = near.view(np.int16).astype(np.int64), near.astype(np.float64)
    down = {"rn": False, "rz": values > 0, "rd": True, "ru": False}[way]
    up = {"rn": False, "rz": values < 0, "rd": False, "ru": True}[way]
    step = np.where((back > values) & down, -1, np.where((back < values) & up, 1, 0))
    order = np.where(bits < 0, -(bits & 0x7FFF), bits) + step  # as the numbers are
    stepped = np.where(order < 0, 0x8000 | -order, order).astype(np.uint16).view(type)
    return np.where(step == 0, near, np.copysign(stepped, values.astype(type)))


def program() -> str:
    kernels, launches = [], []
    for name, (one, two, _) in TYPES.items():
        stores = "\n".join(f"  out[{k} * {COUNT} + i] = {e};" for k, e in enumerate(expressions(name)))
        kernels.append(f"""
__device__ unsigned short bits({one} x) {{ return __builtin_bit_cast(unsigned short, x); }}
__global__ void of_{name}(long long* out, {one}* a, {one}* b, {one}* c, long long* n, float* s, double* d) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {one} x = a[i], y = b[i], z = c[i];
  {two} v{{x, x}}, w{{y, y}}, u{{z, z}};
{stores}
}}""")
        launches.append(
            f"of_{name}<<<{COUNT // 128}, 128>>>(out, ({one}*)in[0], ({one}*)in[1], ({one}*)in[2], n, s, d); finish();"
        )
    rows = len(list(expressions("half")))
    return f"""#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
{"".join(kernels)}
template <typename T> T* input() {{
  T* p; cudaMallocManaged(&p, {COUNT} * sizeof(T));
  return fread(p, sizeof(T), {COUNT}, stdin) == {COUNT} ? p : nullptr;
}}
long long* out;
void finish() {{
  if (cudaDeviceSynchronize() == cudaSuccess) fwrite(out, 8, {rows * COUNT}, stdout);
}}
int main() {{
  unsigned short* in[] = {{input<unsigned short>(), input<unsigned short>(), input<unsigned short>()}};
  auto* n = input<long long>(); auto* s = input<float>(); auto* d = input<double>();
  cudaMallocManaged(&out, {rows * COUNT * 8});
  {" ".join(launches)}
}}
"""


def test_each_function_of_16_bit_floats(tmp_path: Path) -> None:
    random = np.random.default_rng(34)
    inputs = [random.integers(0, 1 << 16, COUNT).astype(np.uint16) for _ in range(3)]
    special = [0, 0x8000, 1, 0x8001, 0x7C00, 0xFC00, 0x7E00, 0x3C00, 0x7F80, 0xFF80, 0x7FC0, 0x3F80, 0xBF80]
    mixed = np.array(np.meshgrid(special, special)).reshape(2, -1)
    inputs[0][: mixed.shape[1]], inputs[1][: mixed.shape[1]] = mixed
    # Halves of last places, to which something small is added.
    inputs[0][-64:], inputs[1][-64:], inputs[2][-64:] = 0x3F81, 0x3F80 + np.arange(64), random.choice([1, 0x8001], 64)
    n = random.integers(-(1 << 62), 1 << 62, COUNT)
    d = random.standard_normal(COUNT) * np.exp2(random.integers(-30, 20, COUNT)) * (1 + 2.0**-40)
    d[:64] = 1 + np.arange(64) / 256 + 2.0**-40
    (tmp_path / "program.cu").write_text(program())
    given = b"".join(v.tobytes() for v in (*inputs, n, d.astype(np.float32), d))
    command = [sys.executable, "-m", "tilewright", "run", str(tmp_path / "program.cu")]
    done = subprocess.run(command, input=given, capture_output=True, env=dict(os.environ), timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = np.frombuffer(done.stdout, np.int64).reshape(2, -1, COUNT)
    wrong = []
    for (name, (_, _, type)), found in zip(TYPES.items(), rows):
        x, y, z = (v.view(type) for v in inputs)
        with np.errstate(all="ignore"):
            wanted = list(results(type, x, y, z, n, d))
        names = list(expressions(name))
        assert len(names) == len(wanted) == len(found)
        for expression, row, (want, off) in zip(names, found, wanted):
            bad = np.flatnonzero(different(row, want, off))
            if len(bad):
                i = bad[0]
                got = row[i] if want.dtype == np.int64 else row[i : i + 1].astype(np.uint16).view(type)[0]
                wrong.append(f"{name} {expression}: {got}, not {want[i]}, of {x[i]}, {y[i]}, {z[i]}; {len(bad)} such")
    assert not wrong, "\n".join(wrong)


def different(row: Array, want: Array, off: int) -> Array:
    if want.dtype == np.int64:
        return row != want
    bits = row.astype(np.uint16)
    with np.errstate(all="ignore"):
        have, goal = bits.view(want.dtype).astype(np.float64), want.astype(np.float64)
    ordered = [np.where(b >> 15, -(b & 0x7FFF).astype(int), b & 0x7FFF) for b in (bits, want.view(np.uint16))]
    signs = np.signbit(have) != np.signbit(goal)
    return ~(np.isnan(have) & np.isnan(goal)) & ((np.abs(ordered[0] - ordered[1]) > off) | (signs & (off == 0)))


EIGHT = r"""#include <cstdio>
#include <cuda_fp8.h>
#include <cuda_tf32.h>
template <typename T> __global__ void store(T* out, unsigned char* loose, float* back, __nv_fp8_interpretation_t kind) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = T(__builtin_bit_cast(float, i << 16));
  loose[i] = __nv_cvt_float_to_fp8(__builtin_bit_cast(float, i << 16), __NV_NOSAT, kind);
  if (i < 256) back[i] = float(__builtin_bit_cast(T, (unsigned char)i));
}
template <typename T> void show(__nv_fp8_interpretation_t kind) {
  T* out; unsigned char* loose; float* back;
  cudaMallocManaged(&out, 65536); cudaMallocManaged(&loose, 65536); cudaMallocManaged(&back, 1024);
  store<<<256, 256>>>(out, loose, back, kind);
  if (cudaDeviceSynchronize() == cudaSuccess) fwrite(out, 1, 65536, stdout), fwrite(loose, 1, 65536, stdout), fwrite(back, 4, 256, stdout);
}
int main() {
  show<__nv_fp8_e4m3>(__NV_E4M3); show<__nv_fp8_e5m2>(__NV_E5M2);
  __nv_fp8x4_e4m3 four(make_float4(1, -2, 3.3f, 500));
  float4 v(four);
  fprintf(stderr, "%g %g %g %g %g %g", v.x, v.y, v.z, v.w, float(__half(__nv_cvt_fp8_to_halfraw(0x3a, __NV_E4M3))), float(__nv_tf32(1.0004883f)));
}
"""


def test_8_bit_floats_beside_tile_code(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(EIGHT)
    command = [sys.executable, "-m", "tilewright", "run", str(tmp_path / "program.cu")]
    done = subprocess.run(command, capture_output=True, env=dict(os.environ), timeout=300, check=False)
    assert done.stderr == b"1 -2 3.25 448 1.25 1.00098"
    numbers = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32)
    size = 2 * 65536 + 1024
    for k, (type, most) in enumerate([(ml_dtypes.float8_e4m3fn, 448), (ml_dtypes.float8_e5m2, 57344)]):
        part = done.stdout[k * size : (k + 1) * size]
        for at, wanted in ((0, np.clip(numbers, -most, most)), (65536, numbers)):
            found = np.frombuffer(part[at : at + 65536], type).astype(np.float32)
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(found, wanted.astype(type).astype(np.float32))
        back = np.frombuffer(part[2 * 65536 :], np.float32)
        np.testing.assert_array_equal(back, np.arange(256, dtype=np.uint8).view(type).astype(np.float32))
