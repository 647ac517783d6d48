"""Barriers in shared memory (mbarriers): those who arrive and those who wait need not be the same threads.

An mbarrier counts phases. A phase is complete when as many have arrived as were announced, and all bytes that it
expects. Who waits names the parity of a phase: it waits until the phase of that parity is complete, that is until the
current one has the other parity. PTX ISA, "mbarrier".
"""

from __future__ import annotations

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import uint64
from tilewright.ir.layouts import LinearLayout
from tilewright.ir.opdef import GPU_OPS, attribute, define, operand, optional_operand
from tilewright.ir.ops.gpu.memory import READ_WRITE, shared
from tilewright.ir.ops.rules import require, scalar_integer, tile
from tilewright.ir.types import SharedType, Type

_MOST_ARRIVALS, _MOST_BYTES = (1 << 20) - 1, (1 << 20) - 1


def barriers_type(count: int) -> SharedType:
    """The type of ``count`` mbarriers."""
    return SharedType(uint64, LinearLayout.row_major((1,)), count)


def barrier(op: Op, value: Value) -> SharedType:
    """The type of ``value``, which must be one mbarrier."""
    t = shared(op, value)
    require(t == barriers_type(1), op, "{} is no mbarrier", t)
    return t


def require_mask(op: Op, mask: Value | None) -> None:
    """Require that ``mask`` is a truth value, if there is one."""
    if mask is not None:
        t = tile(op, mask)
        require(not t.rank and t.element.is_bool, op, "mask {}", t)


@define("gpu.mbarrier_init", effect=READ_WRITE, table=GPU_OPS)
class MbarrierInit(Op):
    """The first thread makes mbarriers of all copies of ``barriers``, of which each phase awaits ``count`` arrivals.

    Others use them after a barrier of the CTA.
    """

    barriers: Value = operand()
    count: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        t = shared(self, self.barriers)
        require(t == barriers_type(t.copies), self, "{} are no mbarriers", t)
        require(0 < self.count <= _MOST_ARRIVALS, self, "{} arrivals", self.count)
        return ()


@define("gpu.mbarrier_expect", effect=READ_WRITE, table=GPU_OPS)
class MbarrierExpect(Op):
    """One thread arrives, where ``mask`` is true, and the current phase expects ``bytes`` more."""

    barrier: Value = operand()
    mask: Value | None = optional_operand()
    bytes: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        barrier(self, self.barrier)
        require_mask(self, self.mask)
        require(0 < self.bytes <= _MOST_BYTES, self, "{} bytes", self.bytes)
        return ()


@define("gpu.mbarrier_arrive", effect=READ_WRITE, table=GPU_OPS)
class MbarrierArrive(Op):
    """One thread of each warp group arrives, where ``mask`` is true: what its warps did before has happened.

    With ``cluster`` it arrives twice, at this barrier and at that at the same address of the mate.
    """

    barrier: Value = operand()
    mask: Value | None = optional_operand()
    cluster: bool = attribute(bool, default=False)

    def infer(self) -> tuple[Type, ...]:
        barrier(self, self.barrier)
        require_mask(self, self.mask)
        return ()


@define("gpu.mbarrier_wait", effect=READ_WRITE, table=GPU_OPS)
class MbarrierWait(Op):
    """Each thread waits until the phase with this ``parity`` (0 or 1) is complete."""

    barrier: Value = operand()
    parity: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        barrier(self, self.barrier)
        scalar_integer(self, self.parity)
        return ()


@define("gpu.group_barrier", effect=READ_WRITE, table=GPU_OPS)
class GroupBarrier(Op):
    """The threads of each warp group wait for each other, and see what those stored before."""


@define("gpu.take_turn", effect=READ_WRITE, table=GPU_OPS)
class TakeTurn(Op):
    """Waits until it is the turn of this warp group, of two that issue MMA ops in ping-pong. The first one begins."""


@define("gpu.pass_turn", effect=READ_WRITE, table=GPU_OPS)
class PassTurn(Op):
    """Passes the turn in a ping-pong to the other warp group. With ``first`` only the last group does, once,
    so that the first one begins."""

    first: bool = attribute(bool, default=False)
