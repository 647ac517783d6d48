"""The largest errors of a GPU backend, measured on a GPU: python -m support.accuracy_table writes them too.

float32 functions of one operand are measured on all values, those of two on random ones, with PyTorch's float64
functions as the measure; 16-bit ones likewise; float64 on the samples of ``support.accuracy`` against MPFR.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from support.accuracy import FUNCTIONS, Function, exact_values, largest_error, samples

import tilewright as ct
from tilewright.ir.dtypes import DType, float64

_DEVICE = "cuda"
_TILE = 1 << 10
_CHUNK = 1 << 26
_PAIRS = 1 << 28
_TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
_EXACT: dict[str, Callable[..., Any]] = {"truediv": torch.div, "rsqrt": torch.rsqrt, "pow": torch.pow}
_LEAST_NORMAL = 2.0**-126


def measured_on_gpu(backend: str) -> Iterator[tuple[str, str, float]]:
    """The name of each function, the short name of each dtype, and the largest error in ulp."""
    with ct.use_backend(backend):
        for name, function in FUNCTIONS.items():
            for dtype in function.dtypes():
                yield name, dtype.short, max(_errors(name, function, dtype))


def _errors(name: str, function: Function, dtype: DType) -> Iterator[float]:
    kernel = _kernel(function)
    if dtype is float64:
        operands = samples(name, dtype)
        got = _apply(kernel, [torch.from_numpy(x).to(_DEVICE) for x in operands], torch.float64).cpu().numpy()
        yield largest_error(got, *exact_values(name, dtype), dtype, operands, function.flushed)[0]
        return
    exact = _EXACT.get(name.split(",")[0]) or getattr(torch, name.split(",")[0])
    for operands in _operands(function, dtype):
        if name == "truediv, APPROX":  # the instruction gives 0 for the largest divisors
            operands[1].clamp_(-(2.0**126), 2.0**126)
        got = _apply(kernel, operands, _TORCH[dtype.short])
        wide = [_flushed(x.double()) if function.flushed else x.double() for x in operands]
        yield _largest(got.double(), exact(*wide), dtype, flushed=function.flushed)


def _kernel(function: Function) -> Any:
    formula = function.formula

    @ct.kernel
    def apply(inputs, out, TILE: ct.Constant[int]):
        i = ct.bid(0)
        tiles = tuple(ct.load(x, (i,), (TILE,)) for x in ct.static_iter(inputs))
        ct.store(out, (i,), formula(*tiles))

    return apply


def _apply(kernel: Any, operands: list[Any], dtype: Any) -> Any:
    out = torch.empty(operands[0].numel(), dtype=dtype, device=_DEVICE)
    stream = torch.cuda.current_stream()
    ct.launch(stream, (ct.cdiv(out.numel(), _TILE),), kernel, (tuple(operands), out, _TILE))
    return out


def _operands(function: Function, dtype: DType) -> Iterator[list[Any]]:
    kind = _TORCH[dtype.short]
    integer = torch.int32 if dtype.bitwidth == 32 else torch.int16
    if function.operands == 1:
        count = 1 << dtype.bitwidth
        for start in range(0, count, _CHUNK):
            bits = torch.arange(start, min(start + _CHUNK, count), device=_DEVICE)
            yield [bits.to(integer).view(kind)]
        return
    generator = torch.Generator(_DEVICE).manual_seed(13)

    def uniform(low: float, high: float) -> Any:
        return (
            torch.empty(_CHUNK, device=_DEVICE, dtype=torch.float64).uniform_(low, high, generator=generator).to(kind)
        )

    def bits() -> Any:
        top = 1 << (dtype.bitwidth - 1)
        return torch.randint(-top, top, (_CHUNK,), device=_DEVICE, generator=generator).to(integer).view(kind)

    for _ in range(_PAIRS // _CHUNK // 4):
        yield [bits(), bits()]
        yield [bits().abs(), uniform(-2, 2)]
        yield [uniform(0.5, 2), uniform(-900, 900)]
        yield [uniform(-5, 5), uniform(-300, 300).round()]


def _flushed(x: Any) -> Any:
    return torch.where(x.abs() < _LEAST_NORMAL, torch.copysign(torch.zeros_like(x), x), x)


def _largest(got: Any, exact: Any, dtype: DType, *, flushed: bool) -> float:
    """See ``support.accuracy.largest_error``, which needs no digits beyond those of float64 for narrower formats."""
    bits, top = dtype.mantissa_bits, 1 << (dtype.exponent_bits - 1)
    plain = (exact == 0) | ~exact.isfinite()
    if flushed:
        plain |= (exact.abs() < _LEAST_NORMAL) & (got == 0)
        exact = torch.where(exact.abs() < _LEAST_NORMAL * (1 - 2.0**-20), torch.copysign(exact * 0, exact), exact)
    same = (got == exact) | (got.isnan() & exact.isnan())
    wrong = (plain & ~same) | (~plain & (got.isnan() | (got.signbit() != exact.signbit())))
    exponent = (torch.frexp(exact).exponent - 1).clamp(2 - top, top - 1)
    limit = math.ldexp(1.0, top)
    reached = torch.where(got.isinf(), torch.copysign(torch.full_like(got, limit), got), got)
    distance = (reached - exact).abs() * torch.exp2((bits - exponent).double())
    beyond = got.isinf() & (exact.abs() >= math.ldexp(2 - 2.0 ** -(bits + 1), top - 1))
    distance = torch.where(plain | beyond, 0.0, distance)
    return math.inf if bool(wrong.any()) else float(distance.max())
