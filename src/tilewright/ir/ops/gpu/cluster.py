"""Clusters of CTAs, which read and write shared memory of each other. PTX ISA, "Cluster".

The CTAs of a cluster are neighbours along the first axis of the grid: n c to n c + c - 1, where there are c; their
*ranks* are 0 to c - 1. In clusters of two for TMA multicast each one's *mate* is the other one, and a launch whose grid
has an odd width has none: then a CTA is its own mate.
"""

from __future__ import annotations

import math

from tilewright.ir.core import Op, Value
from tilewright.ir.layouts import REGISTER, LinearLayout, log2
from tilewright.ir.opdef import GPU_OPS, Effect, attribute, define, operand, operands, optional_operand
from tilewright.ir.ops.gpu.barriers import barrier
from tilewright.ir.ops.gpu.memory import READ_WRITE, shared
from tilewright.ir.ops.gpu.tiles import distributed
from tilewright.ir.ops.rules import require, tile
from tilewright.ir.types import I32, TileType, Type

MOST_CTAS_OF_CLUSTER = 16  # CUDA C++ Programming Guide, "Thread Block Clusters": on sm_90, if a launch allows it


@define("gpu.cluster_size", table=GPU_OPS)
class ClusterSize(Op):
    """How many CTAs the cluster has: 2, or 1 where a CTA is alone."""

    def infer(self) -> tuple[Type, ...]:
        return (I32,)


@define("gpu.cluster_barrier", effect=READ_WRITE, table=GPU_OPS)
class ClusterBarrier(Op):
    """All threads of all CTAs wait for each other, those that tiles are not distributed over, too.

    Before the first one, or the first ``gpu.cluster_wait``, nobody reaches memory of another CTA, and after the last
    one nobody does any more.
    """


@define("gpu.cluster_arrive", effect=READ_WRITE, table=GPU_OPS)
class ClusterArrive(Op):
    """The first half of a ``gpu.cluster_barrier``: all threads say that they are here, and go on. Others know nothing
    of what they have done but that mbarriers were made."""


@define("gpu.cluster_wait", effect=READ_WRITE, table=GPU_OPS)
class ClusterWait(Op):
    """The second half: all threads wait until those of all CTAs have arrived."""


@define("gpu.cluster_gather", table=GPU_OPS)
class ClusterGather(Op):
    """For each of ``values`` the tiles that the ``ctas`` of the cluster have, by rank along a new first axis.

    All CTAs run it equally often, and each gets all of them. Each thread has in registers what all CTAs have of its
    elements.
    """

    values: list[Value] = operands()
    ctas: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        require(self.ctas in (2, 4, 8, MOST_CTAS_OF_CLUSTER), self, "{} CTAs", self.ctas)
        require(self.values, self, "needs at least one tile")
        return tuple(_gathered(tile(self, v), self.ctas) for v in self.values)


def _gathered(t: TileType, ctas: int) -> TileType:
    return t.with_shape((ctas, *t.shape)) if t.layout is None else t.with_layout(gathered_layout(t.layout, ctas))


def gathered_layout(layout: LinearLayout, ctas: int) -> LinearLayout:
    """``layout`` of a tile with those of all ``ctas`` along a new first axis, in further registers."""
    size = math.prod(layout.shape)
    registers = (*layout.bases(REGISTER), *(size << i for i in range(log2(ctas))))
    return LinearLayout((ctas, *layout.shape), layout.dims).with_bases(REGISTER, registers)


@define("gpu.cluster_store", effect=Effect.WRITE, table=GPU_OPS)
class ClusterStore(Op):
    """Stores ``value`` to the place of this CTA in ``buffer`` of each CTA of the cluster: at its rank along the first
    axis, which has as many elements as the cluster has CTAs. Others read it after a ``gpu.cluster_barrier``, or if
    ``barrier`` is the mbarrier of each CTA that expects its bytes, of words of 32 or 64 bits, when that is complete.

    One of the threads that hold an element stores it to all of them, whichever that is.
    """

    buffer: Value = operand()
    value: Value = operand()
    barrier: Value | None = optional_operand()

    def infer(self) -> tuple[Type, ...]:
        if self.barrier is not None:
            barrier(self, self.barrier)
            require(self.value.tile.element.bytes >= 4, self, "{} with a barrier", self.value.tile)
        t, (v, _) = shared(self, self.buffer), distributed(self, self.value)
        ctas = t.shape[0] if t.shape else 0
        require(ctas in (2, 4, 8, MOST_CTAS_OF_CLUSTER), self, "{} CTAs", ctas)
        fits = (t.dtype, t.shape, t.copies) == (v.dtype, (ctas, *v.shape), 1)
        require(fits and t.layout == LinearLayout.row_major(t.shape), self, "{} to {}", v, t)
        return ()
