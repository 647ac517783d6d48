"""Tiles that the tensor memory access unit (TMA) moves between an array and shared memory.

What it moves at once is a *box*: in shared memory the rows of a box lie one after the other, each of ``swizzle`` bytes,
and units of 16 bytes are exchanged within eight rows, so that columns lie in different banks. A tile whose rows are
longer is several boxes, one after the other. PTX ISA, "Swizzling modes"; CUDA Driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.gpu_parameters import Descriptor
from tilewright.ir.layouts import OFFSET, REGISTER, LinearLayout, log2
from tilewright.ir.opdef import GPU_OPS, Effect, attribute, define, operand, operands, optional_operand
from tilewright.ir.ops.gpu.barriers import barrier, require_mask
from tilewright.ir.ops.gpu.memory import READ_WRITE, GroupWait, SharedMemoryOp, shared
from tilewright.ir.ops.gpu.tiles import with_layout
from tilewright.ir.ops.rules import Unary, require, scalar_integer, tile
from tilewright.ir.types import PointerType, SharedType, TileType, Type

SWIZZLES = (128, 64, 32)  # bytes
UNIT_BYTES = 16  # that a swizzle moves as one
SWIZZLED_ALIGNMENT = 1024  # bytes: that of eight rows of 128, after which every swizzle repeats
OUTSIDE = 1 << 30  # a coordinate in no array; a store to a negative one alone is an illegal instruction on an H100
LARGEST_BOX = 256  # elements along an axis


def swizzled_layout(shape: Sequence[int], inner: int, swizzle: int, element_bytes: int) -> LinearLayout:
    """The layout in shared memory of a tile of rank 2 whose axis ``inner`` is contiguous in the array.

    ValueError where rows are no multiple of ``swizzle`` bytes.
    """
    return _swizzled_layout(tuple(shape), inner, swizzle, element_bytes)


@functools.lru_cache(maxsize=256)
def _swizzled_layout(shape: tuple[int, ...], inner: int, swizzle: int, element_bytes: int) -> LinearLayout:
    outer = 1 - inner
    unit, width = UNIT_BYTES // element_bytes, swizzle // element_bytes
    if shape[inner] % width or not unit:
        raise ValueError(f"rows of {shape[inner]} elements are no multiple of {swizzle} bytes")

    def at(along: int, across: int) -> tuple[int, ...]:
        return (across, along) if inner == 1 else (along, across)

    bases = [at(1 << i, 0) for i in range(log2(width))]
    rows = [(0, 1 << i) for i in range(log2(shape[outer]))]
    boxes = [(width << i, 0) for i in range(log2(shape[inner] // width))]
    # Units are exchanged by the three bits of the address above 128 bytes: those of rows, and where a box has fewer
    # than eight, those of boxes.
    slower = log2(128 // swizzle)
    for bit, (along, across) in enumerate(rows + boxes):
        exchanged = unit << bit - slower if slower <= bit < 3 else 0
        bases.append(at(along + exchanged, across))
    return LinearLayout.of(shape, {OFFSET: bases})


@functools.lru_cache(maxsize=256)
def swizzle_of(t: SharedType) -> tuple[int, int] | None:
    """The contiguous axis and the swizzle of a tile in shared memory; None for other layouts."""
    if len(t.shape) != 2:
        return None
    for inner in (1, 0):
        for swizzle in SWIZZLES:
            if t.shape[inner] * t.dtype.bytes % swizzle == 0 and (
                t.layout == swizzled_layout(t.shape, inner, swizzle, t.dtype.bytes)
            ):
                return inner, swizzle
    return None


class TensorMap(Op):
    """A tensor map: how the TMA unit finds boxes of an array.

    ``base``, ``shape``, ``strides`` and ``axes`` are those of a ``Descriptor``: the launch finds the array by them.
    ``box`` has the extents of a box along ``axes``, whose last one is contiguous; ``element`` is the type in memory;
    ``rounds`` turns float32 into tfloat32.
    """

    base: int = attribute(int)
    shape: tuple[tuple[str, int, int], ...] = attribute(tuple)
    strides: tuple[tuple[str, int, int], ...] = attribute(tuple)
    axes: tuple[int, ...] = attribute(tuple)
    box: tuple[int, ...] = attribute(tuple)
    element: str = attribute(str)
    dtype: DType = attribute(DType)
    rounds: bool = attribute(bool, default=False)

    @property
    def swizzle(self) -> int:
        """The bytes of a row of a box."""
        return self.box[-1] * self.dtype.bytes

    @property
    def descriptor(self) -> Descriptor:
        return Descriptor(self.base, self.shape, self.strides, self.axes, self.box, self.element, rounds=self.rounds)

    def infer(self) -> tuple[Type, ...]:
        rank = len(self.axes)
        lists = (self.shape, self.strides, self.box)
        require(0 < rank <= 5 and all(len(x) == rank for x in lists), self, "{} axes, 1 to 5 are possible", rank)
        require(sorted(self.axes) == list(range(rank)), self, "axes {}", self.axes)
        require(all(0 < n <= LARGEST_BOX for n in self.box), self, "a box of {}", self.box)
        require(self.swizzle in SWIZZLES, self, "rows of {} bytes", self.swizzle)
        return (TileType(PointerType(self.dtype)),)


@define("gpu.tensor_map", table=GPU_OPS)
class ParameterMap(TensorMap):
    """A tensor map that is a parameter of the kernel.

    One that ``needs_realign`` is of an array that the launch may have to copy first, to where the TMA unit can read it;
    of one to be ``transposed`` it always makes a transposed copy. A kernel with a map for ``pairs`` is launched in
    clusters of two CTAs, where the width of the grid is even.
    """

    needs_realign: bool = attribute(bool, default=False)
    transposed: bool = attribute(bool, default=False)
    pairs: bool = attribute(bool, default=False)

    @property
    def descriptor(self) -> Descriptor:
        flags = {name: self.attributes[name] for name in ("needs_realign", "transposed", "pairs")}
        return replace(super().descriptor, **flags)


@define("gpu.listed_map", table=GPU_OPS)
class ListedMap(TensorMap):
    """The tensor map of an array of a list: that of ``number``, in front of the rows of ``table``.

    The table is the parameter ``base``. See ``TableParameter``.
    """

    table: Value = operand()
    number: Value = operand()

    @property
    def descriptor(self) -> Descriptor:
        return replace(super().descriptor, listed=True)

    def infer(self) -> tuple[Type, ...]:
        scalar_integer(self, self.number)
        require(tile(self, self.table).is_pointer, self, "no table {!r}", self.table)
        return super().infer()


def _map(op: Op, value: Value) -> TensorMap:
    if not isinstance(value.op, TensorMap):
        require(False, op, "{!r} is no tensor map", value)
        raise AssertionError
    return value.op


def outer_axis(tensor_map: TensorMap) -> int | None:
    """The axis of the map along which a box has several rows; None where it has one."""
    return next((k for k, n in enumerate(tensor_map.box[:-1]) if n != 1), None)


def box_rows(tensor_map: TensorMap) -> int:
    """The rows of a box."""
    return math.prod(tensor_map.box[:-1])


def boxes(t: SharedType, tensor_map: TensorMap) -> list[tuple[int, int, int]]:
    """For each box of a tile of ``t`` its first row, its first column, and the byte where it lies."""
    found = swizzle_of(t)
    assert found is not None
    inner, swizzle = found
    rows, step, width = t.shape[1 - inner], box_rows(tensor_map), tensor_map.box[-1]
    columns = range(0, t.shape[inner], width)
    return [
        (row, column, column // width * rows * swizzle + row * swizzle)
        for column in columns
        for row in range(0, rows, step)
    ]


def _require_shared(op: Op, t: SharedType, value: Value, both: Value | None) -> None:
    """Where CTAs may share a load: ``both`` is a condition, and each one has half of the boxes."""
    if both is None:
        return
    condition = tile(op, both)
    require(not condition.rank and condition.element.is_bool, op, "a condition {}", condition)
    found = _map(op, value)
    several = isinstance(found, ParameterMap) and found.pairs and len(boxes(t, found)) % 2 == 0
    require(several, op, "{} is not divided between two CTAs", t)


def _tile_of_map(op: Op, t: SharedType, value: Value, starts: list[Value]) -> None:
    """Tiles of ``t`` are boxes of the map, as many as it takes."""
    found, swizzle = _map(op, value), swizzle_of(t)
    scalar_integer(op, *starts)
    require(len(starts) == len(found.axes), op, "{} coordinates for {} axes", len(starts), len(found.axes))
    require(t.dtype.bytes == found.dtype.bytes and t.copies == 1, op, "{} of a map of {}", t, found.dtype)
    require(swizzle is not None and swizzle[1] == found.swizzle, op, "{} is not swizzled by {} bytes", t, found.swizzle)
    assert swizzle is not None
    several = [n for n in found.box[:-1] if n != 1]
    fits = len(several) <= 1 and t.shape[1 - swizzle[0]] % box_rows(found) == 0
    require(fits, op, "{} in boxes {}", t, found.box)


@define("gpu.fetch", effect=Effect.READ, table=GPU_OPS)
class Fetch(Op):
    """The tile of an array that begins at the coordinates ``starts``, in shared memory; zeros outside of the array.

    ``specialize-warps`` gives it a slot in a ring of buffers, into which ``gpu.tma_load`` copies it ahead. With
    ``both`` the CTAs of a cluster fetch equally often, and where it is true the same tile: see there.
    """

    map: Value = operand()
    starts: list[Value] = operands()
    both: Value | None = optional_operand()
    type: SharedType = attribute(SharedType)

    def infer(self) -> tuple[Type, ...]:
        _tile_of_map(self, self.type, self.map, self.starts)
        _require_shared(self, self.type, self.map, self.both)
        return (self.type,)


@define("gpu.put", effect=Effect.WRITE, table=GPU_OPS)
class Put(Op):
    """Stores ``value`` to the tile of an array that begins at ``starts``, or ``adds`` it to what is there, each element
    atomically; what lies outside of the array is not stored.

    ``inner`` is the axis of the tile that is contiguous in the array. ``after_stores``, what was stored before is in
    memory by then. ``stage-stores`` makes ``gpu.tma_store`` of it.
    """

    map: Value = operand()
    value: Value = operand()
    starts: list[Value] = operands()
    inner: int = attribute(int)
    adds: bool = attribute(bool, default=False)
    after_stores: bool = attribute(bool, default=False)

    def infer(self) -> tuple[Type, ...]:
        found, t = _map(self, self.map), tile(self, self.value)
        scalar_integer(self, *self.starts)
        require(t.rank == 2 and self.inner in (0, 1), self, "{} along {}", t, self.inner)
        require(len(self.starts) == len(found.axes), self, "{} coordinates", len(self.starts))
        rows = t.shape[1 - self.inner]
        fits = t.shape[self.inner] % found.box[-1] == 0 and rows % box_rows(found) == 0
        require(t.element.bytes == found.dtype.bytes and fits, self, "{} in boxes {} of {}", t, found.box, found.dtype)
        return ()


@define("gpu.tma_load", effect=READ_WRITE, table=GPU_OPS)
class TmaLoad(Op):
    """One thread begins, where ``mask`` is true, to copy the tile at ``starts`` to ``buffer``; zeros outside of the
    array.

    When it has arrived, its bytes are taken from those that the current phase of ``barrier`` expects. It may be read
    by those who have waited for that phase. Where ``both`` is true, it copies half of the boxes (the CTA that comes
    first in the cluster the first half) to both CTAs, at the same addresses, and tells the barriers of both.
    """

    buffer: Value = operand()
    barrier: Value = operand()
    map: Value = operand()
    starts: list[Value] = operands()
    both: Value | None = optional_operand()
    mask: Value | None = optional_operand()

    def infer(self) -> tuple[Type, ...]:
        t = shared(self, self.buffer)
        barrier(self, self.barrier)
        require_mask(self, self.mask)
        _tile_of_map(self, t, self.map, self.starts)
        _require_shared(self, t, self.map, self.both)
        return ()


@define("gpu.tma_store", effect=READ_WRITE, table=GPU_OPS)
class TmaStore(SharedMemoryOp):
    """The first thread begins to copy the tile in ``buffer`` to ``starts`` of an array, or to have it added to what is
    there (``adds``), as a group of copies.

    ``by_group``, there is one box for each warp group, whose first thread copies it. What other threads wrote to it
    needs a ``gpu.async_fence`` of theirs and a barrier before.
    """

    map: Value = operand()
    starts: list[Value] = operands()
    by_group: bool = attribute(bool, default=False)
    adds: bool = attribute(bool, default=False)

    def infer(self) -> tuple[Type, ...]:
        _tile_of_map(self, shared(self, self.buffer), self.map, self.starts)
        return ()


@define("gpu.tma_store_wait", effect=READ_WRITE, table=GPU_OPS)
class TmaStoreWait(GroupWait):
    """The first thread of each warp group waits until at most ``pending`` of its latest groups still read shared
    memory, or until all of them but those are ``written``."""

    written: bool = attribute(bool, default=False)


@define("gpu.async_fence", effect=READ_WRITE, table=GPU_OPS)
class AsyncFence(Op):
    """What a thread wrote to shared memory before, TMA and ``gpu.wgmma`` see after the next barrier."""


@define("gpu.part", table=GPU_OPS)
class Part(Unary):
    """The part number ``index`` of the tile ``x`` along ``axis``, of extent ``size``. Nothing moves.

    The coordinate bits that choose the part are those of registers.
    """

    axis: int = attribute(int)
    size: int = attribute(int)
    index: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        t, layout = with_layout(self, tile(self, self.x))
        require(0 <= self.axis < t.rank and can_part(layout, self.axis, self.size), self, "{} of {}", self.size, t)
        require(0 <= self.index < t.shape[self.axis] // self.size, self, "part {} of {}", self.index, t)
        part = part_layout(layout, self.axis, self.size)
        return (TileType(t.dtype, part.shape, part),)


@define("gpu.join", table=GPU_OPS)
class Join(Op):
    """The tile of ``type`` whose two parts along ``axis`` are ``low`` and ``high``. Nothing moves."""

    low: Value = operand()
    high: Value = operand()
    axis: int = attribute(int)
    type: TileType = attribute(TileType)

    def infer(self) -> tuple[Type, ...]:
        t, layout = with_layout(self, self.type)
        require(0 <= self.axis < t.rank, self, "axis {} of {}", self.axis, t)
        size = t.shape[self.axis] // 2
        require(can_part(layout, self.axis, size), self, "halves of {}", t)
        part = part_layout(layout, self.axis, size)
        both = [v.type for v in self.operands]
        require(both == [TileType(t.dtype, part.shape, part)] * 2, self, "{} of {}", t, both)
        return (t,)


def can_part(layout: LinearLayout, axis: int, size: int) -> bool:
    """Whether registers alone choose between the parts of ``size`` along ``axis``."""
    if size & (size - 1) or not 0 < size <= layout.shape[axis]:
        return False
    high = layout.shape[axis] - size
    alone = {tuple(1 << bit if k == axis else 0 for k in range(layout.rank)) for bit in range(log2(high + size))}
    return all(
        not image[axis] & high or (name == REGISTER and image in alone)
        for name in layout.names
        for image in layout.images(name)
    )


def part_layout(layout: LinearLayout, axis: int, size: int) -> LinearLayout:
    """The layout of the parts."""
    shape = tuple(size if k == axis else n for k, n in enumerate(layout.shape))
    kept = {name: [i for i in layout.images(name) if i[axis] < size] for name in layout.names}
    return LinearLayout.of(shape, kept)


def part_registers(layout: LinearLayout, axis: int, size: int, index: int) -> list[int]:
    """The registers that hold part ``index``, in the order of those of the part."""
    images = layout.images(REGISTER)
    kept = [i for i, image in enumerate(images) if image[axis] < size]
    fixed = sum(1 << i for i, image in enumerate(images) if image[axis] >= size and image[axis] & (index * size))
    return [fixed | sum((r >> n & 1) << i for n, i in enumerate(kept)) for r in range(1 << len(kept))]
