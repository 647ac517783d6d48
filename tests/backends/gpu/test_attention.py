"""Attention by warp groups: the results in both interpreters, and which products run beside what."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.gpu_attention import attention, run
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, aligned
from support.gpu_stage import Fault
from support.passes import after, without
from support.ptx.backend import PtxBackend, ptx_backend

import tilewright as ct
from tilewright.backends import registry
from tilewright.ir.core import Function, Op
from tilewright.ir.ops.control import For, If, Yield
from tilewright.ir.ops.gpu.barriers import MbarrierArrive, MbarrierInit, MbarrierWait, PassTurn, TakeTurn
from tilewright.ir.ops.gpu.memory import Barrier, SharedAlloc
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tiles import ThreadReduce
from tilewright.ir.ops.gpu.tma import TmaLoad
from tilewright.ir.ops.gpu.wgmma import Wgmma, WgmmaWait
from tilewright.ir.types import TileType
from tilewright.transforms.gpu import split_mma
from tilewright.transforms.gpu.allocate_shared import shared_bytes
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.gpu.merge_loops import MergeLoops
from tilewright.transforms.instrumentation import observed_passes


def interpreted() -> Any:
    return interpreter_backend(None, target="sm_90")


def as_ptx() -> Any:
    return ptx_backend(None, "sm_90")


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize(
    ("keys", "M", "N", "D", "causal"),
    [
        (64, 64, 64, 64, False),  # a single step
        (128, 128, 64, 64, False),
        (200, 64, 64, 64, False),
        (256, 128, 64, 64, True),  # two loops
        (256, 128, 32, 64, True),  # one warp group computes 128 rows
        (128, 64, 64, 128, True),
        (256, 256, 128, 64, True),  # in four CTAs
        (256, 64, 128, 128, False),  # the second product of a step beside the first one of the next
        (256, 64, 128, 128, True),
    ],
)
def test_attention(make: Callable[[], Any], keys: int, M: int, N: int, D: int, causal: bool) -> None:
    run(make, keys, M, N, D, causal, BF16 if D == 128 else np.float16)


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize(
    ("keys", "M", "N", "D", "causal"),
    [(128, 16, 64, 64, False), (200, 32, 64, 128, False), (128, 16, 128, 64, True), (64, 32, 64, 64, True)],
)
def test_few_queries_are_the_columns(make: Callable[[], Any], keys: int, M: int, N: int, D: int, causal: bool) -> None:
    """Warp groups multiply keys by queries, and values by the weights of queries, which go through shared memory."""
    function = run(make, keys, M, N, D, causal, BF16 if D == 128 else np.float16)
    mmas = [op for op in function.walk() if isinstance(op, Wgmma)]
    assert {op.acc.tile.shape for op in mmas} == {(N, M), (D, M)}
    assert not any(isinstance(op, (GpuMma, WarpSpecialize)) for op in function.walk())


def test_large_steps_fetch_the_next_tiles_during_the_softmax() -> None:
    """Both MMA ops are waited for at once; values, whose MMA op ends last, have two places."""
    function = run(interpreted, 384, 64, 128, 128, dtype=BF16)
    loop = next(op for op in function.walk() if isinstance(op, For))
    kinds = [type(op) for op in loop.body.ops if isinstance(op, (Wgmma, WgmmaWait, TmaLoad)) or op.name == "exp"]
    assert [kind for kind in kinds if kind in (Wgmma, WgmmaWait, TmaLoad)] == [
        *(Wgmma, Wgmma, WgmmaWait, TmaLoad, WgmmaWait, TmaLoad)
    ]
    assert len(kinds) - kinds[::-1].index(TmaLoad) <= 6, "before what is exponentiated"
    rings = {op.type.copies for op in function.walk() if isinstance(op, SharedAlloc) and len(op.type.shape) == 2}
    assert rings == {1, 2}


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize(("M", "N"), [(64, 64), (64, 32), (128, 64)])
def test_a_loop_that_goes_on_finds_what_the_one_before_has_fetched(
    make: Callable[[], Any], M: int, N: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a causal mask, where loops are not merged: nothing is fetched between them."""
    monkeypatch.setattr(MergeLoops, "change", lambda self, function: False)
    ops = run(make, 256, M, N, causal=True).body.ops
    first, second = (i for i, op in enumerate(ops) if isinstance(op, For))
    fetching = [
        sum(isinstance(o, TmaLoad) for op in part for o in op.walk()) for part in (ops, ops[first + 1 : second])
    ]
    assert fetching == [7, 0], "queries; keys and values before the loops and in each of them"


def loop_of(function: Function) -> For:
    """The loop of the consumers."""
    (roles,) = (op for op in function.walk() if isinstance(op, WarpSpecialize))
    return next(op for op in roles.consumer.walk() if isinstance(op, For))


def test_products_run_beside_the_softmax() -> None:
    """The first product, then the second one of the step before, whose sum is waited for at the end."""
    loop = loop_of(run(interpreted, 200, 64, 64, occupancy=1))
    kinds = (MbarrierWait, Wgmma, WgmmaWait, MbarrierArrive)
    work = [op for op in loop.body.ops if isinstance(op, kinds)]
    scores, sums = (op for op in work if isinstance(op, Wgmma))
    first, last = (op for op in work if isinstance(op, WgmmaWait))
    wanted = [MbarrierWait, Wgmma, MbarrierWait, Wgmma, WgmmaWait, MbarrierArrive, WgmmaWait, MbarrierArrive]
    assert [type(op) for op in work] == wanted
    assert (first.accs, first.held, first.pending) == ([scores.result], [], 1)
    assert (last.accs, last.held, last.pending) == ([sums.result], [sums.x], 0)
    assert isinstance(sums.x.type, TileType) and sums.x in loop.body.args
    assert [type(v.op) for v in last.after] == [ThreadReduce], "the sums of the weights, which need all of them"
    between = loop.body.ops[loop.body.ops.index(first) : loop.body.ops.index(last)]
    after = loop.body.ops[loop.body.ops.index(last) :]
    assert sum(op.name == "exp" for op in between) == 2 and not any(op.name == "exp" for op in after)
    assert {"mul", "cast"} <= {op.name for op in after}, "what waits or takes registers"
    shuffles = sum(op.name == "gpu.shuffle" for op in loop.body.ops)
    assert shuffles == 2, "of the largest score; the sum is that of a thread until the loop has ended"


@ct.kernel(occupancy=1)
def with_positions(
    q: ct.Array,
    e: ct.Array,
    k: ct.Array,
    f: ct.Array,
    v: ct.Array,
    o: ct.Array,
    M: ct.Constant[int],
    N: ct.Constant[int],
) -> None:
    """Attention whose scores are the sums of two products."""
    x, y = ct.load(q, (ct.bid(0), 0), (M, 64)), ct.load(e, (ct.bid(0), 0), (M, 64))
    total, size = ct.zeros((M, 64), ct.float32), ct.zeros((M, 1), ct.float32)
    for j in range(ct.cdiv(k.shape[0], N)):
        scores = ct.mma(x, ct.transpose(ct.load(k, (j, 0), (N, 64))), ct.zeros((M, N), ct.float32))
        scores = ct.mma(y, ct.transpose(ct.load(f, (j, 0), (N, 64))), scores)
        weights = ct.exp(scores)
        size = size * 0.5 + ct.sum(weights, axis=1, keepdims=True)
        total = ct.mma(weights.astype(q.dtype), ct.load(v, (j, 0), (N, 64)), total * 0.5)
    ct.store(o, (ct.bid(0), 0), total / size)


@pytest.mark.parametrize("make", [interpreted, as_ptx])
def test_scores_that_two_products_add_up(make: Callable[[], Any]) -> None:
    """Both are begun, and then the last product of the iteration before: the softmax is beside that."""
    rng = np.random.default_rng(3)
    arrays = [aligned((192, 64), np.float16) for _ in range(5)]
    for x in arrays:
        x[...] = rng.standard_normal(x.shape) / 8
    q, e, k, f, v = (x.astype(np.float64) for x in arrays)
    out, wanted, size = aligned((192, 64), np.float32), np.zeros((192, 64)), np.zeros((192, 1))
    for at in range(0, 192, 64):
        weights = np.exp(q @ k[at : at + 64].T + e @ f[at : at + 64].T)
        wanted, size = wanted * 0.5 + weights @ v[at : at + 64], size * 0.5 + weights.sum(1, keepdims=True)
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see), make() as backend:
        ct.launch(None, (3,), with_positions, (*arrays, out, 64, 64), backend=backend)
    assert np.abs(out - wanted / size).max() < 1e-3
    kinds = [type(op) for op in loop_of(found[-1]).body.ops if isinstance(op, (Wgmma, WgmmaWait))]
    assert kinds == [Wgmma, Wgmma, Wgmma, WgmmaWait, WgmmaWait]


def test_warp_groups_take_turns_where_the_softmax_takes_as_long() -> None:
    """Both issue their products one after the other, and compute meanwhile: with two of them, and narrow heads."""
    for rows, keys, width, takes in ((256, 64, 64, True), (128, 64, 64, False), (128, 64, 128, False)):
        loop = loop_of(run(interpreted, 128, rows, keys, width, occupancy=1))
        kinds = [type(op) for op in loop.body.ops if isinstance(op, (TakeTurn, Wgmma, PassTurn, WgmmaWait))]
        turn = [TakeTurn, Wgmma, Wgmma, PassTurn] if takes else [Wgmma, Wgmma]
        assert kinds == [*turn, WgmmaWait, WgmmaWait]


def test_a_turn_that_nobody_passes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    after(InsertBarriers, lambda function: without(lambda op: isinstance(op, PassTurn), function), monkeypatch)
    monkeypatch.setattr(split_mma, "_pay_apart", lambda function: False)
    with pytest.raises(Fault) as found:
        run(interpreted, 128, 256, 64)
    assert found.value.category == "deadlock"
    with pytest.raises(Exception, match="threads wait"):
        run(as_ptx, 128, 256, 64)


def test_the_softmax_stays_before_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """In PTX, too: what may wait itself uses the sums of the weights, and no number is the one that it waits for."""
    q, o = (aligned((128, 64), np.float16) for _ in range(2))
    backend = PtxBackend(None, "sm_90")
    monkeypatch.setitem(registry._loaders, backend.name, lambda: backend)
    kernel = ct.kernel(attention, occupancy=1)
    ct.launch(None, (1,), kernel, (q, q, q, o, 128, 64, 64, False), backend=backend.name)
    order = re.findall(r"wgmma.wait_group.sync.aligned \d|ex2|nanosleep", backend.made[0].compiled.ptx)
    loop = [name for name, _ in itertools.groupby(order)]
    wait = "wgmma.wait_group.sync.aligned "
    assert any(loop[i : i + 4] == [wait + "1", "ex2", "nanosleep", wait + "0"] for i in range(len(loop))), loop


def in_turn(q: Any, k: Any, v: Any, o: Any, M: ct.Constant[int], D: ct.Constant[int]) -> None:
    """Attention of heads whose keys have one length, in steps of the number of blocks."""
    for h in range(ct.bid(0), q.shape[0], ct.num_blocks(0)):
        x = ct.load(q, (h, 0, 0), (1, M, D)).reshape((M, D))
        total, size = ct.zeros((M, D), ct.float32), ct.zeros((M, 1), ct.float32)
        most = ct.full((M, 1), -1e30, ct.float32)
        for j in range(k.shape[1] // 64):
            y = ct.transpose(ct.load(k, (h, j, 0), (1, 64, D)).reshape((64, D)))
            scores = ct.mma(x, y, ct.zeros((M, 64), ct.float32))
            now = ct.maximum(most, ct.max(scores, axis=1, keepdims=True))
            weights, old = ct.exp(scores - now), ct.exp(most - now)
            size = size * old + ct.sum(weights, axis=1, keepdims=True)
            z = ct.load(v, (h, j, 0), (1, 64, D)).reshape((64, D))
            total, most = ct.mma(weights.astype(q.dtype), z, total * old), now
        ct.store(o, (h, 0, 0), (total / size).astype(o.dtype).reshape((1, M, D)))


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize("keys", [64, 192])
def test_the_next_queries_arrive_while_results_are_stored(make: Callable[[], Any], keys: int) -> None:
    """Queries are given back on either way through the loop over keys, before the last MMA op."""
    rng = np.random.default_rng(keys)
    q, k, v, o = (aligned((3, n, 64), np.float16) for n in (128, keys, keys, 128))
    for x in (q, k, v):
        x[...] = rng.standard_normal(x.shape) / 4
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see), make() as backend:
        ct.launch(None, (2,), ct.kernel(in_turn), (q, k, v, o, 128, 64), backend=backend)
    weights = np.exp(q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1))
    wanted = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)
    assert np.abs(o.astype(np.float64) - wanted).max() < 2e-3
    (roles,) = found[-1].ops_of(WarpSpecialize)
    (heads,) = (op for op in roles.consumer.ops if isinstance(op, For))
    (branch,) = (op for op in heads.body.ops if isinstance(op, If))
    assert not any(isinstance(op, MbarrierArrive) for op in heads.body.ops)
    assert len([op for op in branch.then.ops if isinstance(op, MbarrierArrive)]) == 3  # the first keys, queries, values
    assert [type(op) for op in branch.orelse.ops[-2:]] == [MbarrierArrive, Yield]


def test_loops_share_rings() -> None:
    """Queries, keys and values: tiles of one kind go to the same buffers, wherever they are fetched."""
    function = run(interpreted, 256, 64, 64, causal=True)
    assert sum(isinstance(op, MbarrierInit) for op in function.walk()) == 3


def test_what_the_other_warp_group_multiplies_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [True]  # the first one, after which there are mbarriers

    def dropped(op: Op) -> bool:
        return isinstance(op, Barrier) and not (kept and kept.pop())

    after(InsertBarriers, functools.partial(without, dropped), monkeypatch)
    monkeypatch.setattr(split_mma, "_pay_apart", lambda function: False)
    with pytest.raises(Fault, match="gpu.tma_load .* no barrier between") as found:
        run(interpreted, 512, 128, 128)
    assert found.value.category == "race"


def _pending(wait: WgmmaWait) -> None:
    wait.attributes.update(pending=wait.pending + 1)


def _free(wait: WgmmaWait) -> None:
    wait.set_operands(wait.accs, (len(wait.accs), 0, 0))


@pytest.mark.parametrize("change", [_pending, _free])
def test_faults(change: Callable[[WgmmaWait], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that are used in flight, and registers that are free too early."""

    def wrong(function: Function) -> None:
        wait: Op = next(op for op in reversed(loop_of(function).body.ops) if isinstance(op, WgmmaWait))
        change(wait)  # type: ignore[arg-type]

    after(InsertBarriers, wrong, monkeypatch)
    with pytest.raises(Fault) as found:
        run(interpreted, 200, 64, 64, occupancy=1)
    assert found.value.category == "read before arrival"


@ct.kernel
def up_to(q: ct.Array, k: ct.Array, v: ct.Array, o: ct.Array, length: int, T: ct.Constant[int]) -> None:
    """Blocks behind ``length`` queries store zeros and return."""
    i = ct.bid(0)
    if i * T >= length:
        ct.store(o, (i, 0), ct.zeros((T, 64), o.dtype))
        return
    x, total, size = ct.load(q, (i, 0), (T, 64)), ct.zeros((T, 64), ct.float32), ct.zeros((T, 1), ct.float32)
    for j in range(k.shape[0] // 64):
        scores = ct.mma(x, ct.transpose(ct.load(k, (j, 0), (64, 64))), ct.zeros((T, 64), ct.float32))
        weights = ct.exp(scores)
        size += ct.sum(weights, axis=1, keepdims=True)
        total = ct.mma(weights.astype(q.dtype), ct.load(v, (j, 0), (64, 64)), total)
    ct.store(o, (i, 0), (total / size).astype(o.dtype))


@pytest.mark.parametrize("make", [interpreted, as_ptx])
def test_blocks_that_end_early_leave_the_others_as_they_are(make: Callable[[], Any]) -> None:
    """Five CTAs share an SM, whose shared memory is only that of the way on which tiles are loaded."""
    rng = np.random.default_rng(5)
    q, k, v, o = (aligned((256, 64), BF16) for _ in range(4))
    for a in (q, k, v):
        a[...] = rng.standard_normal(a.shape) / 4
    o[...] = np.nan
    found: list[Function] = []
    with observed_passes(lambda name, f: found.append(f) if name == InsertBarriers.name else None), make() as backend:
        ct.launch(None, (4,), up_to, (q, k, v, o, 128, 64), backend=backend)
    x, y, z = (a.astype(np.float64) for a in (q, k, v))
    weights = np.exp(x[:128] @ y.T)
    wanted = weights @ z / weights.sum(1, keepdims=True)
    assert np.linalg.norm(o[:128].astype(np.float64) - wanted) < 1e-2 * np.linalg.norm(wanted)
    assert not o[128:].astype(np.float32).any()
    assert found[-1].hints["occupancy"] == 5 and shared_bytes(found[-1]) < 25 * 1024


def capped(
    q: ct.Array, k: ct.Array, v: ct.Array, o: ct.Array, M: ct.Constant[int], N: ct.Constant[int], D: ct.Constant[int]
) -> None:
    """Attention with a soft cap of one."""
    i = ct.bid(0)
    x = ct.load(q, (i, 0), (M, D))
    total = ct.zeros((M, D), ct.float32)
    most, size = ct.full((M, 1), -1e30, ct.float32), ct.zeros((M, 1), ct.float32)
    for j in range(ct.cdiv(k.shape[0], N)):
        scores = ct.mma(x, ct.transpose(ct.load(k, (j, 0), (N, D))), ct.zeros((M, N), ct.float32))
        scores = ct.tanh(scores)
        now = ct.maximum(most, ct.max(scores, axis=1, keepdims=True))
        weights, old = ct.exp(scores - now), ct.exp(most - now)
        size = size * old + ct.sum(weights, axis=1, keepdims=True)
        total = ct.mma(weights.astype(q.dtype), ct.load(v, (j, 0), (N, D)), total * old)
        most = now
    ct.store(o, (i, 0), (total / size).astype(o.dtype))


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize(("D", "rotated"), [(64, False), (256, True)])
def test_with_a_soft_cap_wide_heads_have_the_next_scores_beside_the_softmax(
    D: int, rotated: bool, make: Callable[[], Any]
) -> None:
    rng, length = np.random.default_rng(D), 128
    q, k, v, o = (aligned((length, D), np.float16) for _ in range(4))
    for x in (q, k, v):
        x[...] = rng.standard_normal(x.shape) / 8
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see), make() as backend:
        ct.launch(None, (length // 64,), ct.kernel(capped), (q, k, v, o, 64, 32, D), backend=backend)
    weights = np.exp(np.tanh(q.astype(np.float64) @ k.astype(np.float64).T))
    assert np.abs(o.astype(np.float64) - weights @ v.astype(np.float64) / weights.sum(1, keepdims=True)).max() < 2e-3
    assert not found[-1].ops_of(WarpSpecialize)
    late = [op for op in found[-1].ops_of(Wgmma) if op.block is not None and op.x in op.block.args]
    assert bool(late) == rotated
