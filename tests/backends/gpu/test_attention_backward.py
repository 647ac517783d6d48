"""The backward pass of attention by warp groups: tiles that MMA ops read in both directions are fetched once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, aligned
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.tma import TmaLoad
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

LENGTH = 192
Int = ct.Constant[int]


@ct.kernel
def of_queries(
    q: ct.Array, k: ct.Array, v: ct.Array, g: ct.Array, lse: ct.Array, delta: ct.Array, dq: ct.Array, M: Int, N: Int
) -> None:
    """The gradient of a row of blocks of queries."""
    i = ct.bid(0)
    x, grads = ct.load(q, (i, 0), (M, 64)), ct.load(g, (i, 0), (M, 64))
    logs = ct.load(lse, (i,), (M,)).reshape((M, 1))
    means = ct.load(delta, (i,), (M,)).reshape((M, 1))
    total = ct.zeros((M, 64), ct.float32)
    for j in range(ct.cdiv(k.shape[0], N)):
        y, z = ct.load(k, (j, 0), (N, 64)), ct.load(v, (j, 0), (N, 64))
        weights = ct.exp2(ct.mma(x, ct.transpose(y), ct.zeros((M, N), ct.float32)) - logs)
        change = ct.mma(grads, ct.transpose(z), ct.zeros((M, N), ct.float32))
        total = ct.mma((weights * (change - means)).astype(q.dtype), y, total)
    ct.store(dq, (i, 0), total.astype(dq.dtype))


@ct.kernel
def of_keys(
    q: ct.Array, k: ct.Array, v: ct.Array, g: ct.Array, lse: ct.Array, delta: ct.Array, dk: ct.Array, dv: ct.Array,
    M: Int, N: Int,
) -> None:  # fmt: skip
    """Those of keys and of values."""
    j = ct.bid(0)
    y, z = ct.load(k, (j, 0), (N, 64)), ct.load(v, (j, 0), (N, 64))
    keys, values = ct.zeros((N, 64), ct.float32), ct.zeros((N, 64), ct.float32)
    for i in range(ct.cdiv(q.shape[0], M)):
        x, grads = ct.load(q, (i, 0), (M, 64)), ct.load(g, (i, 0), (M, 64))
        logs = ct.load(lse, (i,), (M,)).reshape((1, M))
        means = ct.load(delta, (i,), (M,)).reshape((1, M))
        weights = ct.exp2(ct.mma(y, ct.transpose(x), ct.zeros((N, M), ct.float32)) - logs)
        values = ct.mma(weights.astype(q.dtype), grads, values)
        change = ct.mma(z, ct.transpose(grads), ct.zeros((N, M), ct.float32))
        keys = ct.mma((weights * (change - means)).astype(q.dtype), x, keys)
    ct.store(dk, (j, 0), keys.astype(dk.dtype))
    ct.store(dv, (j, 0), values.astype(dv.dtype))


def interpreted() -> Any:
    return interpreter_backend(None, target="sm_90")


def as_ptx() -> Any:
    return ptx_backend(None, "sm_90")


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize("kernel", [of_queries, of_keys])
def test_each_tile_is_fetched_once(kernel: Any, make: Callable[[], Any]) -> None:
    rng = np.random.default_rng(LENGTH)
    arrays = [aligned((LENGTH, 64), BF16) for _ in range(6)]
    for a in arrays[:4]:
        a[...] = rng.standard_normal(a.shape) / 4
    q, k, v, g = (a.astype(np.float64) for a in arrays[:4])
    lse, delta = (aligned((LENGTH,), np.float32) for _ in range(2))
    scores = q @ k.T
    lse[...] = np.log2(np.exp2(scores).sum(1))
    weights = np.exp2(scores - lse[:, None])
    delta[...] = ((weights @ v) * g).sum(1)
    change = weights * (g @ v.T - delta[:, None])
    wanted = [change @ k] if kernel is of_queries else [change.T @ q, weights.T @ g]
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    out = arrays[4 : 4 + len(wanted)]
    with observed_passes(see), make() as backend:
        ct.launch(None, (LENGTH // 64,), kernel, (*arrays[:4], lse, delta, *out, 64, 64), backend=backend)
    for got, want in zip(out, wanted):
        assert np.linalg.norm(got.astype(np.float64) - want) < 5e-3 * np.linalg.norm(want)
    assert sum(isinstance(op, TmaLoad) for op in found[-1].walk()) == 4
