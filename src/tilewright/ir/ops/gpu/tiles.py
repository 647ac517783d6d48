"""Ops on distributed tiles: conversions of layouts, exchange between lanes, reductions and scans within a thread."""

from __future__ import annotations

import functools

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.layouts import LANE, LANES, REGISTER, WARP, LinearLayout
from tilewright.ir.opdef import GPU_OPS, attribute, define, operands, region
from tilewright.ir.ops.linear import combiner_types
from tilewright.ir.ops.rules import Unary, require, tile, types_of
from tilewright.ir.types import TileType, Type


def distributed(op: Op, value: Value) -> tuple[TileType, LinearLayout]:
    """The type of ``value``, which must be a tile with a layout, and that layout."""
    return with_layout(op, tile(op, value))


def with_layout(op: Op, t: TileType) -> tuple[TileType, LinearLayout]:
    """``t``, which must have a layout, and that layout."""
    if t.layout is None:
        require(False, op, "{} is not distributed", t)
        raise AssertionError
    return t, t.layout


@define("gpu.convert_layout", table=GPU_OPS)
class ConvertLayout(Unary):
    """A tile in another layout.

    What that takes follows from the two layouts: see ``transforms.gpu.conversions``. After ``lower-conversions`` only
    those are left that stay within a warp: other registers of the same thread, or shuffles.
    """

    type: TileType = attribute(TileType)

    def infer(self) -> tuple[Type, ...]:
        t, _ = distributed(self, self.x)
        _, layout = with_layout(self, self.type)
        require(t.with_layout(layout) == self.type and t.shape == layout.shape, self, "{} to {}", t, self.type)
        require(layout.is_surjective, self, "{} does not hold every element", self.type)
        return (self.type,)


@define("gpu.splat", table=GPU_OPS)
class Splat(Unary):
    """A distributed tile whose elements all equal the scalar ``x``."""

    type: TileType = attribute(TileType)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        with_layout(self, self.type)
        require(t.rank == 0 and t.dtype == self.type.dtype, self, "{} to {}", t, self.type)
        return (self.type,)


@define("gpu.broadcast", table=GPU_OPS)
class BroadcastDistributed(Unary):
    """x repeated along its dimensions of length 1. Each thread has in registers what it needs for its elements.

    So the layout of x is that of the result without those dimensions, up to the order of the registers.
    """

    type: TileType = attribute(TileType)

    def infer(self) -> tuple[Type, ...]:
        t, have = distributed(self, self.x)
        _, layout = with_layout(self, self.type)
        require(t.dtype == self.type.dtype and t.rank == self.type.rank, self, "{} to {}", t, self.type)
        for a, b in zip(t.shape, self.type.shape):
            require(a in (1, b), self, "{} does not broadcast to {}", t, self.type)
        found = broadcast_sources(have, layout)
        require(found is not None, self, "{} to {} needs elements of other threads", t, self.type)
        return (self.type,)


@functools.lru_cache(maxsize=1024)
def broadcast_sources(source: LinearLayout, target: LinearLayout) -> tuple[int, ...] | None:
    """Which register of ``source`` each register of ``target`` repeats, or None if another thread holds it."""
    shrunk = target
    for axis, (a, b) in enumerate(zip(source.shape, target.shape)):
        if a != b:
            shrunk = shrunk.drop_bits(axis, b - 1)
    if shrunk.bases(LANE) != source.bases(LANE) or shrunk.bases(WARP) != source.bases(WARP):
        return None
    held = {source.index(register=r): r for r in reversed(range(source.num_registers))}
    found = []
    for r in range(target.num_registers):
        coordinates = target.apply(register=r)
        index = 0
        for c, n in zip(coordinates, source.shape):
            index = index * n + (c if n > 1 else 0)
        if index not in held:
            return None
        found.append(held[index])
    return tuple(found)


@define("gpu.shuffle", table=GPU_OPS)
class Shuffle(Unary):
    """Each thread gets the registers of the thread of its warp whose lane differs in the bits ``lane_xor``.

    As a tile: y[c] = x[c ^ d], where d is the element that the layout has at lane ``lane_xor``.
    """

    lane_xor: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        t, _ = distributed(self, self.x)
        require(0 < self.lane_xor < LANES, self, "lane_xor {}", self.lane_xor)
        return (t,)


@define("gpu.drop_bits", table=GPU_OPS)
class DropBits(Unary):
    """x without the coordinate bits ``bits`` of ``axis``: elements that differ only in those must be equal.

    ``bits`` are bits of lanes or warps, which then hold the same elements. Nothing moves.
    """

    axis: int = attribute(int)
    bits: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        t, layout = distributed(self, self.x)
        require(0 <= self.axis < t.rank and 0 < self.bits < t.shape[self.axis], self, "bits {} of {}", self.bits, t)
        inside = layout.axis_bits(REGISTER, self.axis) & self.bits
        require(not inside, self, "bits {} of axis {} of {} depend on registers", self.bits, self.axis, t)
        return (t.with_layout(layout.drop_bits(self.axis, self.bits)),)


class ThreadCombiningOp(Op):
    """What reductions and scans within a thread have in common: tiles of one layout, an axis, a combiner of scalars."""

    values: list[Value]
    axis: int
    body: Block

    @property
    def register_bits(self) -> int:
        """The coordinate bits of the axis that registers hold, as a mask."""
        return self.values[0].layout.axis_bits(REGISTER, self.axis)

    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The registers of a thread that are combined with each other, in ascending order of their coordinates.

        In the order of the registers that a reduction leaves, but with those that hold the same elements, too.
        """
        images = self.values[0].layout.images(REGISTER)
        along = {image[self.axis]: 1 << i for i, image in enumerate(images) if image[self.axis]}
        inner = [0]
        for bit in sorted(along):
            inner += [r | along[bit] for r in inner]
        outer = [0]
        for i, image in enumerate(images):
            if not image[self.axis]:
                outer += [r | 1 << i for r in outer]
        return tuple(tuple(o | r for r in inner) for o in outer)

    def check(self) -> list[TileType]:
        types = combiner_types(self, self.values, self.axis, self.body)
        for t in types:
            _, layout = with_layout(self, t)
            require(layout == types[0].layout, self, "tiles of different layouts: {}", types)
            for dim in layout.names:
                for image in layout.images(dim):
                    along = image[self.axis]
                    alone = not along or (along & (along - 1) == 0 and not any(c for c in image if c != along))
                    require(alone and sum(map(bool, image)) <= 1, self, "{} mixes bits of the axis in {}", dim, t)
            bits = self.register_bits
            others = layout.axis_bits(LANE, self.axis) | layout.axis_bits(WARP, self.axis)
            require(not bits & others, self, "registers and threads share bits of axis {} in {}", self.axis, t)
        return types


@define("gpu.thread_reduce", table=GPU_OPS)
class ThreadReduce(ThreadCombiningOp):
    """Combines the elements along ``axis`` that one thread holds, neighbours first, then the results of neighbours, ...

    The axis keeps the coordinate bits of lanes and warps, in order: element j of the result combines those elements
    whose coordinates have j in these bits. The left operand of the combiner is the one with the lower coordinate.
    """

    values: list[Value] = operands()
    axis: int = attribute(int)
    body: Block = region()

    def infer(self) -> tuple[Type, ...]:
        types = self.check()
        bits = self.register_bits
        return tuple(t.with_layout(with_layout(self, t)[1].drop_bits(self.axis, bits)) for t in types)


@define("gpu.thread_scan", table=GPU_OPS)
class ThreadScan(ThreadCombiningOp):
    """Inclusive scan along ``axis`` of the elements that one thread holds, each run of them by itself.

    Elements of a run have equal coordinate bits of lanes and warps. In order, from the end when ``reverse``.
    """

    values: list[Value] = operands()
    axis: int = attribute(int)
    reverse: bool = attribute(bool, default=False)
    body: Block = region()

    def infer(self) -> tuple[Type, ...]:
        self.check()
        return types_of(self.values)
