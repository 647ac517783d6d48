"""The stages of passes that prepare a function for a GPU, after ``optimize``, and why in this order.

Between them a backend decides something: the size of the cluster, the number of warps.
"""

from __future__ import annotations

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.transforms.base import Pass
from tilewright.transforms.gpu.fma_contraction import ContractFma
from tilewright.transforms.gpu.lower_reports import LowerReports
from tilewright.transforms.gpu.sink_loads import SinkLoads
from tilewright.transforms.gpu.tile_splitting import SplitTiles


def split_for_gpu(target: GpuTarget, *, unasked: bool) -> tuple[Pass, ...]:
    """First: all that follows depends on the sizes of tiles."""
    return (SplitTiles(target, unasked),)


def prepare_for_gpu(target: GpuTarget, *, sink_loads: bool) -> tuple[Pass, ...]:
    """What does not depend on the number of warps."""
    passes: list[Pass] = [
        LowerReports(),  # after the split, which leaves alone what reports; it makes accesses like others
        ContractFma(target),  # after the split, which looks for MMA ops; before what counts ops
    ]
    if sink_loads:
        passes.append(SinkLoads())  # last of those that move loads
    return tuple(passes)
