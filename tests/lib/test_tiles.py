"""Softmax, norms and sorting of tiles against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct
from tilewright import lib


def run(function: Callable[..., Any], *inputs: np.ndarray, out: np.ndarray) -> np.ndarray:
    """``function`` of whole arrays as tiles, in a kernel."""
    shapes, zeros = tuple(x.shape for x in inputs), tuple((0,) * x.ndim for x in inputs)

    @ct.kernel
    def kernel(arrays, out):
        tiles = tuple(ct.load(arrays[i], zeros[i], shapes[i]) for i in ct.static_iter(range(len(shapes))))
        ct.store(out, ct.static_eval((0,) * out.ndim), function(*tiles))

    ct.launch(None, (1,), kernel, (inputs, out))
    return out


FLOATS = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]
floats = pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)


def assert_close(got: np.ndarray, want: np.ndarray, ulps: float, absolute: float) -> None:
    """Equal up to units in the last place of the dtype of ``got``; a float64 from float32 functions is one of float32."""
    eps = max(float(ml_dtypes.finfo(got.dtype).eps), 2.0**-23)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=ulps * eps, atol=absolute)


@floats
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(backend: str, axis: int, dtype: Any) -> None:
    x = (np.random.default_rng(1).standard_normal((8, 16)) * 10).astype(dtype)
    x[3, 5] = -np.inf
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis, keepdims=True))
    got = run(lambda t: lib.softmax(t, axis), x, out=np.zeros_like(x))
    assert_close(got, e / e.sum(axis, keepdims=True), 40, float(ml_dtypes.finfo(dtype).smallest_normal))
    x[3, 5] = 0
    logs = run(lambda t: lib.log_softmax(t, axis), x, out=np.zeros_like(x))
    wide = x.astype(np.float64)
    assert_close(logs, wide - np.log(np.exp(wide).sum(axis, keepdims=True)), 40, 1e-5)


def test_online_softmax(backend: str) -> None:
    """Parts of a row, some of which are -inf throughout, give what the whole row gives."""
    rng = np.random.default_rng(2)
    scores, values = (
        rng.standard_normal((4, 64)).astype(np.float32) * 5,
        rng.standard_normal((64, 8)).astype(np.float32),
    )
    scores[0, :16] = scores[1, 16:] = scores[2] = -np.inf
    out = np.zeros((4, 8), np.float32)

    @ct.kernel
    def kernel(scores, values, out):
        m, total = ct.full((4, 1), -np.inf, ct.float32), ct.zeros((4, 1), ct.float32)
        acc = ct.zeros((4, 8), ct.float32)
        for i in range(4):
            weights, rescale, m, total = lib.online_softmax(ct.load(scores, (0, i), (4, 16)), m, total)
            acc = acc * rescale + weights @ ct.load(values, (i, 0), (16, 8))
        ct.store(out, (0, 0), acc / total)

    ct.launch(None, (1,), kernel, (scores, values, out))
    kept = np.array([0, 1, 3])
    e = np.exp(scores[kept].astype(float) - scores[kept].max(1, keepdims=True))
    np.testing.assert_allclose(out[kept], e / e.sum(1, keepdims=True) @ values, rtol=1e-4, atol=1e-6)
    assert np.isnan(out[2]).all()  # 0 / 0: nothing has a weight


@floats
@pytest.mark.parametrize("count", [None, 11])
@pytest.mark.parametrize("axis", [0, -1])
def test_norms(backend: str, axis: int, count: int | None, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((16, 16)) + 3).astype(dtype)
    weight, bias = (rng.standard_normal((16, 16)).astype(dtype) for _ in range(2))
    inside = (slice(count), slice(None)) if axis == 0 else (slice(None), slice(count))
    padded = np.zeros_like(x)
    padded[inside] = x[inside]
    part, w, b = (a[inside].astype(np.float64) for a in (x, weight, bias))
    rms = part / np.sqrt((part * part).mean(axis, keepdims=True) + 1e-6) * w
    got = run(lambda t, w: lib.rms_norm(t, w, count=count, axis=axis), padded, weight, out=np.zeros_like(x))
    assert_close(got[inside], rms, 80, 1e-6)
    normal = (part - part.mean(axis, keepdims=True)) / np.sqrt(part.var(axis, keepdims=True) + 1e-5)
    got = run(
        lambda t, w, b: lib.layer_norm(t, w, b, count=count, axis=axis), padded, weight, bias, out=np.zeros_like(x)
    )
    assert_close(
        got[inside], normal * w + b, 800 if dtype in FLOATS[::3] else 4, 2e-5 if dtype in FLOATS[::3] else 0.02
    )


@ct.kernel
def sorts(x, values, places, SHAPE: ct.Constant, AXIS: ct.Constant[int], DESCENDING: ct.Constant[bool]):
    start = ct.static_eval((0,) * x.ndim)
    tile = ct.load(x, start, SHAPE)
    ct.store(values, start, lib.sort(tile, AXIS, descending=DESCENDING))
    ct.store(places, start, lib.argsort(tile, AXIS, descending=DESCENDING))


DTYPES = [np.int8, np.uint16, np.int64, np.float16, np.float32, ml_dtypes.bfloat16, np.float64, np.bool_]
SHAPES = [((1,), 0), ((16,), -1), ((4, 8), 0), ((2, 4, 2), 1)]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_sorting(backend: str, dtype: Any) -> None:
    """Values, and the indices of a stable sort; NaN is the greatest."""
    rng = np.random.default_rng(4)
    floating = dtype in FLOATS
    number = DTYPES.index(dtype)
    for (shape, axis), descending in zip(SHAPES[number % 2 :: 2], (number % 4 < 2, number % 4 >= 2)):
        x = rng.integers(0, 6, shape).astype(dtype)
        if floating:
            x[rng.random(shape) < 0.2] = np.nan
        keys = x.astype(float)
        keys[np.isnan(keys)] = 99
        order = np.argsort(-keys if descending else keys, axis, kind="stable")
        values, places = np.zeros_like(x), np.zeros(shape, np.int32)
        ct.launch(None, (1,), sorts, (x, values, places, shape, axis, descending))
        want = np.take_along_axis(x, order, axis)
        np.testing.assert_array_equal(values.astype(float), want.astype(float))
        np.testing.assert_array_equal(places, order)


def test_top_k(backend: str) -> None:
    x = np.random.default_rng(5).standard_normal((4, 16)).astype(np.float32)
    order = np.argsort(-x, 1)[:, :4]
    got = run(lambda t: lib.top_k(t, 4)[0], x, out=np.zeros((4, 4), np.float32))
    np.testing.assert_array_equal(got, np.take_along_axis(x, order, 1))
    got = run(lambda t: lib.top_k(t, 4)[1], x, out=np.zeros((4, 4), np.int32))
    np.testing.assert_array_equal(got, order)
