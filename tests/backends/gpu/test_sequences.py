"""Products of sequences of several lengths by warp groups: packed one after the other, and in pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import aligned
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.tma import Fetch, Put, TensorMap
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.transforms.gpu.choose_wgmma import ChooseWgmma
from tilewright.transforms.instrumentation import observed_passes

T, H = 64, 2
LENGTHS = (70, 5, 64)
STARTS = (0, 72, 80)


def interpreted() -> Any:
    return interpreter_backend(None, target="sm_90")


def as_ptx() -> Any:
    return ptx_backend(None, "sm_90")


def chosen(make: Callable[[], Any], kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...]) -> list[Any]:
    """Launch; the ops after ``ChooseWgmma``."""
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == ChooseWgmma.name:
            found.append(function)

    with observed_passes(see), make() as backend:
        ct.launch(None, grid, kernel, args, backend=backend)
    return list(found[-1].walk())


def sequences(rng: np.random.Generator) -> Any:
    """Packed sequences, with numbers between them that nobody may read."""
    x = aligned((144, H, T), np.float16)
    x[...] = 1000
    for start, n in zip(STARTS, LENGTHS):
        x[start : start + n] = rng.standard_normal((n, H, T)) / 4
    return x


@ct.kernel
def attention(q, k, v, starts, lengths, pages, o, PAGED: ct.Constant[bool], T: ct.Constant[int]):
    b, h, block = ct.bid(0), ct.bid(1), ct.bid(2)
    start, length = ct.load(starts, (b,), ()), ct.load(lengths, (b,), ())
    if block * T >= length:
        return
    zero = ct.PaddingMode.ZERO
    mine, stored = q.slice(0, start, start + length), o.slice(0, start, start + length)
    queries = ct.load(mine, (block, h, 0), (T, 1, T), padding_mode=zero).reshape((T, T))
    total, result = ct.zeros((T, 1), ct.float32), ct.zeros((T, T), ct.float32)
    rows = block * T + ct.arange(T, dtype=ct.int32)[:, None]
    for j in range(block + 1):
        if PAGED:
            page = ct.gather(pages, (b, j), padding_value=0).item()
            keys = ct.load(k, (page, 0, h, 0), (1, T, 1, T)).reshape((T, T))
            values = ct.load(v, (page, 0, h, 0), (1, T, 1, T)).reshape((T, T))
        else:
            keys = ct.load(k.slice(0, start, start + length), (j, h, 0), (T, 1, T), padding_mode=zero).reshape((T, T))
            values = ct.load(v.slice(0, start, start + length), (j, h, 0), (T, 1, T), padding_mode=zero).reshape((T, T))
        scores = ct.mma(queries, ct.transpose(keys), ct.zeros((T, T), ct.float32))
        seen = rows >= j * T + ct.arange(T, dtype=ct.int32)[None, :]
        weights = ct.where(seen, ct.exp(scores), 0.0)
        total = total + ct.sum(weights, 1, keepdims=True)
        result = ct.mma(weights.astype(ct.float16), values, result)
    ct.store(stored, (block, h, 0), (result / total).reshape((T, 1, T)).astype(o.dtype))


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize("paged", [False, True])
def test_attention(make: Callable[[], Any], paged: bool) -> None:
    """The TMA unit loads slices, and pages whose numbers the thread that loads reads; it stores slices."""
    rng = np.random.default_rng(paged)
    q, k, v = (sequences(rng) for _ in range(3))
    o = aligned(q.shape, np.float16)
    o[...] = 7
    wanted = o.astype(np.float64)
    pages = np.array([[3, 1], [0, 0], [2, 0]], np.int32)
    keys, values = (aligned((4, T, H, T), np.float16) for _ in range(2))
    for b, (start, n) in enumerate(zip(STARTS, LENGTHS)):
        for j in range(0, n, T):
            for cache, x in ((keys, k), (values, v)):
                cache[pages[b, j // T], : min(T, n - j)] = x[start + j : start + min(n, j + T)]
        for h in range(H):
            part = np.s_[start : start + n, h]
            weights = np.where(np.tri(n, dtype=bool), np.exp(q[part].astype(np.float64) @ k[part].T), 0)
            wanted[part] = weights @ v[part] / weights.sum(1, keepdims=True)
    lists = [np.array(x, np.int32) for x in (STARTS, LENGTHS)]
    where = (keys, values) if paged else (k, v)
    ops = chosen(make, attention, (3, H, 2), (q, *where, *lists, pages, o, paged, T))
    assert np.abs(o.astype(np.float64) - wanted).max() < 2e-3
    kinds = [sum(isinstance(op, kind) for op in ops) for kind in (Wgmma, Fetch, Put)]
    assert kinds == [2, 3, 1]
    assert [len(op.axes) for op in ops if isinstance(op, TensorMap)] == [5, 4, 4, 5] if paged else [5] * 4


@ct.kernel
def sums(x, w, starts, lengths, o):
    """The sum of all tiles of a sequence, and of some before and behind it, which are zeros."""
    b, h = ct.bid(0), ct.bid(1)
    start = ct.load(starts, (b,), ())
    mine = x.slice(0, start, start + ct.load(lengths, (b,), ()))
    total = ct.zeros((T, T), ct.float32)
    for j in range(-2, 4):
        tile = ct.load(mine, (j, h, 0), (T, 1, T), padding_mode=ct.PaddingMode.ZERO).reshape((T, T))
        total = ct.mma(tile, ct.load(w, (0, 0), (T, T)), total)
    ct.store(o, (b, h, 0, 0), total.reshape((1, 1, T, T)))


@pytest.mark.parametrize("make", [interpreted, as_ptx])
def test_what_is_around_a_slice_is_zero(make: Callable[[], Any]) -> None:
    x, w = sequences(np.random.default_rng(7)), aligned((T, T), np.float16)
    w[...] = np.eye(T)
    o = aligned((3, H, T, T), np.float32)
    ops = chosen(make, sums, (3, H), (x, w, *(np.array(n, np.int32) for n in (STARTS, LENGTHS)), o))
    assert sum(isinstance(op, Fetch) for op in ops) == 2
    for b, (start, n) in enumerate(zip(STARTS, LENGTHS)):
        for h in range(H):
            padded = np.zeros((2 * T, T))
            padded[:n] = x[start : start + n, h]
            assert np.abs(o[b, h] - padded[:T] - padded[T:]).max() < 1e-2
