"""Where the tiles of the loop-level form are."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.live_ranges import LiveRanges
from tilewright.backends.cpu.loops.arena import Arena
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.ops.control import Continue, For, If, Loop, LoopOp, ends_of
from tilewright.ir.ops.loops import CopyBuffer, LoopNest, ScratchPointer
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.ops.shape import Pack, Reshape, Unpack
from tilewright.ir.types import TileType


def buffer_offset(value: Value) -> int:
    """The offset in scratch memory of a tile of more than one element that is in a buffer. ValueError if it is not."""
    op = value.op
    if op is None and value.block is not None and isinstance(value.block.parent, LoopOp):
        loop = value.block.parent
        return buffer_offset(loop.inits[loop.carried.index(value)])  # what loops lend to their bodies
    if isinstance(op, LoopNest):
        offset = op.buffers[value.index]
        if offset is not None:
            return offset
    elif isinstance(op, CopyBuffer):
        return op.offset
    elif isinstance(op, (Reshape, Pack, Unpack)):
        return buffer_offset(op.x)
    elif isinstance(op, For):
        return buffer_offset(op.inits[value.index])
    elif isinstance(op, (Loop, If)):
        passed = passed_out(op)
        if passed:
            return buffer_offset(passed[value.index])
        return 0  # never reached
    raise ValueError(f"{value!r} is not in a buffer")


def passed_out(op: Loop | If) -> Sequence[Value]:
    """What an end of a region of ``op`` passes as its results; nothing when no end does."""
    return next((end.values for end in ends_of(op) if not isinstance(end, Continue)), ())


class LiveBuffers:
    """The buffers that hold something still needed. Results of an op have theirs before it is done."""

    def __init__(self, function: Function) -> None:
        ranges = LiveRanges(function)
        self._place = ranges.first
        self._buffers: list[tuple[tuple[int, int], int, int]] = []  # of a value: live range, offset and bytes
        self._arrays: dict[int, int] = {}  # of the kernel itself: it keeps their addresses
        for op in ranges.first:
            if isinstance(op, ScratchPointer):
                self._arrays[op.offset] = op.bytes
            for r in op.results if not isinstance(op, LoadView) else ():
                if isinstance(r.type, TileType) and r.type.size > 1 and not isinstance(op.parent, LoopNest):
                    size = r.type.size * element_bytes(r.type.dtype)
                    self._buffers.append((ranges.of_result(r), buffer_offset(r), size))

    def arena(self, op: Op) -> Arena:
        """An arena that hands out what no live buffer takes at ``op``."""
        taken, now = dict(self._arrays), self._place[op]
        for (first, last), offset, size in self._buffers:
            if first <= now <= last:
                taken[offset] = max(size, taken.get(offset, 0))
        return Arena(taken)
