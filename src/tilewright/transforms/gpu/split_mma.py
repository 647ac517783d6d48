"""Kernels whose MMA ops need more registers than two warp groups have, or pay in more CTAs, are divided among these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import depends, mma_loops, mma_ops, operand_source
from tilewright.ir.core import Block, Function
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, ROWS
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Load, LoadView
from tilewright.transforms.gpu.tile_splitting import cluster_size, divide
from tilewright.transforms.gpu.wgmma_choice import MOST_ACCUMULATORS, MOST_GROUPS, MOST_WORDS

# Elements of the keys of a step, for so many MMA ops, and of gradients: benchmarks/results/gpu_attention.md.
_FEW_KEYS = {2: 128 * 64, 3: 64 * 64}
_FEW_GRADIENTS = 128 * 64
_MOST_CTAS = 8  # the largest cluster that every GPU with clusters launches


@dataclass(frozen=True)
class SplitMma:
    """Halves the tiles of a kernel until its MMA ops are for two warp groups; provides ``cluster_size``.

    Attention over 256 queries is that over 128 in two CTAs then, which a cluster runs side by side, and that over 128
    with few keys is that over 64, of which an SM holds as many as overlap. A kernel that cannot be divided so far stays
    whole. Runs on optimized Tile IR, before anything that depends on the sizes of tiles.
    """

    name: ClassVar[str] = "split-mma"
    target: GpuTarget

    def run(self, function: Function) -> Function:
        if not self.target.has_wgmma:
            return function
        part, ctas = function, 1
        while (needed := _need_too_much(part)) or _pay_apart(part):
            half = divide(part, 2)
            if half.blocks == 1 or ctas == _MOST_CTAS:
                if needed:
                    return function
                break
            part, ctas = half.function, 2 * ctas
        if ctas > 1:
            part.hints["num_ctas"] = 1  # a pair has no mate to share loads with
            AnalysisManager(part).provide(cluster_size, ctas)
        return part


def _need_too_much(function: Function) -> bool:
    """Whether accumulators of MMA ops, with the left operand that one has in registers, do not fit in those of the warp
    groups that there are rows for."""
    mmas: dict[Block | None, list[Mma]] = defaultdict(list)
    for op in function.ops_of(Mma):
        mmas[op.block].append(op)
    return any(map(_is_too_much, mmas.values()))


def _pay_apart(function: Function) -> bool:
    """Whether all MMA ops of ``function`` are those of attention, or of the gradients of its queries, over more rows
    than a warp group has, in steps of few keys, whose numbers follow from the loop: then the threads that multiply load
    for themselves."""
    if function.hints.get("occupancy") == 1 or any(
        isinstance(op, (Load, LoadView)) and op.result.tile.size == 1 for op in function.walk()
    ):
        return False
    found = function.ops_of(Mma)
    chains = [mma_ops(loop) for loop in mma_loops(function)]
    return sum(map(len, chains)) == len(found) > 0 and all(
        all(depends(chain[-1], op) for op in chain[:-1])
        and all(op.acc.tile.shape[-2] > ROWS and op.x.tile.element.bytes == 2 for op in chain)
        and chain[0].y.tile.size <= _FEW_KEYS.get(len(chain), 0)
        and (len(chain) == 2 or chain[-1].acc.tile.size <= _FEW_GRADIENTS)
        for chain in chains
    )


def _is_too_much(mmas: list[Mma]) -> bool:
    """Whether ``mmas`` of one block need more registers than a thread has beside other things."""
    largest = max(op.acc.tile.bytes // 4 for op in mmas)
    return largest > MOST_ACCUMULATORS * _threads(mmas) or words_beside(mmas) > MOST_WORDS


def words_beside(mmas: Sequence[Mma]) -> int:
    """Registers of a thread of the warp groups that there are rows for, for the accumulators of ``mmas``, those of one
    block, and the left operand that one has in registers."""
    loaded = [op for op in mmas if isinstance(operand_source(op.x), LoadView)]  # to shared memory
    computed = max((op.x.tile.bytes for op in mmas if op not in loaded), default=0)
    return (sum(op.acc.tile.bytes for op in mmas) + computed) // (4 * _threads(mmas))


def groups_of(mmas: Sequence[Mma]) -> int:
    """How many warp groups there are rows for in ``mmas`` of one block."""
    return max(min(min(op.acc.tile.shape[-2] for op in mmas) // ROWS, MOST_GROUPS), 1)


def _threads(mmas: Sequence[Mma]) -> int:
    return LANES * GROUP_WARPS * groups_of(mmas)
