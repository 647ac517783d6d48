"""Layouts by what a thread, a warp and a CTA have side by side along each axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tilewright.ir.layouts import LANE, LANES, REGISTER, WARP, LinearLayout, log2
from tilewright.ir.ops.gpu.tma import can_part

VECTOR_BYTES = 16  # the widest access of a thread
_Shape = tuple[int, ...]


def blocked(
    shape: _Shape,
    order: Sequence[int],
    vector: int,
    warps: int,
    across: Mapping[int, int] = MappingProxyType({}),
    *,
    rows_apart: bool = False,
) -> LinearLayout:
    """``vector`` elements of a thread side by side along ``order[0]``, and ``across`` other axes; threads along
    ``order``, and so on around. With ``rows_apart`` warps have rows along that axis for themselves, of several rows.

    Fewer elements where the threads would not have as many.
    """
    size = 1
    for n in shape:
        size *= n
    room = max(size // (LANES * warps), 1)
    if vector == 1 and max(shape) == size >= LANES * warps:
        return _warp_by_warp(shape, warps)
    left = [1] * len(shape)
    for axis, lines in across.items():
        left[axis] = min(lines, room, shape[axis])
        room //= left[axis]
    left[order[0]] = min(vector, room, shape[order[0]])
    lanes, warp = [1] * len(shape), [1] * len(shape)
    along = (*order[1:], order[0]) if rows_apart else order
    for extents, count, axes in ((lanes, LANES, order), (warp, warps, along)):
        for axis in axes:
            free = max(shape[axis] // (left[axis] * lanes[axis] * warp[axis]), 1)
            extents[axis] = min(free, count)
            count //= extents[axis]
        extents[order[-1]] *= count  # more threads than elements
    return LinearLayout.blocked(shape, left, lanes, warp, order)


def _warp_by_warp(shape: _Shape, warps: int) -> LinearLayout:
    """For each warp a part of the line that the tile is, with elements of its lanes side by side: where accesses begin
    anywhere, two that follow each other share a sector of memory, which one warp has in the cache then."""
    units = [tuple(1 << bit if n > 1 else 0 for n in shape) for bit in range(log2(max(shape)))]
    lanes, own = log2(LANES), len(units) - log2(warps)
    return LinearLayout.of(shape, {REGISTER: units[lanes:own], LANE: units[:lanes], WARP: units[own:]})


def stored_by_rows(home: LinearLayout) -> LinearLayout | None:
    """The layout in which a warp stores its part of an accumulator in ``home`` row by row, each lane an element: where
    no more are side by side in memory, lanes would leave gaps otherwise. None for other layouts.

    Registers alone choose between the parts of as many columns as there are lanes.
    """
    column = home.rank - 1
    units = [tuple(1 << bit if k == column else 0 for k in range(home.rank)) for bit in range(log2(home.shape[column]))]
    own, lanes = home.images(REGISTER), home.images(LANE)
    if [*own[:1], *lanes[:2]] != units[:3] or not can_part(home, column, LANES):
        return None
    rows = [image for image in (*own, *lanes) if image not in units]
    bits = log2(LANES)
    bases = {REGISTER: [*rows, *units[bits:]], LANE: units[:bits], WARP: home.images(WARP)}
    return LinearLayout.of(home.shape, bases)


def along_axis(shape: _Shape, axis: int, warps: int, *, fewest: int = 0) -> LinearLayout:
    """A layout in which each line along ``axis`` lies in one warp: runs in registers, these side by side over lanes.
    Warps that no line is left for have a part of one while runs are longer than ``fewest``, if that is given."""
    order = (axis, *(k for k in reversed(range(len(shape))) if k != axis))
    lanes, extents, runs = [1] * len(shape), [1] * len(shape), [1] * len(shape)
    lanes[axis] = min(shape[axis], LANES)
    runs[axis] = shape[axis] // lanes[axis]
    left = LANES // lanes[axis]
    for k in order[1:]:
        lanes[k] = min(shape[k], left)
        left //= lanes[k]
    lanes[axis] *= left
    count = warps
    for k in order[1:]:
        extents[k] = min(shape[k] // lanes[k], count)
        count //= extents[k]
    while fewest and count > 1 and runs[axis] > fewest:
        runs[axis], extents[axis], count = runs[axis] // 2, extents[axis] * 2, count // 2
    extents[order[-1]] *= count
    return LinearLayout.blocked(shape, runs, lanes, extents, order)
