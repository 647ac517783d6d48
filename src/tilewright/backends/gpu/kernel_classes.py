"""Kernels that this backend takes from another one, see ``composition``: each class is a predicate on the IR.

They look at what the front end made: a kernel without MMA ops is told from others by a walk, before any pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tilewright.analysis.gpu.target import GpuTarget, parse_target
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import are_independent, depends, mma_loops, mma_ops, operand_source
from tilewright.backends.base import Backend
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.hints import with_resolved_hints
from tilewright.backends.gpu.row_kernels import is_row_kernel as is_row_kernel
from tilewright.backends.gpu.row_kernels import is_row_kernel_in_pieces as is_row_kernel_in_pieces
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import DType, float32, int32
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.tma import Fetch
from tilewright.ir.ops.gpu.wgmma import ROWS
from tilewright.ir.ops.linear import Mma, MmaOp
from tilewright.ir.ops.memory import Bid, Load, LoadView, MemoryOp, NumBlocks, StoreView
from tilewright.transforms.gpu.choose_wgmma import ChooseWgmma
from tilewright.transforms.gpu.legalize_mma import LegalizeMma
from tilewright.transforms.gpu.lowering import reshaped
from tilewright.transforms.gpu.multicast_fetches import MulticastFetches
from tilewright.transforms.gpu.split_mma import SplitMma
from tilewright.transforms.gpu.split_steps import SplitSteps
from tilewright.transforms.gpu.transpose_mma import TransposeMma
from tilewright.transforms.gpu.wgmma_choice import Choice, Options, choose
from tilewright.transforms.pipelines import optimize, run_passes

# What was measured of each class is in benchmarks/results: gpu_products.md and gpu_attention.md.
_COLUMNS_OF_BYTES = 128  # of 8 bits
_STEP_OF_WORDS = 32  # of 32 bits
_SCALED_TILES = {(128, 128), (64, 128), (128, 64)}
# Of tfloat32: whether a loop over those of a block is around, and whether threads transpose right operands.
_TILES_OF_WORDS: dict[tuple[bool, bool], set[tuple[int, ...]]] = {
    (False, False): {(128, 256)},
    (False, True): {(128, 256)},
    (True, False): {(128, 128), (128, 256)},
    (True, True): {(64, 64), (128, 64), (64, 128), (128, 128), (128, 256)},
}
_LEAST_OF_BYTES = 64  # rows, columns and steps of tiles
# Of the backward pass of attention: rows or columns of the scores, and what is slower, for so many MMA ops of a loop
# and widths; of keys that heads of queries share, too.
_BACKWARD_EXTENTS = {32, 64, 128}
_SLOW_BACKWARD = {
    (3, 64): {(32, 32), (64, 32), (128, 32)},
    (3, 128): {(32, 32), (64, 32)},
    (4, 64): {(32, 32)},
    (4, 128): {(32, 32), (64, 32)},
}
_SLOW_IN_LOOPS = {(4, 128): {(64, 64)}}
_LARGE_SCORES, _WIDTH_OF_LARGE = 128, 64  # rows and columns, and the width, with which threads load a bias
_NARROW = 32  # columns of heads
_HINTS = {"num_ctas", "num_worker_warps"}  # which this backend honours as the other one does
_ATTENTION_HINTS = {*_HINTS, "occupancy"}  # two warp groups that multiply fill the registers of an SM on both


def _is_little(op: Op) -> bool:
    """Whether threads may do that: stores, and loads of a number for each row or outside of loops with MMA ops."""
    inside = isinstance(op.parent, For) and mma_ops(op.parent)
    return not (isinstance(op, (Load, LoadView)) and inside) or op.result.tile.size in (1, *op.result.tile.shape)


def _is_little_or_bias(op: Op) -> bool:
    """Whether threads may do that beside large scores: load numbers of 16 bits that are added to them, too."""
    return _is_little(op) or (isinstance(op, (Load, LoadView)) and op.result.tile.element.bytes == 2)


def is_scaled_matmul(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 8-bit floats along K, in tiles of 64x128 to 128x128, and adds
    what each step gives with a scale for each row, or for all, that threads load."""
    found = _mmas(function, backend, bytes=1, by_threads=(LoadView,))
    if found is None or any(op.acc.tile.shape not in _SCALED_TILES for op in found.mmas):
        return False
    return all(isinstance(op.parent, For) and min(op.results[0].tile.shape) == 1 for op in found.by_threads)


def is_persistent_matmul_of_bytes(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 8-bit floats along K, with ``use_fast_acc``, in tiles of
    128x128 or more, in a loop over the tiles that are left to a block."""
    found = _mmas(function, backend, bytes=1)
    rows = found is not None and all(op.fast_acc and op.acc.tile.shape[0] >= _COLUMNS_OF_BYTES for op in found.mmas)
    return found is not None and rows and found.are_persistent(_COLUMNS_OF_BYTES)


def is_matmul_of_integers(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 8-bit integers in steps of 64 or more, and tiles of 64x64 or
    more."""
    found = _mmas(function, backend, bytes=1, sums=int32, across_k=True)
    return found is not None and all(
        min(*op.acc.tile.shape[-2:], op.x.tile.shape[-1]) >= _LEAST_OF_BYTES for op in found.mmas
    )


def is_matmul_of_bytes_by_rows(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 8-bit floats, the right one along its rows, with
    ``use_fast_acc``, in steps of 64 or more and tiles of 64x64 or more."""
    found = _mmas(function, backend, bytes=1, across_k=True)
    if found is None or not found.across_k or not all(op.fast_acc for op in found.mmas):
        return False
    return all(min(*op.acc.tile.shape[-2:], op.x.tile.shape[-1]) >= _LEAST_OF_BYTES for op in found.mmas)


def is_matmul_of_tfloat32(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 32-bit floats, rounded to tfloat32, in steps of 32: along K
    in tiles of 128x256; in a loop over those that are left to a block also of 128x128, and, where the right one lies
    along its rows, from 64x64 on."""
    found = _mmas(function, backend, bytes=4, across_k=True)
    if found is None or any(op.x.tile.shape[-1] != _STEP_OF_WORDS for op in found.mmas):
        return False
    tiles = _TILES_OF_WORDS[found.are_persistent(_LEAST_OF_BYTES), found.across_k]
    return all(op.acc.tile.shape in tiles for op in found.mmas)


def is_attention_of_bytes(function: Function, backend: Backend) -> bool:
    """Whether ``function`` is the forward pass of attention of 8-bit floats: loops of two MMA ops, the second one of
    weights that follow from the first one, all of which warp groups multiply."""
    loops = mma_loops(function)
    pairs = [mma_ops(loop) for loop in loops]
    chained = all(len(pair) == 2 and depends(pair[1], pair[0]) for pair in pairs)
    return bool(loops) and chained and _is_multiplied(function, backend, bytes=1)


def is_product_of_16_bits(function: Function, backend: Backend) -> bool:
    """Whether all MMA ops of ``function`` are of 16-bit floats, and warp groups multiply them: matmuls and attention.
    TMA loads what they multiply, in pairs of CTAs where rows are no whole sectors, and threads load no more in their
    loops than a number for each row or column; gradients are in tiles that were measured. Attention of few queries of
    width 32 is among them, though ``mma.sync`` multiplies it."""
    groups = [mma_ops(loop) for loop in mma_loops(function)]
    if groups and all(map(_is_narrow, groups)):
        return _target(backend).has_wgmma and _are_all(function, 2, _ATTENTION_HINTS)
    stays = any(map(_is_slower, groups)) or not all(map(_may_be_backward, groups))
    by_threads = _is_little_or_bias if all(map(_has_large_scores, groups)) else _is_little
    return not stays and _is_multiplied(function, backend, by_threads, bytes=2)


def _is_multiplied(
    function: Function, backend: Backend, by_threads: Callable[[Op], bool] = _is_little, *, bytes: int
) -> bool:
    target = _target(backend)
    loops = mma_loops(function)
    honoured = _HINTS if are_independent([mma_ops(loop) for loop in loops]) else _ATTENTION_HINTS
    if not (target.has_wgmma and _are_all(function, bytes, honoured, (MemoryOp,))):
        return False
    found = _choice(function, target, divided=True, by_threads=by_threads)
    return found is not None and (not found[1].multicast_pays or _are_paired(found[0], target))


def _has_large_scores(mmas: Sequence[MmaOp]) -> bool:
    """Whether ``mmas``, those of a loop, are attention of narrow heads with many queries and keys in a step."""
    first, last = mmas[0], mmas[-1]
    large = min(first.acc.tile.shape[-2:]) >= _LARGE_SCORES and last.acc.tile.shape[-1] <= _WIDTH_OF_LARGE
    return len(mmas) == 2 and depends(last, first) and large


def _is_slower(mmas: Sequence[MmaOp]) -> bool:
    """Whether ``mmas``, those of a loop, have tiles that were measured as slower here."""
    first, last = mmas[0], mmas[-1]
    tile, step = first.acc.tile.shape[-2:], first.x.tile.shape[-1]
    if len(mmas) == 2:
        return tile == (64, 64) and not depends(last, first)
    persistent = _is_in_persistent_loop(first)
    return len(mmas) == 1 and (tile == (256, 32) or (*tile, step) == (64, 64, 32) or (persistent and tile == (128, 32)))


def _is_narrow(mmas: Sequence[MmaOp]) -> bool:
    """Whether ``mmas``, those of a loop, are attention with fewer rows and columns than a warp group has rows."""
    first, last = mmas[0], mmas[-1]
    narrow = first.acc.tile.shape[-2] < ROWS and last.acc.tile.shape[-1] <= _NARROW
    return len(mmas) == 2 and depends(last, first) and narrow


def _may_be_backward(mmas: Sequence[MmaOp]) -> bool:
    """Whether ``mmas`` are none of a backward pass, whose last one follows from two others, or of a fast one."""
    *others, last = mmas
    if sum(depends(last, op) for op in others) != 2:
        return True
    scores, form = mmas[0].acc.tile.shape[-2:], (len(mmas), last.acc.tile.shape[-1])
    if form not in _SLOW_BACKWARD or not set(scores) <= _BACKWARD_EXTENTS or scores in _SLOW_BACKWARD[form]:
        return False
    loop = last.parent
    return not (loop is not None and isinstance(loop.parent, For) and scores in _SLOW_IN_LOOPS.get(form, ()))


@dataclass(frozen=True)
class _Found:
    """MMA ops, what threads load and store, and whether they transpose right operands."""

    mmas: list[Mma]
    by_threads: list[Op]
    across_k: bool

    def are_persistent(self, columns: int) -> bool:
        return all(op.acc.tile.shape[-1] >= columns and _is_in_persistent_loop(op) for op in self.mmas)


def _mmas(
    function: Function,
    backend: Backend,
    *,
    bytes: int,
    sums: DType = float32,
    by_threads: tuple[type[Op], ...] = (),
    across_k: bool = False,
) -> _Found | None:
    """The MMA ops of ``function``, where warp groups multiply all, and TMA loads all that it reads and stores all that
    it writes, except for accesses ``by_threads``, and right operands ``across_k``; None otherwise."""
    if not _multiplies(function, bytes, sums, (LoadView, StoreView, *by_threads)):
        return None
    target = _target(backend)
    if not target.has_wgmma:
        return None
    found = AnalysisManager(function).get(_found, target)  # once for all classes
    if found is None or (found.across_k and not across_k):
        return None
    return found if all(isinstance(op, by_threads) for op in found.by_threads) else None


def _found(function: Function, target: GpuTarget) -> _Found | None:
    found = _choice(function, target, by_threads=lambda op: True)
    if found is None:
        return None
    optimized, chosen = found
    if any(x is None or (y is None and not _is_loaded(op.y)) for op, (x, y) in chosen.mmas.items()):
        return None
    across_k = any(y is None for _, y in chosen.mmas.values())
    return _Found(list(chosen.mmas), _left_to_threads(optimized, chosen), across_k)


def _are_paired(optimized: Function, target: GpuTarget) -> bool:
    """Whether pairs of CTAs fetch what both of them need."""
    fetching = run_passes(optimized, (ChooseWgmma(target), MulticastFetches()))
    return any(isinstance(op, Fetch) and op.both is not None for op in fetching.walk())


def _target(backend: Backend) -> GpuTarget:
    assert isinstance(backend, GpuBackend)
    return parse_target(backend.architecture().removesuffix("a"))


def _choice(
    function: Function, target: GpuTarget, by_threads: Callable[[Op], bool], *, divided: bool = False
) -> tuple[Function, Choice] | None:
    """``function`` optimized, and what is chosen for it, where warp groups multiply all that are MMA ops, which may be
    ``divided`` and transposed for them, and TMA loads all that is read, but what threads convert for an MMA op, and
    stores all that is written, except for accesses that may be ``by_threads``; None otherwise."""
    optimized = with_resolved_hints(optimize(function), target)
    if divided:
        optimized = reshaped(run_passes(optimized, (SplitMma(target), SplitSteps())), TransposeMma())
        optimized = run_passes(optimized, (LegalizeMma(),))
    mmas = {op for op in optimized.walk() if isinstance(op, Mma)}
    chosen = AnalysisManager(optimized).get(choose, Options(target))
    allowed = all(map(by_threads, _left_to_threads(optimized, chosen)))
    return (optimized, chosen) if chosen.mmas.keys() == mmas and allowed else None


def _left_to_threads(optimized: Function, chosen: Choice) -> list[Op]:
    """What neither is loaded by TMA, or converted by threads for an MMA op, nor stored by TMA."""
    moved: set[Op | None] = {operand.load for pair in chosen.mmas.values() for operand in pair if operand is not None}
    moved |= {operand_source(op.y) for op, (_, y) in chosen.mmas.items() if y is None and _is_loaded(op.y)}
    return [op for op in optimized.walk() if isinstance(op, MemoryOp) and op not in moved | chosen.stores]


def _multiplies(function: Function, bytes: int, sums: DType, accesses: tuple[type[Op], ...]) -> bool:
    """Whether ``function`` has MMA ops of loaded numbers of so many bytes, and no others, nor other ``accesses``."""
    mmas = [op for op in function.walk() if isinstance(op, Mma)]
    return _are_all(function, bytes, accesses=accesses, sums=sums) and all(
        _is_loaded(op.x) and _is_loaded(op.y) for op in mmas
    )


def _are_all(
    function: Function,
    bytes: int,
    honoured: Collection[str] = _HINTS,
    accesses: tuple[type[Op], ...] = (LoadView, StoreView),
    sums: DType = float32,
) -> bool:
    """Whether MMA ops of numbers of so many bytes, floats or integers as their ``sums``, are all that ``function`` has,
    no hints but ``honoured`` ones, and no other ``accesses`` to memory."""
    mmas = [op for op in function.walk() if isinstance(op, Mma)]
    types = {op.x.tile.element for op in mmas}
    return (
        bool(mmas)
        and function.hints.keys() <= set(honoured)
        and function.hints.get("num_ctas") in (None, 1)
        and all(isinstance(t, DType) and t.is_floating == sums.is_floating and t.bytes == bytes for t in types)
        and all(op.acc.tile.element is sums for op in mmas)
        and all(isinstance(op, accesses) for op in function.walk() if isinstance(op, MemoryOp))
    )


def _is_loaded(value: Value) -> bool:
    """Whether an operand is what was loaded, seen otherwise. Attention is told from MMA ops by that."""
    return isinstance(operand_source(value), LoadView)


def _is_in_persistent_loop(op: Op) -> bool:
    """Whether a loop from the number of the block on, in steps of the number of blocks, is around that of ``op``."""
    inner = op.parent
    outer = inner.parent if isinstance(inner, For) else None
    return isinstance(outer, For) and _is(outer.bounds[0], Bid) and _is(outer.bounds[2], NumBlocks)


def _is(value: Value, kind: type[Bid | NumBlocks]) -> bool:
    while isinstance(value.op, Cast):
        value = value.op.x
    return isinstance(value.op, kind)
