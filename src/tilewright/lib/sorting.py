"""Sorting along an axis of a tile, by K. Batcher's bitonic network (1968)."""

from __future__ import annotations

import math
from typing import Any

from tilewright import language as ct


def sort(x: Any, axis: int = -1, *, descending: bool = False) -> Any:
    """The elements along ``axis`` in order. NaN counts as greater than all numbers.

    >>> lib.sort(ct.astile((3, 1, 2, 0), dtype=ct.int32))
    Tile([0, 1, 2, 3], dtype=int32)
    """
    return _sorted(x, axis, descending)[0]


def argsort(x: Any, axis: int = -1, *, descending: bool = False) -> Any:
    """The indices, as int32, that put the elements along ``axis`` in order; equal ones keep theirs.

    >>> lib.argsort(ct.astile((3, 1, 2, 0), dtype=ct.int32))
    Tile([3, 1, 2, 0], dtype=int32)
    """
    return _sorted(x, axis, descending)[1]


def top_k(x: Any, k: int, axis: int = -1) -> tuple[Any, Any]:
    """The ``k`` greatest elements along ``axis``, the greatest first, and their indices; ``k`` is a power of two.

    >>> lib.top_k(ct.astile((3, 1, 2, 0), dtype=ct.int32), 2)
    (Tile([3, 2], dtype=int32), Tile([0, 2], dtype=int32))
    """
    values, indices = _sorted(x, axis, True)
    last = ct.static_eval(axis if axis >= 0 else x.ndim + axis)
    shape = ct.static_eval(tuple(k if i == last else n for i, n in enumerate(x.shape)))
    start = ct.static_eval((0,) * x.ndim)
    return ct.extract(values, start, shape), ct.extract(indices, start, shape)


def _sorted(x: Any, axis: int, descending: bool) -> tuple[Any, Any]:
    """Elements in order, and their former indices."""
    ct.static_assert(-x.ndim <= axis < x.ndim, "the tile has no such axis")
    last = ct.static_eval(axis if axis >= 0 else x.ndim + axis)
    axes = ct.static_eval((*(i for i in range(x.ndim) if i != last), last))
    back = ct.static_eval(tuple(axes.index(i) for i in range(x.ndim)))
    shape = ct.static_eval(tuple(x.shape[i] for i in axes))
    extent, rows = x.shape[last], ct.static_eval(math.prod(x.shape) // x.shape[last])
    keys = ct.reshape(ct.permute(x, axes), (rows, extent))
    positions = ct.broadcast_to(ct.reshape(ct.arange(extent, dtype=ct.int32), (1, extent)), (rows, extent))
    for size in ct.static_iter(2 << i for i in range(extent.bit_length() - 1)):
        for step in ct.static_iter(size >> i for i in range(1, size.bit_length())):
            keys, positions = _exchanged(keys, positions, size, step, descending)
    keys, positions = ct.reshape(keys, shape), ct.reshape(positions, shape)
    return ct.permute(keys, back), ct.permute(positions, back)


def _exchanged(keys: Any, positions: Any, size: int, step: int, descending: bool) -> tuple[Any, Any]:
    """Pairs of elements ``step`` apart in order: rising and falling in turn among runs of ``size``."""
    rows, extent = keys.shape
    pairs = ct.static_eval(extent // (2 * step))
    apart, half = (rows * pairs, 2, step), (rows * pairs, 1, step)
    keys, positions = ct.reshape(keys, apart), ct.reshape(positions, apart)
    a, b = ct.extract(keys, (0, 0, 0), half), ct.extract(keys, (0, 1, 0), half)
    p, q = ct.extract(positions, (0, 0, 0), half), ct.extract(positions, (0, 1, 0), half)
    pair = ct.reshape(ct.arange(rows * pairs, dtype=ct.int32), (rows * pairs, 1, 1)) % pairs
    falling = pair * (2 * step) // size % 2 == 1
    later, earlier = (_greater(b, a), _greater(a, b)) if descending else (_greater(a, b), _greater(b, a))
    # Places differ, so that of two elements exactly one comes first.
    swap = (later | (~earlier & (p > q))) ^ falling
    a, b = ct.where(swap, b, a), ct.where(swap, a, b)
    p, q = ct.where(swap, q, p), ct.where(swap, p, q)
    return ct.reshape(ct.cat((a, b), 1), (rows, extent)), ct.reshape(ct.cat((p, q), 1), (rows, extent))


def _greater(x: Any, y: Any) -> Any:
    if x.dtype == ct.float64 or x.dtype == ct.float32 or x.dtype == ct.float16 or x.dtype == ct.bfloat16:
        return (x > y) | (ct.isnan(x) & ~ct.isnan(y))
    return x > y
