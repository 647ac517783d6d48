"""Clusters of two CTAs, which read and write shared memory of each other. PTX ISA, "Cluster".

The CTAs of a cluster are neighbours along the first axis of the grid: 2 n and 2 n + 1. Each one's *mate* is the other
one. A launch whose grid has an odd width has no clusters: then a CTA is its own mate.
"""

from __future__ import annotations

from tilewright.ir.core import Op
from tilewright.ir.opdef import GPU_OPS, define
from tilewright.ir.ops.gpu.memory import READ_WRITE
from tilewright.ir.types import I32, Type


@define("gpu.cluster_size", table=GPU_OPS)
class ClusterSize(Op):
    """How many CTAs the cluster has: 2, or 1 where a CTA is alone."""

    def infer(self) -> tuple[Type, ...]:
        return (I32,)


@define("gpu.cluster_barrier", effect=READ_WRITE, table=GPU_OPS)
class ClusterBarrier(Op):
    """All threads of both CTAs wait for each other, those that tiles are not distributed over, too.

    Before the first one nobody reaches memory of the mate, and after the last one nobody does any more.
    """
