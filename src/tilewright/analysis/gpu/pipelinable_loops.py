"""Loops without MMA ops whose loads are pipelined: those that pass over an array, such as persistent kernels over rows.

Triton pipelines MMA loops by itself, and others with as many stages as they are marked with: with n, the tiles
of n - 1 iterations are in shared memory or on the way. With two no load is on the way while the tile before is used.
On an H200 three stages save most of the waiting where there are few blocks, and cost little where there are many; four
are better while all tiles are small, and take the place of other blocks where they are not. Where the loop carries
nothing, fewer warps than the tiles ask for otherwise leave room for more blocks. In a loop of a few iterations the way
through shared memory costs more than it saves; that is known when the kernel runs, which has the loop in both variants.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.analysis.gpu.lowering_plan import PipelineDepth
from tilewright.analysis.gpu.target import GpuTarget, resolved
from tilewright.analysis.gpu.tma_descriptors import plan_lowering
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.trip_counts import max_trip_count
from tilewright.ir.core import Function, Op
from tilewright.ir.ops.control import For, LoopOp
from tilewright.ir.ops.linear import CombiningOp, MmaOp
from tilewright.ir.ops.memory import Load, LoadView, StoreView
from tilewright.ir.types import TileType

# Chosen for the kernels without MMA ops of benchmarks/gpu.py; others: benchmarks/results/gpu_constants.md.
_FEW_STAGES, _STAGES = 3, 4
_LEAST_BYTES = 1 << 10  # of one iteration: for less it is not worth the instructions
_FEW_BYTES = 1 << 13  # of the tiles that pass through shared memory in an iteration, for the deeper pipeline
_FEW_ITERATIONS, _FEW_IN_ALL = 8, 1 << 15  # of a loop that is not pipelined, and bytes that all of them load
_BLOCKS = 8  # of an SM that can have it
_HEAVY = 6  # a latency that asks for the deeper pipeline


@dataclass(frozen=True)
class PipelinableLoop:
    """A loop of at most ``trip_count`` iterations, each of which loads ``loads`` bytes that are pipelined; ``stores``
    bytes leave through shared memory. ``latency`` is the largest hint of its loads."""

    loop: Op
    trip_count: int
    loads: int
    stores: int
    latency: int | None

    @property
    def few_iterations(self) -> int:
        """The number of iterations up to which pipelining does not pay."""
        return max(_FEW_ITERATIONS, _FEW_IN_ALL // self.loads)


def find_pipelinable_loops(
    function: Function, target: GpuTarget, *, descriptors: bool, realign: bool
) -> list[PipelinableLoop]:
    """The loops of ``function`` whose loads may be pipelined, in a kernel without MMA ops for an NVIDIA GPU."""
    if not target.is_cuda or any(isinstance(op, MmaOp) for op in function.walk()):
        return []
    facts = AnalysisManager(function).get(IntegerRanges)
    plan = AnalysisManager(function).get(plan_lowering, target, descriptors, realign)
    loops = (op for op in function.walk() if isinstance(op, For) and op not in plan.unpipelined)
    innermost = (loop for loop in loops if _is_innermost(loop) and not carries_reductions(loop))
    pipelinable = (_pipelinable_loop(loop, max_trip_count(facts, loop), plan.descriptors, target) for loop in innermost)
    return [candidate for candidate in pipelinable if candidate.loads >= _LEAST_BYTES]


def carries_reductions(loop: For) -> bool:
    """Whether iterations fold tiles and hand on values, as an online softmax does: the threads of a block wait for each
    other at each fold, and other blocks fill the gaps better than loads that are pipelined."""
    return bool(loop.results) and any(isinstance(op, CombiningOp) for op in loop.body.ops)


def _is_innermost(loop: For) -> bool:
    return not any(isinstance(op, LoopOp) for op in loop.body.walk())


def _pipelinable_loop(loop: For, trip_count: int, by_tma: Collection[Op], target: GpuTarget) -> PipelinableLoop:
    loads = [op for op in loop.body.ops if isinstance(op, (Load, LoadView))]
    loads = [op for op in loads if op.is_weak]
    stores = [op for op in loop.body.ops if isinstance(op, StoreView) and op in by_tma]
    hints = [resolved(op.latency, target) for op in loads]
    return PipelinableLoop(
        loop,
        trip_count,
        sum(_bytes(op.result.tile) for op in loads),
        sum(_bytes(op.value.tile) for op in stores),
        max((hint for hint in hints if hint is not None), default=None),
    )


def _bytes(tile: TileType) -> int:
    return tile.size * (64 if tile.is_pointer else max(8, tile.element.bitwidth)) // 8


def choose_num_stages(
    pipelinable: Sequence[PipelinableLoop], target: GpuTarget, given: Mapping[str, Any]
) -> dict[Op, PipelineDepth]:
    """The stages of the loops: those ``given``, or as many as hints and tiles ask for where there are many iterations.
    Loops with one stage, or with few iterations, are left out."""
    if "num_stages" in given:
        found = {candidate.loop: PipelineDepth(given["num_stages"], 0) for candidate in pipelinable}
    else:
        found = {
            s.loop: PipelineDepth(_stages(s, target), s.few_iterations)
            for s in pipelinable
            if s.trip_count > s.few_iterations
        }
    return {loop: depth for loop, depth in found.items() if depth.stages > 1}


def prefers_few_warps(function: Function, depths: Mapping[Op, PipelineDepth]) -> bool:
    """Whether few warps are enough for the loops: those with pipeline ``depths`` carry nothing, or there are only such
    as hand on reductions, which fewer warps do sooner."""
    carrying = any(isinstance(op, For) and _is_innermost(op) and carries_reductions(op) for op in function.walk())
    return bool(depths or carrying) and not any(loop.results for loop in depths)


def _stages(candidate: PipelinableLoop, target: GpuTarget) -> int:
    """The deeper pipeline only where it leaves room for other blocks, and for the cache."""
    if candidate.latency is not None:
        deep = candidate.latency >= _HEAVY
    else:
        deep = candidate.loads + candidate.stores <= _FEW_BYTES
    return _STAGES if deep and (_STAGES - 1) * candidate.loads <= target.shared_memory // _BLOCKS else _FEW_STAGES


def reduce_stages(depths: Mapping[Op, PipelineDepth]) -> dict[Op, PipelineDepth]:
    """What to try next where that does not fit."""
    return {loop: PipelineDepth(n - 1, few) for loop, (n, few) in depths.items() if n > _FEW_STAGES}
