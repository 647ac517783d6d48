"""Rows that are reduced are divided among the CTAs of a cluster, which exchange what each has reduced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.gpu.target import GpuTarget, resolved
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function, Op
from tilewright.ir.gpu_stage import GRID_EXTENT, SHORT_ROWS
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.ops.linear import MmaOp, Reduce
from tilewright.ir.ops.memory import Bid, Load, LoadView, Store, StoreView
from tilewright.ir.reachable import reachable
from tilewright.transforms.gpu.tile_splitting import cluster_size
from tilewright.transforms.gpu.tile_splitting.demand import STORES, Axis, CannotSplit, Division
from tilewright.transforms.gpu.tile_splitting.split import is_independent, keep_their_order
from tilewright.transforms.gpu.tile_splitting.splitter import TileSplitter
from tilewright.transforms.pipelines import optimize, run_passes
from tilewright.transforms.raise_to_views import RaiseToViews

# Elements of a row, which one CTA holds, of 16 bits: with several or wider ones that are loaded it divides these, too.
# On an H200 gradients of softmax of so many columns have 4,275 GB/s divided and 4,046 whole, softmax of float32 4,042
# and 3,988, layer norm of bfloat16 3,903 and 4,039; others are in benchmarks/results/gpu_memory.md.
_LARGE, _ELEMENT = 16384, 2
_LARGE_IN_LOOPS = 32768  # where loops exchange in each iteration: the persistent softmax of that length loses
# Elements; more where several vectors are loaded beside each row, as often as there are parts of them in caches: norms
# of 28,672 columns in two passes have 3,857 GB/s in two parts and 3,601 in eight, layer norm of 65,536 3,632 in four
# and 3,569 in eight (one H200).
_PART, _PART_WITH_VECTORS = 4096, 16384
# Of a part, and of a row, where an SM has no other block: 16 rows of 4,096 take longer divided, 8 of 8,192 a tenth
# less, 8 of 16,384 a fifth to a third (one H200).
_LEAST, _FEWEST_OF_ROW = 2048, 8192
_LEAST_OF_STEP = 512  # and in loops over the pieces of a row, if these exchange nothing in each step
MOST_CTAS = 8  # CTAs of a cluster that every GPU with clusters launches


@dataclass(frozen=True)
class DivideRows:
    """Divides rows of more than ``large`` elements among as many CTAs as have ``part`` elements each, or among
    ``ctas``; provides ``cluster_size``.

    Each CTA loads, reduces, computes and stores its part, and keeps it in registers meanwhile: all of them exchange
    what reductions give (``gpu.cluster_gather``). What a block stores whole, such as what it has reduced, the first CTA
    stores. For kernels without MMA ops that store to nothing that they load, if nothing needs a row whole. Runs on
    optimized Tile IR, in front of what depends on the sizes of tiles.
    """

    name: ClassVar[str] = "divide-rows"
    target: GpuTarget
    ctas: int = 0
    large: int = _LARGE
    part: int = _PART

    def run(self, function: Function) -> Function:
        asked = resolved(function.hints.get("num_ctas"), self.target)
        if not self.target.has_tma or asked == 1 or function.ops_of(MmaOp):
            return function
        if AnalysisManager(function).get(cluster_size) > 1:
            return function
        row = max((_length(op) for op in function.ops_of(Reduce)), default=0)
        ctas = self.ctas or asked or self._unasked(function, row)
        splitter = _splitter(function, row, ctas) if 1 < ctas <= row else None
        if splitter is None:
            return function
        divided = optimize(splitter.function())
        AnalysisManager(divided).provide(cluster_size, ctas)
        return divided

    def _unasked(self, function: Function, row: int) -> int:
        """Among how many CTAs rows are divided where nobody says it: a power of two, and 1 where they stay whole."""
        own, vectors = _loads(function, row)
        whole, large, part = row, self.large, self.part
        if function.ops_of(LoopOp):
            large = max(large, _LARGE_IN_LOOPS)
        elif row == large:
            whole = sum(op.results[0].tile.bytes for op in own) // _ELEMENT
        elif len(vectors) > 1:
            part = max(part, _PART_WITH_VECTORS)
        return 1 << min(row // part, MOST_CTAS).bit_length() >> 1 if whole > large else 1


def _loads(function: Function, row: int) -> tuple[list[Op], list[Op]]:
    """The loads of rows of a block, and those of vectors as long that all blocks load."""
    own: list[Op] = []
    vectors: list[Op] = []
    for op in function.ops_of((Load, LoadView)):
        if row in op.results[0].tile.shape:
            needed = reachable(op.operands, lambda v: () if v.op is None else v.op.operands)
            (own if any(isinstance(v.op, Bid) for v in needed) else vectors).append(op)
    return own, vectors


def _length(op: Reduce) -> int:
    return op.values[0].tile.shape[op.axis]


def divisions(function: Function, target: GpuTarget) -> tuple[int, ...]:
    """Among how many CTAs rows may be divided where each has an SM for itself, the most first."""
    row = max((_length(op) for op in function.ops_of(Reduce)), default=0)
    looped = bool(function.ops_of(LoopOp))
    found = tuple(n for n in (8, 4, 2) if row >= n * (_LEAST_OF_STEP if looped else _LEAST))
    hints = function.hints.keys() - {GRID_EXTENT, SHORT_ROWS}
    if not target.has_tma or hints or function.ops_of(MmaOp) or (not looped and row < _FEWEST_OF_ROW):
        return ()
    return found if found and _splitter(function, row, found[0]) is not None else ()


def may_divide(function: Function, target: GpuTarget) -> bool:
    """Whether long rows of ``function`` are divided without being asked."""
    row = max((_length(op) for op in function.ops_of(Reduce)), default=0)
    whole = not target.has_tma or resolved(function.hints.get("num_ctas"), target) == 1
    return not whole and _splitter(function, row, 2) is not None


def _splitter(function: Function, row: int, ctas: int) -> TileSplitter | None:
    """What writes ``function`` for each of so many ``ctas`` that have parts of rows of this length; None where these
    would have to know what others have loaded or stored."""
    axes = _axes(function, row)
    if not keep_their_order(function, axes):  # in a loop tiles of views follow each other, and others may not
        function = run_passes(function, (RaiseToViews(),))
        axes = _axes(function, row)
    if not is_independent(function) or not keep_their_order(function, axes):
        return None
    across = {op for op in function.ops_of(Reduce) if _length(op) == row}
    try:
        splitter = TileSplitter(function, axes, Division(ctas, across))
    except CannotSplit:
        return None
    loaded = [op.results[0] for op in function.ops_of((Load, LoadView)) if row in op.results[0].tile.shape]
    return None if any(None in splitter.needs.of(v) for v in loaded) else splitter


def _axes(function: Function, row: int) -> dict[Store | StoreView, Axis]:
    """The axis of rows in each tile that ``function`` stores; None if there is none."""
    shapes = {op: op.value.tile.shape for op in function.walk() if isinstance(op, STORES)}
    return {op: shape.index(row) if row in shape else None for op, shape in shapes.items()}
