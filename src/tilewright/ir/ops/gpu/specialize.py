"""Warps with different work."""

from __future__ import annotations

from types import NoneType

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.layouts import WARP, LinearLayout
from tilewright.ir.opdef import GPU_OPS, attribute, define, operand, region
from tilewright.ir.ops.gpu.memory import READ_WRITE, shared
from tilewright.ir.ops.gpu.tiles import with_layout
from tilewright.ir.ops.rules import region_args, require
from tilewright.ir.types import TileType, Type

_STEP, _LEAST, _MOST = 8, 24, 256  # setmaxnreg: PTX ISA
STAGING_WARPS = 2  # that run a stager: of those of a producer


@define("gpu.warp_specialize", table=GPU_OPS)
class WarpSpecialize(Op):
    """The warps that tiles are distributed over run ``consumer``, one thread of ``producer_warps`` more ``producer``;
    the first two of these ``stager``, which brings tiles into the order of operands, where there is one.

    The end of all is awaited by nobody: nothing but the end of the function follows, or a ``gpu.cluster_barrier``.
    With ``registers`` threads of the producer keep as many of their registers as the first number says, and those of
    the consumers get the second.
    """

    producer_warps: int = attribute(int, default=4)
    registers: tuple[int, int] | None = attribute(tuple, NoneType, default=None)
    consumer: Block = region()
    producer: Block = region()
    stager: Block | None = region(optional=True)

    def infer(self) -> tuple[Type, ...]:
        least = 1 if self.stager is None else STAGING_WARPS + 1
        require(self.producer_warps >= least, self, "{} warps", self.producer_warps)
        if self.registers is not None:
            fits = all(_LEAST <= n <= _MOST and n % _STEP == 0 for n in self.registers) and len(self.registers) == 2
            require(fits, self, "registers {}", self.registers)
        for block in self.regions:
            region_args(self, block, ())
        return ()


@define("gpu.restage", effect=READ_WRITE, table=GPU_OPS)
class Restage(Op):
    """The warps of a stager put the tile in ``source`` into ``target``: what a thread has in registers as ``read``, it
    writes as ``written``. Then they wait for each other, and MMA ops see it."""

    source: Value = operand()
    target: Value = operand()
    read: TileType = attribute(TileType)
    written: TileType = attribute(TileType)

    def infer(self) -> tuple[Type, ...]:
        source, target = shared(self, self.source), shared(self, self.target)
        for t, held in ((source, self.read), (target, self.written)):
            _, layout = with_layout(self, held)
            once = layout.is_injective and layout.is_surjective
            fits = (t.dtype, t.shape, t.copies) == (held.dtype, held.shape, 1) and once
            require(fits and layout.size(WARP) == STAGING_WARPS, self, "{} as {}", t, held)
        require(source.dtype is target.dtype, self, "{} as {}", source, target)
        return ()

    @property
    def offsets(self) -> tuple[LinearLayout, LinearLayout]:
        """Where in ``source`` and in ``target`` the elements of each thread lie."""
        of = ((self.source, self.read), (self.target, self.written))
        read, written = (shared(self, v).layout.invert_and_compose(with_layout(self, held)[1]) for v, held in of)
        return read, written
