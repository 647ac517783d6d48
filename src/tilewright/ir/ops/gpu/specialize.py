"""Warps with different work."""

from __future__ import annotations

from types import NoneType

from tilewright.ir.core import Block, Op
from tilewright.ir.opdef import GPU_OPS, attribute, define, region
from tilewright.ir.ops.rules import region_args, require
from tilewright.ir.types import Type

_STEP, _LEAST, _MOST = 8, 24, 256  # setmaxnreg: PTX ISA


@define("gpu.warp_specialize", table=GPU_OPS)
class WarpSpecialize(Op):
    """The warps that tiles are distributed over run ``consumer``, one thread of ``producer_warps`` more ``producer``.

    The end of both is awaited by nobody: nothing but the end of the function follows, or a ``gpu.cluster_barrier``.
    With ``registers`` threads of the producer keep as many of their registers as the first number says, and those of
    the consumers get the second.
    """

    producer_warps: int = attribute(int, default=4)
    registers: tuple[int, int] | None = attribute(tuple, NoneType, default=None)
    consumer: Block = region()
    producer: Block = region()

    def infer(self) -> tuple[Type, ...]:
        require(self.producer_warps > 0, self, "{} warps", self.producer_warps)
        if self.registers is not None:
            fits = all(_LEAST <= n <= _MOST and n % _STEP == 0 for n in self.registers) and len(self.registers) == 2
            require(fits, self, "registers {}", self.registers)
        region_args(self, self.consumer, ())
        region_args(self, self.producer, ())
        return ()
