"""Where the tiles of the loop-level form are."""

from __future__ import annotations

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.ops.control import Break, For, If, Loop, LoopOp, Yield
from tilewright.ir.ops.loops import CopyBuffer, LoopNest
from tilewright.ir.ops.shape import Reshape


def buffer_offset(value: Value) -> int:
    """The offset in scratch memory of a tile of more than one element that is in a buffer. ValueError if it is not."""
    op = value.op
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


def passed_out(op: Loop | If) -> list[Value]:
    """What an end of a region of ``op`` passes as its results; nothing when no end does."""
    end = Yield if isinstance(op, If) else Break
    return next((found.operands for region in op.regions for found in _ends(region, end)), [])


def _ends(block: Block, end: type[Op]) -> list[Op]:
    """The ops of class ``end`` that leave the op around ``block``."""
    found = [block.terminator] if isinstance(block.terminator, end) else []
    if end is Break:
        for op in block.ops:
            if not isinstance(op, LoopOp):
                found += [f for region in op.regions for f in _ends(region, end)]
    return found
