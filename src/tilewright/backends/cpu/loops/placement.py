"""Where the tiles of the loop-level form are."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.loops.arena import Arena
from tilewright.backends.cpu.loops.uses import Uses
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.ops.control import Continue, For, If, Loop, LoopOp, ends_of
from tilewright.ir.ops.loops import CopyBuffer, LoopNest, ScratchPointer
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.ops.shape import Reshape
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
    elif isinstance(op, Reshape):
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
    """The buffers that hold something still needed, while the ops of a function are gone through in order.

    ``begin`` and ``end`` enclose each op, with those of the ops in its regions between them.
    """

    def __init__(self, function: Function) -> None:
        self._uses = Uses(function)
        self._buffers: dict[Value, tuple[int, int]] = {}  # offset and bytes, of the values that are live
        arrays = [op for op in function.walk() if isinstance(op, ScratchPointer)]
        self._arrays = {op.offset: op.bytes for op in arrays}  # of the kernel itself: it keeps their addresses

    def begin(self, op: Op) -> None:
        """The results of ``op`` have their buffers before it is done."""
        for r in op.results:
            if isinstance(r.type, TileType) and r.type.size > 1 and not isinstance(op, LoadView):
                self._buffers[r] = (buffer_offset(r), r.type.size * element_bytes(r.type.dtype))

    def end(self, op: Op) -> None:
        unused = [r for r in op.results if self._uses.remaining[r] == 0]
        for v in (*self._uses.complete(op), *unused):
            self._buffers.pop(v, None)

    def arena(self) -> Arena:
        """An arena that hands out what no live buffer takes."""
        taken = dict(self._arrays)
        for offset, size in self._buffers.values():
            taken[offset] = max(size, taken.get(offset, 0))
        return Arena(taken)
