"""Attention in the form that warp groups run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.gpu_products import aligned

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

Int = ct.Constant[int]


def attention(
    q: ct.Array, k: ct.Array, v: ct.Array, o: ct.Array,
    M: ct.Constant[int], N: ct.Constant[int], D: ct.Constant[int], CAUSAL: ct.Constant[bool],
) -> None:  # fmt: skip
    """A row of blocks of queries; the weights of a step are the left operand of its second product."""
    i = ct.bid(0)
    x = ct.load(q, (i, 0), (M, D), padding_mode=ct.PaddingMode.ZERO)
    total = ct.zeros((M, D), ct.float32)
    most, size = ct.full((M, 1), -1e30, ct.float32), ct.zeros((M, 1), ct.float32)
    full = i * M // N if CAUSAL else ct.cdiv(k.shape[0], N)
    for j in range(full):
        y = ct.transpose(ct.load(k, (j, 0), (N, D), padding_mode=ct.PaddingMode.ZERO))
        scores = ct.mma(x, y, ct.zeros((M, N), ct.float32))
        if not CAUSAL:
            inside = j * N + ct.arange(N, dtype=ct.int32)[None, :] < k.shape[0]
            scores = ct.where(inside, scores, -1e30)
        now = ct.maximum(most, ct.max(scores, axis=1, keepdims=True))
        weights, old = ct.exp(scores - now), ct.exp(most - now)
        size = size * old + ct.sum(weights, axis=1, keepdims=True)
        z = ct.load(v, (j, 0), (N, D), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(weights.astype(q.dtype), z, total * old)
        most = now
    if CAUSAL:
        for j in range(full, ct.cdiv((i + 1) * M, N)):
            y = ct.transpose(ct.load(k, (j, 0), (N, D), padding_mode=ct.PaddingMode.ZERO))
            scores = ct.mma(x, y, ct.zeros((M, N), ct.float32))
            rows, columns = ct.arange(M, dtype=ct.int32)[:, None], ct.arange(N, dtype=ct.int32)[None, :]
            scores = ct.where(i * M + rows >= j * N + columns, scores, -1e30)
            now = ct.maximum(most, ct.max(scores, axis=1, keepdims=True))
            weights, old = ct.exp(scores - now), ct.exp(most - now)
            size = size * old + ct.sum(weights, axis=1, keepdims=True)
            z = ct.load(v, (j, 0), (N, D), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(weights.astype(q.dtype), z, total * old)
            most = now
    ct.store(o, (i, 0), (total / size).astype(o.dtype))


def run(
    make: Callable[[], Any], keys: int, M: int, N: int, D: int = 64, causal: bool = False, dtype: Any = np.float16,
    **hints: int,
) -> Function:  # fmt: skip
    """Compare with NumPy, on the backend that ``make`` gives; the function of the gpu stage."""
    rng = np.random.default_rng(keys)
    queries = keys if causal else 256
    q, o = (aligned((queries, D), dtype) for _ in range(2))
    k, v = (aligned((keys, D), dtype) for _ in range(2))
    for x in (q, k, v):
        x[...] = rng.standard_normal(x.shape) / 4
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    if causal:
        scores = np.where(np.tri(queries, keys, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    wanted = weights @ v.astype(np.float64) / weights.sum(1, keepdims=True)
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see), make() as backend:
        kernel = ct.kernel(attention, **hints)
        ct.launch(None, (queries // M,), kernel, (q, k, v, o, M, N, D, causal), backend=backend)
    assert np.abs(o.astype(np.float64) - wanted).max() < (2e-3 if dtype is np.float16 else 1e-2)
    return found[-1]


def decoded(
    q: ct.Array, k: ct.Array, v: ct.Array, o: ct.Array,
    KEYS: ct.Constant[int], HEADS: ct.Constant[int], D: ct.Constant[int], ADDS: ct.Constant[bool],
) -> None:  # fmt: skip
    """Attention of few queries, transposed: keys are the rows of scores. With ADDS, sums are not scaled between."""
    x = ct.transpose(ct.load(q, (0, 0), (HEADS, D)))
    total = ct.zeros((D, HEADS), ct.float32)
    for j in range(ct.cdiv(k.shape[0], KEYS)):
        y = ct.load(k, (j, 0), (KEYS, D), padding_mode=ct.PaddingMode.ZERO)
        weights = ct.mma(y, x, ct.zeros((KEYS, HEADS), ct.float32)) * 0.5
        z = ct.transpose(ct.load(v, (j, 0), (KEYS, D), padding_mode=ct.PaddingMode.ZERO))
        total = ct.mma(z, weights.astype(q.dtype), total if ADDS else total * 0.5)
    ct.store(o, (0, 0), ct.transpose(total))


def attended(queries: int, keys: int, width: int, dtype: Any = np.float16, **hints: int) -> Function:
    """``attention`` for blocks of ``queries``, of ``keys`` in a step."""
    arrays = [aligned((512, width), dtype) for _ in range(4)]
    made = ct.kernel(attention, **hints)
    return specialization(made, (*arrays, queries, keys, width, False), "reference").function


@ct.kernel
def to_first_keys(q, k, v, out, scale, keys, D: Int, TQ: Int, TK: Int):  # type: ignore[no-untyped-def]
    """Attention to the first ``keys`` keys, whose last tile has a mask."""
    block = ct.bid(0)
    queries = ct.load(q, (block, 0), (TQ, D))
    top = ct.full((TQ, 1), -1e30, ct.float32)
    total = ct.zeros((TQ, 1), ct.float32)
    result = ct.zeros((TQ, D), ct.float32)
    columns = ct.arange(TK, dtype=ct.int32)[None, :]
    for j in range(ct.cdiv(keys, TK)):
        kt = ct.load(k, (0, j), (D, TK), order="F", padding_mode=ct.PaddingMode.ZERO)
        scores = ct.mma(queries, kt, ct.zeros((TQ, TK), ct.float32))
        scores = ct.where(j * TK + columns < keys, scores, -1e30)
        new_top = max(top, ct.max(scores, axis=1, keepdims=True) * scale)
        weights = ct.exp2(scores * scale - new_top, flush_to_zero=True)
        correction = ct.exp2(top - new_top, flush_to_zero=True)
        total = total * correction + ct.sum(weights, axis=1, keepdims=True)
        values = ct.load(v, (j, 0), (TK, D), padding_mode=ct.PaddingMode.ZERO)
        result = ct.mma(weights.astype(q.dtype), values, result * correction)
        top = new_top
    ct.store(out, (block, 0), ct.where(total > 0, result / total, 0.0).astype(out.dtype))


@ct.kernel
def backward_of_queries(
    q: ct.Array, k: ct.Array, v: ct.Array, g: ct.Array, lse: ct.Array, delta: ct.Array, dq: ct.Array, M: Int, N: Int,
    D: Int,
) -> None:  # fmt: skip
    """The gradient of a row of blocks of queries, by ``N`` keys in a step."""
    i = ct.bid(0)
    x, grads = ct.load(q, (i, 0), (M, D)), ct.load(g, (i, 0), (M, D))
    logs = ct.load(lse, (i,), (M,)).reshape((M, 1))
    means = ct.load(delta, (i,), (M,)).reshape((M, 1))
    total = ct.zeros((M, D), ct.float32)
    for j in range(ct.cdiv(k.shape[0], N)):
        y, z = ct.load(k, (j, 0), (N, D)), ct.load(v, (j, 0), (N, D))
        weights = ct.exp2(ct.mma(x, ct.transpose(y), ct.zeros((M, N), ct.float32)) - logs)
        change = ct.mma(grads, ct.transpose(z), ct.zeros((M, N), ct.float32))
        total = ct.mma((weights * (change - means)).astype(q.dtype), y, total)
    ct.store(dq, (i, 0), total.astype(dq.dtype))


@ct.kernel
def backward_of_keys(
    q: ct.Array, k: ct.Array, v: ct.Array, g: ct.Array, lse: ct.Array, delta: ct.Array, dk: ct.Array, dv: ct.Array,
    M: Int, N: Int, D: Int,
) -> None:  # fmt: skip
    """Those of a row of blocks of keys and of values, by ``M`` queries in a step."""
    j = ct.bid(0)
    y, z = ct.load(k, (j, 0), (N, D)), ct.load(v, (j, 0), (N, D))
    keys, values = ct.zeros((N, D), ct.float32), ct.zeros((N, D), ct.float32)
    for i in range(ct.cdiv(q.shape[0], M)):
        x, grads = ct.load(q, (i, 0), (M, D)), ct.load(g, (i, 0), (M, D))
        logs = ct.load(lse, (i,), (M,)).reshape((1, M))
        means = ct.load(delta, (i,), (M,)).reshape((1, M))
        weights = ct.exp2(ct.mma(y, ct.transpose(x), ct.zeros((N, M), ct.float32)) - logs)
        values = ct.mma(weights.astype(q.dtype), grads, values)
        change = ct.mma(z, ct.transpose(grads), ct.zeros((N, M), ct.float32))
        keys = ct.mma((weights * (change - means)).astype(q.dtype), x, keys)
    ct.store(dk, (j, 0), keys.astype(dk.dtype))
    ct.store(dv, (j, 0), values.astype(dv.dtype))
