"""Reductions, scans and products of matrices."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.tile_code import gives, refused, refuses

import tilewright as ct

X = np.arange(32, dtype=np.float32).reshape(4, 8) - 7.5
I = np.arange(32, dtype=np.int32).reshape(4, 8) - 9
B = I % 3 == 0
V = np.arange(8, dtype=np.int32)
BF16 = ml_dtypes.bfloat16
E4M3 = ml_dtypes.float8_e4m3fn
E5M2 = ml_dtypes.float8_e5m2
E8M0 = ml_dtypes.float8_e8m0fnu
E2M1 = ml_dtypes.float4_e2m1fn
TTE = ct.TileTypeError


# -- 1.14 reductions and scans


def test_reductions(backend: str) -> None:
    cube = (np.arange(2 * 4 * 8) % 7).astype(np.int16).reshape(2, 4, 8)
    gives(
        lambda c: (
            ct.sum(c),
            ct.sum(c, 1),
            ct.sum(c, axis=(0, -1)),
            ct.sum(c, axis=-1, keepdims=True),
            ct.sum(c, keepdims=True),
            ct.prod(c, axis=0),
            ct.max(c, (0, 1, 2)),
            ct.min(c, 2),
            ct.argmax(c, 2),
            ct.argmin(c),
            ct.argmax(c, axis=0, keepdims=True),
        ),
        (
            cube.sum(dtype=np.int16),
            cube.sum(1, dtype=np.int16),
            cube.sum((0, 2), dtype=np.int16),
            cube.sum(2, keepdims=True, dtype=np.int16),
            cube.sum(keepdims=True, dtype=np.int16),
            cube.prod(0, dtype=np.int16),
            cube.max(),
            cube.min(2),
            cube.argmax(2).astype(np.int32),
            np.int32(cube.argmin()),
            cube.argmax(0)[None].astype(np.int32),
        ),
        cube,
    )
    gives(
        lambda b: (ct.sum(b), ct.max(b, 0), ct.cumsum(b, 1)),
        (np.int32(B.sum()), B.max(0).astype(np.int32), B.cumsum(1, dtype=np.int32)),
        B,
    )
    wrapped = np.full(4, 100, np.int8)
    gives(lambda x: (ct.sum(x), ct.cumsum(x)), (wrapped.sum(dtype=np.int8), wrapped.cumsum(dtype=np.int8)), wrapped)


def test_nan_in_reductions(backend: str) -> None:
    x = np.array([1, np.nan, 5, np.nan], np.float32)
    gives(
        lambda x: (
            ct.max(x),
            ct.min(x, propagate_nan=True),
            ct.argmax(x),
            ct.argmin(x),
            ct.argmax(x, propagate_nan=True),
            ct.max(x, flush_to_zero=True),
        ),
        (np.float32(5), np.float32(np.nan), np.int32(2), np.int32(0), np.int32(1), np.float32(5)),
        x,
    )


def test_scans(backend: str) -> None:
    gives(
        lambda i: (
            ct.cumsum(i),
            ct.cumsum(i, 1),
            ct.cumsum(i, axis=-1, reverse=True),
            ct.cumprod(i % 3, 1),
            ct.scan(i, 1, max, -100),
            ct.scan(i, 0, lambda a, b: a + b, 0, reverse=True),
        ),
        (
            I.cumsum(0, dtype=np.int32),
            I.cumsum(1, dtype=np.int32),
            I[:, ::-1].cumsum(1, dtype=np.int32)[:, ::-1],
            (I % 3).cumprod(1, dtype=np.int32),
            np.maximum.accumulate(I, 1),
            I[::-1].cumsum(0, dtype=np.int32)[::-1],
        ),
        I,
    )


def add(a: Any, b: Any) -> Any:
    return a + b


def test_functions_of_reductions(backend: str) -> None:
    """Lambdas, closures, operators, tile operations and helper functions; captured tiles."""

    def reductions(i, x):
        k = ct.int32(3)

        def with_capture(a, b):
            return ct.maximum(a, b) + k * 0

        return (
            ct.reduce(i, 1, operator.add, 0),
            ct.reduce(i, axis=0, func=ct.minimum, identity=1000),
            ct.reduce(i, 1, add, identity=0, keepdims=True),
            ct.reduce(i, -1, with_capture, -1000),
            ct.reduce(i > 0, 1, lambda a, b: a | b, False),
            ct.reduce(x, 0, lambda a, b: a if a is None else a * b, 1.0),
            ct.reduce(i, 1, max, -1000),
            ct.reduce(i, 1, lambda a, b: a + b + ct.bid(0) * ct.num_blocks(0), 0),
        )

    gives(
        reductions,
        (
            I.sum(1, dtype=np.int32),
            I.min(0),
            I.sum(1, keepdims=True, dtype=np.int32),
            I.max(1),
            (I > 0).any(1),
            X.prod(0),
            I.max(1),
            I.sum(1, dtype=np.int32),
        ),
        I,
        X,
    )


def test_reductions_of_several_tiles(backend: str) -> None:
    def best(x, i):
        def larger(v, k, w, j):
            first = (v > w) | ((v == w) & (k < j))
            return ct.where(first, v, w), ct.where(first, k, j)

        return ct.reduce((x, i), 1, larger, (-math.inf, 1000))

    gives(best, (X.max(1), np.arange(7, 8, dtype=np.int32).repeat(4)), X, np.broadcast_to(V, (4, 8)).copy())

    def both(x, i):
        return ct.scan(
            (x, ct.extract(i, (0, 0), (1, 8))), 1, lambda a, k, b, j: (a + b, max(k, j)), (0.0, -1000), reverse=False
        )

    row = np.broadcast_to(np.maximum.accumulate(I[:1], 1), (4, 8))
    gives(both, (X.cumsum(1), row), X, I)


def test_custom_reductions_of_restricted_floats(backend: str) -> None:
    x = np.array([1, 4, 2, 3], E4M3)
    larger = lambda a, b: ct.where(a.astype(ct.float32) > b.astype(ct.float32), a, b)
    gives(lambda x: ct.reduce(x, 0, larger, 0.0), np.array(4, E4M3), x)


@refused(
    lambda x, i: ct.sum(x, 2),
    lambda x, i: ct.sum(x, (0, 0)),
    lambda x, i: ct.sum(x, (0, -2)),
    lambda x, i: ct.sum(x, 0.0),
    lambda x, i: ct.sum(x, ct.bid(0)),
    lambda x, i: ct.sum(x, 0, True),
    lambda x, i: ct.sum(x, keepdims=1),
    lambda x, i: ct.sum(i, rounding_mode="RN"),
    lambda x, i: ct.sum(x, rounding_mode="FULL"),
    lambda x, i: ct.sum(x, propagate_nan=True),
    lambda x, i: ct.max(x, rounding_mode="RN"),
    lambda x, i: ct.max(i, flush_to_zero=True),
    lambda x, i: ct.sum(x.astype(ct.float8_e5m2)),
    lambda x, i: ct.max(x.astype(ct.tfloat32)),
    lambda x, i: ct.argmax(x.astype(ct.float8_e4m3fn)),
    lambda x, i: ct.argmax(x, (0, 1)),
    lambda x, i: ct.argmax(x, 2),
    lambda x, i: ct.cumsum(x, None),
    lambda x, i: ct.cumsum(x, (0, 1)),
    lambda x, i: ct.cumsum(x, 0, True),
    lambda x, i: ct.cumsum(x, keepdims=True),
    lambda x, i: ct.reduce(x, None, add, 0.0),
    lambda x, i: ct.reduce(x, (0, 1), add, 0.0),
    lambda x, i: ct.reduce(x, 0, add),
    lambda x, i: ct.reduce(x, 0, 3, 0.0),
    lambda x, i: ct.reduce(x, 0, lambda a: a, 0.0),
    lambda x, i: ct.reduce(x, 0, add, ct.bid(0)),
    lambda x, i: ct.reduce(i, 0, lambda a, b: (a + b) * 0.5, 0),
    lambda x, i: ct.reduce((x, i), 0, lambda a, b, c, d: a + c, (0.0, 0)),
    lambda x, i: ct.reduce((x, i), 0, lambda a, b, c, d: (a + c, b), 0.0),
    lambda x, i: ct.reduce(x, 0, lambda a, b: i, 0.0),
)
def test_mistakes_with_reductions(error: type[ct.TileError], bad: Callable[..., Any]) -> None:
    refuses(bad, error, X, I)


def test_what_the_function_of_a_reduction_cannot_do() -> None:
    def branch(x, a):
        return ct.reduce(x, 0, lambda p, q: p if p > q else q, 0.0)

    def loop(x, a):
        def add_in_loop(p, q):
            for _ in range(ct.bid(0)):
                p = p + q
            return p

        return ct.reduce(x, 0, add_in_loop, 0.0)

    def memory(x, a):
        return ct.reduce(x, 0, lambda p, q: p + ct.gather(a, (0, 0)), 0.0)

    def nested(x, a):
        return ct.reduce(x, 0, lambda p, q: ct.sum(ct.full((2,), p, ct.float32)) + q, 0.0)

    for bad in (branch, loop, memory, nested):
        refuses(lambda a, bad=bad: bad(ct.load(a, (0, 0), (4, 8)), a), ct.TileSyntaxError, X, load=False)


# -- 1.15 matrices

MMA = [
    (np.float16, np.float16, np.float16),
    (np.float16, np.float16, np.float32),
    (BF16, BF16, np.float32),
    (np.float32, np.float32, np.float32),
    (np.float64, np.float64, np.float64),
    (E4M3, E4M3, np.float16),
    (E4M3, E4M3, np.float32),
    (E5M2, E5M2, np.float16),
    (E5M2, E5M2, np.float32),
    (np.int8, np.int8, np.int32),
    (np.uint8, np.uint8, np.int32),
    (np.int8, np.uint8, np.int32),
    (np.uint8, np.int8, np.int32),
]


@pytest.mark.parametrize(("left", "right", "result"), MMA)
def test_mma(backend: str, left: Any, right: Any, result: Any) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 4, (4, 8)), rng.integers(0, 4, (8, 2))
    acc = rng.integers(0, 4, (4, 2))
    gives(ct.mma, (x @ y + acc).astype(result), x.astype(left), y.astype(right), acc.astype(result))


def test_mma_forms(backend: str) -> None:
    rng = np.random.default_rng(6)
    x, y = rng.integers(0, 4, (2, 1, 4, 8)).astype(np.float32), rng.integers(0, 4, (4, 8, 2)).astype(np.float32)
    acc = np.ones((2, 4, 4, 2), np.float32)
    gives(lambda x, y, a: ct.mma(x, y, acc=a), x @ y + acc, x, y, acc)
    small = x.astype(E4M3)
    gives(lambda x, y, a: ct.mma(x, y, a, use_fast_acc=True), x @ y + acc, small, y.astype(E4M3), acc)
    tf32 = lambda x, y, a: ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), a)
    gives(tf32, x @ y + acc, x, y, acc)


def test_matmul(backend: str) -> None:
    rng = np.random.default_rng(7)
    x, y, v = (rng.integers(0, 4, s).astype(np.float32) for s in ((4, 8), (8, 2), (8,)))
    gives(
        lambda x, y, v: (x @ y, ct.matmul(x, y), x @ v, v @ y, v @ v, x @ y.astype(ct.float16), x[None] @ y),
        (x @ y, x @ y, x @ v, v @ y, v @ v, x @ y, (x @ y)[None]),
        x,
        y,
        v,
    )
    i = rng.integers(-9, 9, (4, 4)).astype(np.int8)
    gives(
        lambda i: (i @ i, i.astype(ct.float16) @ i.astype(ct.float16)),
        (i @ i, (i.astype(np.float16) @ i.astype(np.float16))),
        i,
    )


SCALED = [(E4M3, E8M0, 32), (E5M2, E8M0, 32), (E2M1, E8M0, 16), (E2M1, E8M0, 32), (E2M1, E4M3, 16)]


@pytest.mark.parametrize(("dtype", "scale", "block"), SCALED)
def test_mma_scaled(backend: str, dtype: Any, scale: Any, block: int) -> None:
    rng = np.random.default_rng(8)
    k = 64
    x, y = (rng.choice([-2, -1, -0.5, 0, 0.5, 1, 3], s).astype(dtype) for s in ((2, 4, k), (1, k, 8)))
    xs, ys = (np.exp2(rng.integers(-2, 3, s)).astype(scale) for s in ((2, 4, k // block), (1, k // block, 8)))
    acc = rng.integers(0, 4, (2, 4, 8)).astype(np.float32)
    f = np.float32
    left = x.astype(f) * xs.astype(f).repeat(block, 2)
    right = y.astype(f) * ys.astype(f).repeat(block, 1)
    gives(lambda x, xs, y, ys, acc: ct.mma_scaled(x, xs, y, ys, acc=acc), left @ right + acc, x, xs, y, ys, acc)


def test_mma_scaled_with_e5m3_scales(backend: str) -> None:
    """The scale 2**k of float8_e5m3fnu has the bits (k + 15) << 3."""
    rng = np.random.default_rng(9)
    for block in (16, 32):
        x, y = (rng.choice([-1, 0, 0.5, 2], s).astype(E2M1) for s in ((4, 64), (64, 8)))
        xk, yk = rng.integers(-2, 3, (4, 64 // block)), rng.integers(-2, 3, (64 // block, 8))

        def product(x, xs, y, ys, acc):
            scales = ct.bitcast(xs, ct.float8_e5m3fnu), ct.bitcast(ys, ct.float8_e5m3fnu)
            return ct.mma_scaled(x, scales[0], y, scales[1], acc)

        left = x.astype(np.float32) * np.exp2(xk).astype(np.float32).repeat(block, 1)
        right = y.astype(np.float32) * np.exp2(yk).astype(np.float32).repeat(block, 0)
        bits = [((k + 15) << 3).astype(np.uint8) for k in (xk, yk)]
        gives(product, left @ right, x, bits[0], y, bits[1], np.zeros((4, 8), np.float32))


@refused(
    lambda x, i: ct.mma(x, x, x),
    lambda x, i: ct.mma(x, ct.transpose(x), ct.zeros((4, 4), ct.float16)),
    lambda x, i: ct.mma(x, ct.transpose(x), ct.zeros((1, 4), ct.float32)),
    lambda x, i: ct.mma(x, ct.transpose(x)),
    lambda x, i: ct.mma(x, ct.transpose(x), 0.0),
    lambda x, i: ct.mma(x, ct.transpose(x), ct.zeros((4, 4), ct.float32), True),
    lambda x, i: ct.mma(x, ct.transpose(x), ct.zeros((4, 4), ct.float32), use_fast_acc=True),
    lambda x, i: ct.mma(i, ct.transpose(i), ct.zeros((4, 4), ct.int32)),
    lambda x, i: ct.mma(x.astype(ct.float16), ct.transpose(x.astype(ct.bfloat16)), ct.zeros((4, 4), ct.float32)),
    lambda x, i: ct.mma(x.reshape((32,)), x.reshape((32,)), ct.zeros((1,), ct.float32)),
    lambda x, i: x @ x,
    lambda x, i: x @ 2,
    lambda x, i: ct.matmul(ct.float32(1), ct.float32(2)),
    lambda x, i: (x > 0) @ ct.transpose(x > 0),
    lambda x, i: i @ ct.transpose(i),
    lambda x, i: ct.mma_scaled(x, x, ct.transpose(x), x, ct.zeros((4, 4), ct.float32)),
)
def test_mistakes_with_matrices(error: type[ct.TileError], bad: Callable[..., Any]) -> None:
    refuses(bad, error, X, I)


def test_mma_scaled_block_sizes_are_checked() -> None:
    def product(X, S, B, ACC=ct.float32):
        x, y = ct.zeros((4, 64), X), ct.zeros((64, 4), X)
        xs, ys = ct.ones((4, 64 // B), S), ct.ones((64 // B, 4), S)
        return ct.mma_scaled(x, xs, y, ys, ct.zeros((4, 4), ACC))

    fp8, fp4, e8, e4, e5 = ct.float8_e4m3fn, ct.float4_e2m1fn, ct.float8_e8m0fnu, ct.float8_e4m3fn, ct.float8_e5m3fnu
    for arguments in ((fp8, e8, 16), (fp8, e8, 64), (fp8, e4, 32), (fp4, e4, 32), (fp4, e8, 8), (fp4, e5, 64)):
        refuses(lambda arguments=arguments: product(*arguments), TTE)
    refuses(lambda: product(fp8, e8, 32, ct.float16), TTE)
