"""The backward pass of attention by warp groups: tiles that MMA ops read in both directions are fetched once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.gpu_attention import backward_of_keys, backward_of_queries
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, aligned
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import Barrier, GlobalLoad, SharedCopy
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tma import TmaLoad, TmaStore
from tilewright.ir.ops.gpu.wgmma import Wgmma, WgmmaWait
from tilewright.ir.ops.memory import AtomicRmw
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

LENGTH = 192


def interpreted() -> Any:
    return interpreter_backend(None, target="sm_90")


def as_ptx() -> Any:
    return ptx_backend(None, "sm_90")


def gradients(kernel: Any, length: int) -> tuple[list[Any], list[Any]]:
    """Arguments of ``kernel`` for heads of width 64 and so many queries and keys, and what it is to store."""
    rng = np.random.default_rng(length)
    q, k, v, g, *out = (aligned((length, 64), BF16) for _ in range(5 if kernel is backward_of_queries else 6))
    for a in (q, k, v, g):
        a[...] = rng.standard_normal(a.shape) / 4
    x, y, z, grads = (a.astype(np.float64) for a in (q, k, v, g))
    lse, delta = (aligned((length,), np.float32) for _ in range(2))
    scores = x @ y.T
    lse[...] = np.log2(np.exp2(scores).sum(1))
    weights = np.exp2(scores - lse[:, None])
    delta[...] = ((weights @ z) * grads).sum(1)
    change = weights * (grads @ z.T - delta[:, None])
    wanted = [change @ y] if kernel is backward_of_queries else [change.T @ x, weights.T @ grads]
    return [q, k, v, g, lse, delta, *out], wanted


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize("kernel", [backward_of_queries, backward_of_keys])
def test_each_tile_is_fetched_once(kernel: Any, make: Callable[[], Any]) -> None:
    arrays, wanted = gradients(kernel, LENGTH)
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see), make() as backend:
        ct.launch(None, (LENGTH // 64,), kernel, (*arrays, 64, 64, 64), backend=backend)
    for got, want in zip(arrays[6:], wanted):
        assert np.linalg.norm(got.astype(np.float64) - want) < 5e-3 * np.linalg.norm(want)
    copies = [op.buffer.op for op in found[-1].walk() if isinstance(op, TmaLoad)]
    buffers = {copy.buffer for copy in copies if isinstance(copy, SharedCopy)}
    assert sorted(buffer.type.copies for buffer in buffers) == [1, 1, 2, 2]  # those of a loop run an iteration ahead


def test_gradients_of_many_queries_are_those_of_half_as_many_in_two_ctas() -> None:
    arrays, (wanted,) = gradients(backward_of_queries, 256)
    with as_ptx() as backend:
        ct.launch(None, (2,), backward_of_queries, (*arrays, 128, 64, 64), backend=backend)
    assert np.linalg.norm(arrays[6].astype(np.float64) - wanted) < 5e-3 * np.linalg.norm(wanted)


@ct.kernel
def in_one_kernel(
    q: ct.Array, k: ct.Array, v: ct.Array, g: ct.Array, lse: ct.Array, delta: ct.Array, dk: ct.Array, dv: ct.Array,
    dq: ct.Array, M: ct.Constant[int], N: ct.Constant[int], D: ct.Constant[int], TILES: ct.Constant[bool],
) -> None:  # fmt: skip
    """Those of a row of blocks of keys and of values, which add to that of queries."""
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
        changed = (weights * (change - means)).astype(q.dtype)
        keys = ct.mma(changed, x, keys)
        part = ct.mma(ct.transpose(changed), y, ct.zeros((M, D), ct.float32))
        if TILES:
            dq.tiled_view((M, D)).atomic_store_add((i, 0), part)
        else:
            ct.atomic_add(dq, (i * M + ct.arange(M, dtype=ct.int32)[:, None], ct.arange(D, dtype=ct.int32)), part)
    ct.store(dk, (j, 0), keys.astype(dk.dtype))
    ct.store(dv, (j, 0), values.astype(dv.dtype))


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("keys", [64, 128])
def test_warp_groups_multiply_all_of_what_is_in_one_kernel(keys: int, tiles: bool, make: Callable[[], Any]) -> None:
    """They add what they have of the gradient of queries, two numbers at once, or the TMA unit adds tiles; two groups
    have half of its columns each, and of 64 keys several CTAs share an SM. Two groups wait for each other for what
    both read or add alone; lanes of a warp bring vectors to each other."""
    arrays, (of_keys, of_values) = gradients(backward_of_keys, 256)
    of_queries = aligned((256, 64), np.float32)
    found: list[Function] = []
    with observed_passes(lambda name, f: found.append(f) if name == InsertBarriers.name else None), make() as backend:
        ct.launch(None, (256 // keys,), in_one_kernel, (*arrays, of_queries, 64, keys, 64, tiles), backend=backend)
    _, (wanted,) = gradients(backward_of_queries, 256)
    for got, want in zip((*arrays[6:], of_queries), (of_keys, of_values, wanted)):
        assert np.linalg.norm(got.astype(np.float64) - want) < 5e-3 * np.linalg.norm(want)
    assert len(found[-1].ops_of(Wgmma)) == 5
    assert [op.vector for op in found[-1].ops_of(AtomicRmw)] == ([] if tiles else [2])
    assert any(op.adds for op in found[-1].ops_of(TmaStore)) == tiles
    assert found[-1].hints["occupancy"] > 1 if keys == 64 else found[-1].ops_of(WarpSpecialize)
    (loop,) = {op.parent for op in found[-1].ops_of(Wgmma)}
    barriers = sum(isinstance(op, Barrier) for op in loop.body.ops) if isinstance(loop, For) else 0
    assert keys == 64 or barriers == 2


@ct.kernel
def of_shared_keys(
    q: ct.Array, k: ct.Array, v: ct.Array, g: ct.Array, lse: ct.Array, delta: ct.Array, dk: ct.Array, dv: ct.Array
) -> None:
    """Gradients of 64 keys and values that two heads of queries share."""
    j = ct.bid(0)
    y, z = ct.load(k, (j, 0), (64, 64)), ct.load(v, (j, 0), (64, 64))
    keys, values = ct.zeros((64, 64), ct.float32), ct.zeros((64, 64), ct.float32)
    for head in range(q.shape[0]):
        for i in range(ct.cdiv(q.shape[1], 64)):
            x = ct.load(q, (head, i, 0), (1, 64, 64)).reshape((64, 64))
            grads = ct.load(g, (head, i, 0), (1, 64, 64)).reshape((64, 64))
            logs, means = ct.load(lse, (head, i), (1, 64)), ct.load(delta, (head, i), (1, 64))
            weights = ct.exp2(ct.mma(y, ct.transpose(x), ct.zeros((64, 64), ct.float32)) - logs)
            values = ct.mma(weights.astype(q.dtype), grads, values)
            change = ct.mma(z, ct.transpose(grads), ct.zeros((64, 64), ct.float32))
            keys = ct.mma((weights * (change - means)).astype(q.dtype), x, keys)
    ct.store(dk, (j, 0), keys.astype(dk.dtype))
    ct.store(dv, (j, 0), values.astype(dv.dtype))


@pytest.mark.parametrize("make", [interpreted, as_ptx])
def test_loops_in_loops_load_for_themselves(make: Callable[[], Any]) -> None:
    """So that three CTAs share an SM."""
    (q, k, v, g, lse, delta, dk, dv), (of_keys, of_values) = gradients(backward_of_keys, 128)
    doubled = [np.stack([a, a]) for a in (q, g, lse, delta)]
    heads = [aligned(a.shape, a.dtype) for a in doubled]
    for head, a in zip(heads, doubled):
        head[...] = a
    found: list[Function] = []
    with observed_passes(lambda name, f: found.append(f) if name == InsertBarriers.name else None), make() as backend:
        args = (heads[0], k, v, *heads[1:], dk, dv)
        ct.launch(None, (2,), of_shared_keys, args, backend=backend)
    for got, want in ((dk, 2 * of_keys), (dv, 2 * of_values)):
        assert np.linalg.norm(got.astype(np.float64) - want) < 5e-3 * np.linalg.norm(want)
    assert found[-1].hints["occupancy"] == 3
    assert not any(isinstance(op, WarpSpecialize) for op in found[-1].walk())
    assert [op.pending for op in found[-1].ops_of(WgmmaWait)] == [1, 1, 0]  # scores, and the change of weights


@ct.kernel
def shifted(x: ct.Array, y: ct.Array, logs: ct.Array, out: ct.Array, scale: float, FLUSH: ct.Constant[bool]) -> None:
    """Sums of weights of tiles of 64 columns."""
    total, rows = ct.zeros((64, 64), ct.float32), ct.load(x, (0, 0), (64, 64))
    for i in range(ct.cdiv(y.shape[0], 64)):
        scores = ct.mma(rows, ct.transpose(ct.load(y, (i, 0), (64, 64))), ct.zeros((64, 64), ct.float32))
        less = ct.load(logs, (i,), (64,)).reshape((1, 64))
        total = total + ct.exp2(scores * scale - less, flush_to_zero=FLUSH)
    ct.store(out, (0, 0), total)


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize("flush", [False, True])
def test_lanes_bring_each_other_what_is_subtracted(flush: bool, make: Callable[[], Any]) -> None:
    """Each warp loads all of it, two numbers a thread; they are negated for an FMA that takes them."""
    rng = np.random.default_rng(5)
    x, y, logs, out = (aligned(s, d) for s, d in (((64, 64), BF16), ((128, 64), BF16), (128, "f4"), ((64, 64), "f4")))
    for a in (x, y, logs):
        a[...] = rng.standard_normal(a.shape) / 4
    found: list[Function] = []
    with observed_passes(lambda name, f: found.append(f) if name == InsertBarriers.name else None), make() as backend:
        ct.launch(None, (1,), shifted, (x, y, logs, out, 0.5, flush), backend=backend)
    scores = x.astype(np.float64) @ y.astype(np.float64).T * 0.5 - logs
    assert np.allclose(out, np.exp2(scores).reshape(64, 2, 64).sum(1), rtol=1e-4)
    assert {op.vector for op in found[-1].ops_of(GlobalLoad)} == {2}
