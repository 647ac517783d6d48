"""Blocks that run together do, report and tell what they do one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct
from tilewright.sanitizer import backend, batches, lockstep
from tilewright.viewer import Recorder

Arguments = tuple[Any, ...]


@ct.kernel
def product(a, b, c, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((T, T), ct.float32)
    for k in range(ct.num_tiles(a, 1, (T, T))):
        x = ct.load(a, (i, k), (T, T), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(x, ct.load(b, (k, j), (T, T), padding_mode=ct.PaddingMode.ZERO), acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def triangle(a, b, c, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((T, T), ct.float32)
    for k in range(i + 1):  # as many turns as the row has
        acc += ct.load(a, (i, k), (T, T))
    if j > i:
        acc = ct.transpose(acc) * 2
    ct.store(c, (i, j), ct.sum(acc, axis=1, keepdims=True) + acc - ct.cumsum(acc, 0))


@ct.kernel
def undetermined(a, b, c, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(c, (i, j), ct.load(a, (i, j), (T, T)))  # the padding of the last tiles is nothing that may be stored


@ct.kernel
def overflow(a, b, c, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    big = ct.full((T, T), 2**30, ct.int32) * (i // 2 + j)
    ct.store(c, (i, j), (big + 7 // (i - 3)).astype(ct.float32) + ct.load(a, (0, 0), (T, T)))


@ct.kernel
def colliding(a, b, c, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(c, (i // 2, j), ct.load(b, (j, i), (T, T)))


@ct.kernel
def data_dependent(a, b, c, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    n = (ct.load(b, (i, j), (1, 1)).reshape(()) * 6).astype(ct.int32)
    x = ct.load(a, (n % 2, 0), (T, T))
    while n > 0:
        n -= 1
        x = x + 1
        if n == 3:
            break
    ct.store(c, (i, j), ct.where(x > 2, x, ct.max(x)))


@ct.kernel
def in_place(a, b, c, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(c, (i, j), ct.load(c, (j, i), (T, T)) + 1)


@ct.kernel
def many_operations(a, b, c, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    x = ct.load(b, (i, j), (T, T), padding_mode=ct.PaddingMode.ZERO)
    n = (x * 100).astype(ct.int32) + i
    most = ct.argmax(x, axis=1)
    left, right = ct.extract(x, (0, 0), (T, T // 2)), ct.extract(x, (0, i % 2), (T, T // 2))
    y = ct.cat((right, left), axis=1).permute((1, 0))
    bits = ct.bitcast(ct.pack_to_bytes(y).reshape((T, T, 4)), ct.int8)
    low, total = ct.min(n, axis=0, keepdims=True), ct.prod(ct.broadcast_to(x[:, None, :], (T, 2, T)), axis=1)
    rows = ct.mma(n.astype(ct.int8), (n.transpose() % 7).astype(ct.int8), ct.full((T, T), j, ct.int32))
    first = ct.reduce(n, 1, lambda p, q: ct.where(p < q, p, q), 2**31 - 1)
    scan = ct.cumprod(total, axis=1, reverse=True) + ct.exp2(ct.minimum(y, i.astype(ct.float32)))
    ct.assert_(most < T)
    found = scan + ct.sum(bits.astype(ct.float32), axis=2) * (low + rows).astype(ct.float32)
    ct.store(c, (i, j), ct.where(i == j, found, found * most[:, None].astype(ct.float32) + first[:, None]))


KERNELS = (product, triangle, undetermined, overflow, colliding, data_dependent, in_place, many_operations)


def outcome(run: Callable[[], dict[str, np.ndarray]]) -> tuple[Any, ...]:
    """The memory after a launch, the report, and what was recorded of each block."""
    recorder = Recorder()
    with ct.sanitize(sinks=[recorder]) as report:
        memory = run()
    (recording,) = recorder.finish()
    events = np.array(recording.events).reshape(-1, 6)
    groups = np.array(recording.groups).reshape(-1, 4)
    ends = np.append(events[1:, 5], len(groups))
    places = list(recording.locations)
    seen = [
        (int(e[1]), places[e[2]], *e[[0, 3, 4]].tolist(), groups[e[5] : end].tolist()) for e, end in zip(events, ends)
    ]
    marks = [(m.violation.render(), None if m.event is None else seen[m.event], m.element) for m in recording.marks]
    return {k: v.tobytes() for k, v in memory.items()}, report.render(), sorted(seen, key=lambda s: s[0]), marks


def compare(monkeypatch: pytest.MonkeyPatch, run: Callable[[], dict[str, np.ndarray]]) -> int:
    """Assert that both ways are the same; how many blocks ran together."""
    together: list[int] = []
    finish = batches.Blocks._finish

    def counted(self: Any, batch: Any, indices: Any, first: int) -> None:
        together.append(len(indices))
        finish(self, batch, indices, first)

    monkeypatch.setattr(batches, "FEWEST", 2)
    monkeypatch.setattr(lockstep, "FEWEST", 2)
    monkeypatch.setattr(batches.Blocks, "_finish", counted)
    found = outcome(run)
    monkeypatch.setattr(backend, "batch_size", lambda *_: 1)
    count = sum(together)
    wanted = outcome(run)
    assert sum(together) == count
    for a, b in zip(found, wanted):
        assert a == b
    return count


@pytest.mark.parametrize("shape", [(32, 32), (29, 43)])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_kernels(monkeypatch: pytest.MonkeyPatch, kernel: Any, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    side = max(shape)
    a, b = (rng.random((side, side), dtype=np.float32)[: shape[0], : shape[1]] for _ in range(2))
    grid = tuple(ct.cdiv(n, 8) for n in shape)
    if kernel is in_place:
        grid = grid[0], grid[0]

    def run() -> dict[str, np.ndarray]:
        c = np.zeros(shape, np.float32)
        y = np.resize(b, (shape[1], side)) if kernel in (product, colliding) else b
        ct.launch(None, grid, kernel, (a, y, c, 8))
        return {"c": c}

    count = compare(monkeypatch, run)
    assert count == 0 if kernel is in_place else count >= 4


def test_arrays_of_float8(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(32 * 32).astype(ml_dtypes.float8_e5m2).reshape(32, 32)

    def run() -> dict[str, np.ndarray]:
        copy = np.zeros_like(x)
        ct.launch(None, (4, 4), undetermined, (x, x, copy, 8))
        assert (copy == x).all()
        return {"c": copy}

    assert compare(monkeypatch, run) == 16
