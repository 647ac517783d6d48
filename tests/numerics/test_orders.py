"""The order of reductions and scans, and the rounding of each step, as docs/numerics.md says: against MPFR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.elementwise import BACKENDS
from support.mpfr_oracle import MODES, assert_same, exactly, rounded

import tilewright as ct
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode

pytestmark = pytest.mark.parametrize("backend", BACKENDS)
RN = RoundingMode.RN
SHAPES = [((512,), 0), ((64,), 0), ((8,), 0), ((4, 128), 1), ((128, 4), 0), ((2, 64, 8), 1), ((16, 32, 1), 1)]
REDUCTIONS = {"add": ct.sum, "mul": ct.prod}
SCANS = {"add": ct.cumsum, "mul": ct.cumprod}
Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]


def values(shape: tuple[int, ...], dtype: DType, name: str) -> np.ndarray:
    """Numbers whose sums and products need rounding and stay in range."""
    rng = np.random.default_rng(len(shape) + shape[0])
    x = rng.standard_normal(shape) if name == "add" else np.exp2(rng.uniform(-0.5, 0.5, shape))
    return (x * np.where(rng.random(shape) < 0.1, 64 if name == "add" else -1, 1)).astype(dtype.storage)


def combine(name: str, dtype: DType, mode: RoundingMode) -> Combine:
    def step(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        flat = rounded(name, dtype, mode, exactly(a), exactly(b))
        return flat.reshape(a.shape).astype(dtype.storage)

    return step


def folded(x: np.ndarray, axis: int, step: Combine) -> np.ndarray:
    innermost = all(n == 1 for n in x.shape[axis + 1 :])
    parts = min(x.shape[axis], 64 if innermost else 4)
    lines = np.moveaxis(x, axis, 0)
    partial = lines[:parts]
    for start in range(parts, len(lines), parts):
        partial = step(partial, lines[start : start + parts])
    while len(partial) > 1:
        half = len(partial) // 2
        partial = step(partial[:half], partial[half:])
    return partial[0]


def scanned(x: np.ndarray, axis: int, step: Combine, reverse: bool) -> np.ndarray:
    lines = np.moveaxis(x, axis, 0)[:: -1 if reverse else 1]
    running = [lines[0]]
    for line in lines[1:]:
        running.append(step(running[-1], line))
    return np.moveaxis(np.stack(running)[:: -1 if reverse else 1], 0, axis)


def reduced(backend: str, x: np.ndarray, name: str, axis: int, mode: RoundingMode | None, flush: bool = False) -> Any:
    operation, shape = REDUCTIONS[name], x.shape

    @ct.kernel
    def kernel(x, out):
        tile = ct.load(x, (0,) * x.ndim, shape)
        result = operation(tile, axis, keepdims=True, rounding_mode=mode, flush_to_zero=flush)
        ct.store(out, (0,) * x.ndim, result)

    out = np.zeros(x.shape[:axis] + (1,) + x.shape[axis + 1 :], x.dtype)
    with ct.use_backend(backend):
        ct.launch(None, (1,), kernel, (x, out))
    return out.squeeze(axis)


def cumulated(backend: str, x: np.ndarray, name: str, axis: int, mode: RoundingMode, backward: bool) -> np.ndarray:
    operation, shape = SCANS[name], x.shape

    @ct.kernel
    def kernel(x, out):
        tile = ct.load(x, (0,) * x.ndim, shape)
        ct.store(out, (0,) * x.ndim, operation(tile, axis, reverse=backward, rounding_mode=mode))

    out = np.zeros_like(x)
    with ct.use_backend(backend):
        ct.launch(None, (1,), kernel, (x, out))
    return out


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_sums_and_products(backend: str, name: str, dtype: DType, shape: tuple[int, ...], axis: int) -> None:
    x = values(shape, dtype, name)
    for mode in MODES if shape == (4, 128) else (RN,):
        want = folded(x, axis, combine(name, dtype, mode))
        assert_same(reduced(backend, x, name, axis, mode).reshape(-1), want.reshape(-1).astype(np.float64))


def test_sums_flush_each_step(backend: str) -> None:
    least = np.float32(2.0**-126)
    x = np.full((4, 64), least / 2, np.float32)  # subnormal operands vanish
    assert not reduced(backend, x, "add", 1, RN, flush=True).any()
    x[:, 0], x[:, 1] = least, least / 2
    assert (reduced(backend, x, "add", 1, RN, flush=True) == least).all()
    x[:, 1:] = -least * np.float32(1.5)
    assert (reduced(backend, x[:, :2].copy(), "add", 1, RN, flush=True) == 0).all()  # a subnormal sum too
    assert (reduced(backend, x[:, :2].copy(), "add", 1, RN) == -least / 2).all()


@pytest.mark.parametrize("backward", (False, True), ids=["forward", "backward"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES[1:6], ids=str)
@pytest.mark.parametrize(("name", "dtype"), [*(("add", d) for d in dtypes.FLOATS), ("mul", dtypes.float32)], ids=str)
def test_scans(backend: str, name: str, dtype: DType, shape: tuple[int, ...], axis: int, backward: bool) -> None:
    x = values(shape, dtype, name)
    for mode in MODES if shape == (4, 128) else (RN,):
        out = cumulated(backend, x, name, axis, mode, backward)
        want = scanned(x, axis, combine(name, dtype, mode), backward)
        assert_same(out.reshape(-1), want.reshape(-1).astype(np.float64))


@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_integers_wrap(backend: str, dtype: DType) -> None:
    x = np.random.default_rng(2).integers(dtype.min, dtype.max, (8, 32), dtype.storage, endpoint=True) | 1
    np.testing.assert_array_equal(reduced(backend, x, "add", 1, None), x.sum(1, dtype=dtype.storage))
    np.testing.assert_array_equal(reduced(backend, x, "mul", 1, None), x.prod(1, dtype=dtype.storage))


@ct.kernel
def reduce_axes(x, out):
    tile = ct.load(x, (0, 0, 0), (4, 8, 16))
    ct.store(out, (0,), ct.reshape(ct.sum(tile), (1,)))
    ct.store(out, (1,), ct.reshape(ct.sum(tile, (0, 1, 2)), (1,)))
    ct.store(out, (2,), ct.reshape(ct.sum(ct.sum(ct.sum(tile, 2), 1), 0), (1,)))


def test_several_axes_go_last_first(backend: str) -> None:
    x, out = values((4, 8, 16), dtypes.float32, "add"), np.zeros(3, np.float32)
    with ct.use_backend(backend):
        ct.launch(None, (1,), reduce_axes, (x, out))
    step = combine("add", dtypes.float32, RN)
    want = folded(folded(folded(x, 2, step), 1, step), 0, step)
    assert (out == want).all()


@ct.kernel
def fold_left(x, out, running):
    tile = ct.load(x, (0, 0), (4, 32))
    ct.store(out, (0,), ct.reduce(tile, 1, lambda a, b: a * 0.75 + b, 0.0))
    ct.store(running, (0, 0), ct.scan(tile, 1, lambda a, b: a * 0.75 + b, 0.0))


def test_functions_fold_from_left_to_right(backend: str) -> None:
    """Also one that is not associative; the original asks for an associative one."""
    x, out = values((4, 32), dtypes.float32, "add"), np.zeros(4, np.float32)
    running = np.zeros_like(x)
    with ct.use_backend(backend):
        ct.launch(None, (1,), fold_left, (x, out, running))
    want = [x[:, 0]]
    for k in range(1, 32):
        want.append(want[-1] * np.float32(0.75) + x[:, k])
    np.testing.assert_array_equal(running, np.stack(want, 1))
    np.testing.assert_array_equal(out, want[-1])
