"""The rules of the loop-level form beyond those of every IR."""

from __future__ import annotations

from tilewright.backends.cpu.loops.fused import accessed_views
from tilewright.backends.cpu.loops.kinds import is_array_tile, is_fusible
from tilewright.backends.cpu.loops.pack_panels import panel_bytes, state_bytes
from tilewright.backends.cpu.loops.placement import buffer_offset
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, LoopOp, Return, Yield
from tilewright.ir.ops.loops import CheckLoad, CopyBuffer, LoopNest, ReserveScratch, ScratchPointer
from tilewright.ir.ops.memory import Assert, Bid, LoadView, MakePartitionView, MakeTensorView, NumBlocks, Print
from tilewright.ir.ops.shape import Pack, Reshape, Unpack
from tilewright.ir.types import TileType
from tilewright.ir.verifier import VerificationError

_OUTSIDE = (
    *(Assert, Bid, CheckLoad, CopyBuffer, For, If, LoadView, Loop, LoopNest, MakePartitionView, MakeTensorView),
    *(NumBlocks, Pack, Print, ReserveScratch, Reshape, ScratchPointer, Unpack, Break, Continue, Return, Yield),
)


def verify_loop_form(function: Function) -> None:
    """Raise VerificationError unless ``function``, which is well-formed IR, is in the loop-level form."""
    first = function.body.ops[0]
    if not isinstance(first, ReserveScratch):
        raise VerificationError("does not begin with reserve_scratch", first)
    _Verifier(first.bytes).block(function.body, [])


class _Verifier:
    def __init__(self, scratch_bytes: int) -> None:
        self.scratch_bytes = scratch_bytes

    def block(self, block: Block, around: list[Op]) -> None:
        for op in block.ops:
            self.outside(op, around)
            if isinstance(op, LoopNest):
                self.nest(op)
            elif isinstance(op, (For, Loop, If)):
                for region in op.regions:
                    self.block(region, [*around, op])

    def outside(self, op: Op, around: list[Op]) -> None:
        large = [v for v in op.results if _is_large(v)]
        if not isinstance(op, _OUTSIDE) and (large or not is_fusible(op)):
            raise VerificationError(f"{op.name} has to be in a nest", op)
        if isinstance(op, (Yield, Continue, Break)):
            self.ends(op, around)
        if isinstance(op, CopyBuffer):
            self.fits(op, op.offset, op.result)

    def ends(self, op: Op, around: list[Op]) -> None:
        """What a slot is to hold next has to be in its buffer."""
        if isinstance(op, Yield):
            slots = around[-1].results
        else:
            loop = next(o for o in reversed(around) if isinstance(o, LoopOp))
            slots = loop.carried if isinstance(op, Continue) else loop.results
        for slot, value in zip(slots, op.operands):
            if _is_large(value) and self.offset(op, slot) != self.offset(op, value):
                raise VerificationError(f"passes {value!r} in another buffer than that of its slot", op)

    def nest(self, nest: LoopNest) -> None:
        *body, end = nest.body.ops
        for op in body[:-1]:
            if not is_fusible(op) or is_array_tile(op.result):
                raise VerificationError(f"{op.name} cannot be fused into a nest", op)
        for result, offset in zip(nest.results, nest.buffers):
            if offset is not None:
                self.fits(nest, offset, result)
            elif _is_large(result):
                raise VerificationError(f"{result!r} needs a buffer", nest)
        inside = {r for op in body for r in op.results}
        for op in (*body, end):
            for v in op.operands:
                if _is_large(v) and v not in inside and not is_array_tile(v):
                    self.offset(nest, v)
        self.versions(nest)
        if nest.panels:
            self.panels(nest)
        if any(not 0 <= offset < self.scratch_bytes for offset in (*nest.scratch, *nest.copies) if offset is not None):
            raise VerificationError(f"uses more than the {self.scratch_bytes} bytes of scratch memory", nest)

    def panels(self, nest: LoopNest) -> None:
        offset, count = nest.panels
        if nest.block is None or not isinstance(nest.block.parent, For) or len(nest.results) != 1:
            raise VerificationError("keeps panels outside of a for loop, or of several tiles", nest)
        if offset + state_bytes(nest) + count * panel_bytes(nest) > self.scratch_bytes:
            raise VerificationError(f"keeps panels outside of the {self.scratch_bytes} bytes of scratch memory", nest)

    @staticmethod
    def versions(nest: LoopNest) -> None:
        """Once they are chosen, there is one for whatever the checks at run time find."""
        clipped = [op for op in accessed_views(nest) if not all(op.promised)]
        if nest.versions and (clipped or nest.unmasked) and "bounds_checked" not in nest.versions:
            raise VerificationError("has no loops with bounds checks", nest)
        if nest.versions and nest.copies and "on_copies" not in nest.versions:
            raise VerificationError("has no loops that read copies", nest)

    def offset(self, op: Op, value: Value) -> int:
        try:
            return buffer_offset(value)
        except ValueError as e:
            raise VerificationError(str(e), op) from None

    def fits(self, op: Op, offset: int, value: Value) -> None:
        end = offset + value.tile.size * element_bytes(value.tile.dtype)
        if not 0 <= offset < end <= self.scratch_bytes:
            raise VerificationError(f"{value!r} is outside of the {self.scratch_bytes} bytes of scratch memory", op)


def _is_large(value: Value) -> bool:
    return isinstance(value.type, TileType) and value.type.size > 1
