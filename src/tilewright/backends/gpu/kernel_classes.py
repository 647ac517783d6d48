"""Kernels that this backend takes from another one, see ``composition``: each class is a predicate on the IR.

They look at what the front end made: a kernel without MMA ops is told from others by a walk, before any pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tilewright.analysis.gpu.target import GpuTarget, parse_target
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import depends, is_recurrent, mma_ops, operand_source
from tilewright.backends.base import Backend
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.hints import with_resolved_hints
from tilewright.backends.gpu.row_kernels import is_row_kernel as is_row_kernel
from tilewright.backends.gpu.row_kernels import is_row_kernel_in_pieces as is_row_kernel_in_pieces
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import DType, float32, int32
from tilewright.ir.ops.arith import Cast, Tanh
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.tma import Fetch
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, ROWS
from tilewright.ir.ops.linear import Mma, MmaOp
from tilewright.ir.ops.memory import Bid, Load, LoadView, MemoryOp, NumBlocks, Store, StoreView
from tilewright.transforms.base import Pass
from tilewright.transforms.gpu.choose_wgmma import Choice, ChooseWgmma, choose
from tilewright.transforms.gpu.legalize_mma import LegalizeMma
from tilewright.transforms.gpu.multicast_fetches import MulticastFetches
from tilewright.transforms.gpu.split_mma import SplitMma
from tilewright.transforms.gpu.transpose_mma import TransposeMma
from tilewright.transforms.pipelines import optimize, run_passes

# What was measured of each class is in benchmarks/results: gpu_products.md and gpu_attention.md.
_LARGE = 128 * 256  # accumulators of a tile
_COLUMNS = 64  # of tiles of persistent matmuls, at least
_COLUMNS_OF_BYTES = 128  # of 8 bits
_STEP = 64  # along K
_FEW_ROWS = (16, 32)
_STEP_OF_WORDS = 32  # of 32 bits
_SCALED_TILES = {(128, 128), (64, 128), (128, 64)}
# Of tfloat32: whether a loop over those of a block is around, and whether threads transpose right operands.
_TILES_OF_WORDS: dict[tuple[bool, bool], set[tuple[int, ...]]] = {
    (False, False): {(128, 256)},
    (False, True): {(128, 256)},
    (True, False): {(128, 128), (128, 256)},
    (True, True): {(64, 64), (128, 64), (64, 128), (128, 128), (128, 256)},
}
_ACROSS_K = 64  # rows and columns of tiles whose right operands threads transpose
_STRIP_COLUMNS = 16  # of what whole tiles leave, at most
_PART_COLUMNS = (32, 64)  # of MMA ops that are joined
_KEYS = {128: 128 * 128, 256: 128 * 64}  # of attention: the least elements of keys and of values, for so many queries
# For so many queries of such a width, in elements of so many bytes: fewer keys that are taken.
_FEW_KEYS = {(128, 128, 1): (32, 64), (128, 128, 2): (32, 64), (64, 256, 2): (64, 128), (128, 64, 2): (32, 128)}
_ONE_GROUP = (128, 32, 64)  # queries, keys and width of attention that one warp group computes
# Of its backward pass, for so many MMA ops of a loop: rows and columns of the scores, and the width.
_BACKWARD = {
    3: {(64, 64, 64), (128, 128, 64), (64, 64, 128), (128, 64, 128), (128, 128, 128)},
    4: {(64, 64, 64), (64, 128, 64), (64, 64, 128)},
}
_WIDTH = 256  # of the values of decoding attention, at least
_HINTS = {"num_ctas", "num_worker_warps"}  # which this backend honours as the other one does
_ATTENTION_HINTS = {*_HINTS, "occupancy"}  # two warp groups that multiply fill the registers of an SM on both


def is_large_matmul(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 16-bit floats in tiles of 128x256 or more."""
    found = _mmas(function, backend, bytes=2)
    if found is None or any(op.acc.tile.size < _LARGE for op in found.mmas):
        return False
    persistent = any(_is_in_persistent_loop(op) for op in found.mmas)
    return found.paired or not (persistent and found.multicast_pays)


def is_persistent_matmul(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies matrices of 16-bit floats in a loop over the tiles that are left to a block, in
    tiles of 64 columns or more; where rows are no whole sectors, if pairs of CTAs fetch them."""
    found = _mmas(function, backend, bytes=2)
    return found is not None and found.are_persistent(_COLUMNS)


def is_matmul_of_few_rows(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 16-bit floats, a tile of 16 or 32 rows and 64 columns or more
    in each block."""
    found = _mmas(function, backend, bytes=2, by_threads=(StoreView,))
    if found is None or found.multicast_pays or any(map(_is_in_persistent_loop, found.mmas)):
        return False
    # As they are multiplied: transposed.
    return all(op.acc.tile.shape[0] >= ROWS and op.acc.tile.shape[1] in _FEW_ROWS for op in found.mmas)


def is_scaled_matmul(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 8-bit floats along K, in tiles of 64x128 to 128x128, and adds
    what each step gives with a scale for each row, or for all, that threads load."""
    found = _mmas(function, backend, bytes=1, by_threads=(LoadView,))
    if found is None or any(op.acc.tile.shape not in _SCALED_TILES for op in found.mmas):
        return False
    return all(isinstance(op.parent, For) and min(op.results[0].tile.shape) == 1 for op in found.by_threads)


def is_linear_attention(function: Function, backend: Backend) -> bool:
    """Whether ``function`` is such of 16-bit floats: its loops multiply by the state that they carry, and add to it."""
    target = _target(backend)
    loops = [op for op in function.walk() if isinstance(op, For) and mma_ops(op)]
    likely = target.has_wgmma and bool(loops) and _are_all(function, 2) and all(map(is_recurrent, loops))
    return likely and _choice(function, target) is not None


def is_matmul_with_strips(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies matrices of 16-bit floats, whose rows are no whole sectors, in tiles of 128x256
    or more in a loop over those that are left to a block, which pairs of CTAs run, and what whole tiles leave in other
    loops, in strips of up to 16 columns; also in splits, whose sums threads store and load."""
    found = _mmas(function, backend, bytes=2, by_threads=(MemoryOp,))
    if found is None or not found.paired:
        return False
    inside = [_is_in_persistent_loop(op) and op.acc.tile.size >= _LARGE for op in found.mmas]
    strips = [op for op, is_inside in zip(found.mmas, inside) if not is_inside]
    return any(inside) and bool(strips) and all(op.acc.tile.shape[-1] <= _STRIP_COLUMNS for op in strips)


def is_matmul_of_parts(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies matrices of 16-bit floats in tiles of several parts side by side, of 32 or 64
    columns each, which are one MMA op of all columns."""
    found = _mmas(function, backend, bytes=2, by_threads=(Store, StoreView))
    if found is None or not (found.paired or not found.multicast_pays):
        return False
    blocks = [[op for op in found.mmas if op.block is block] for block in {op.block for op in found.mmas}]
    return all(len(ops) > 1 and len({op.acc.tile.shape for op in ops}) == 1 for ops in blocks) and all(
        op.acc.tile.shape[1] in _PART_COLUMNS for op in found.mmas
    )


def is_persistent_matmul_of_bytes(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 8-bit floats along K, with ``use_fast_acc``, in tiles of
    128x128 or more, in a loop over the tiles that are left to a block."""
    found = _mmas(function, backend, bytes=1)
    rows = found is not None and all(op.fast_acc and op.acc.tile.shape[0] >= _COLUMNS_OF_BYTES for op in found.mmas)
    return found is not None and rows and found.are_persistent(_COLUMNS_OF_BYTES)


def is_matmul_of_integers(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 8-bit integers in steps of 64 or more, and tiles of 128x128
    or more along K, of 64x64 where the right one lies along its rows."""
    found = _mmas(function, backend, bytes=1, sums=int32, across_k=True)
    least = _ACROSS_K if found is not None and found.across_k else _COLUMNS_OF_BYTES
    return found is not None and all(
        min(op.acc.tile.shape[-2:]) >= least and op.x.tile.shape[-1] >= _STEP for op in found.mmas
    )


def is_matmul_of_bytes_by_rows(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 8-bit floats, the right one along its rows, with
    ``use_fast_acc``, in steps of 64 or more and tiles of 64x64 or more."""
    found = _mmas(function, backend, bytes=1, across_k=True)
    if found is None or not found.across_k or not all(op.fast_acc for op in found.mmas):
        return False
    return all(min(*op.acc.tile.shape[-2:], op.x.tile.shape[-1]) >= _ACROSS_K for op in found.mmas)


def is_matmul_of_tfloat32(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 32-bit floats, rounded to tfloat32, in steps of 32: along K
    in tiles of 128x256; in a loop over those that are left to a block also of 128x128, and, where the right one lies
    along its rows, from 64x64 on."""
    found = _mmas(function, backend, bytes=4, across_k=True)
    if found is None or any(op.x.tile.shape[-1] != _STEP_OF_WORDS for op in found.mmas):
        return False
    tiles = _TILES_OF_WORDS[found.are_persistent(_ACROSS_K), found.across_k]
    return all(op.acc.tile.shape in tiles for op in found.mmas)


def is_attention(function: Function, backend: Backend) -> bool:
    """Whether ``function`` is the forward pass of attention of 16-bit floats, for blocks of 64 to 256 queries: loops
    of two MMA ops, the second one of weights that follow from the first one, each with 128x128 elements of keys or
    values or more, of 128x64 for 256 queries; without a soft cap, or of width 256, also with fewer keys, see
    ``_FEW_KEYS``. It may also
    store a number of each query."""
    return _attends(function, backend, bytes=2)


def is_attention_of_bytes(function: Function, backend: Backend) -> bool:
    """Whether ``function`` is the forward pass of attention of 8-bit floats, in tiles as ``is_attention`` says, with
    values that lie along their columns."""
    return _attends(function, backend, bytes=1)


def is_attention_of_sequences(function: Function, backend: Backend) -> bool:
    """Whether ``function`` is such attention of 16-bit floats over sequences that lie one after the other, or in pages:
    where they are is read, element by element."""
    return any(map(_is_element, function.walk())) and _attends(function, backend, bytes=2, sequences=True)


def _attends(function: Function, backend: Backend, *, bytes: int, sequences: bool = False) -> bool:
    target = _target(backend)
    loops = [mma_ops(op) for op in function.walk() if isinstance(op, For)]
    accesses = (LoadView, StoreView, Load, Store) if sequences else (LoadView, StoreView)
    likely = target.has_wgmma and _are_all(function, bytes, _ATTENTION_HINTS, accesses)
    if not (likely and all(map(_may_be_attention, filter(None, loops)))):
        return False
    by_threads = (lambda op: _is_element(op) or _stores(op)) if sequences else _stores_row_numbers
    found = _choice(function, target, (SplitMma(target), LegalizeMma()), by_threads)
    if found is None:
        return False
    optimized, chosen = found
    pairs = [mma_ops(op) for op in optimized.walk() if isinstance(op, For) and mma_ops(op)]
    inside = [op for pair in pairs for op in pair if isinstance(op, Mma)]
    return (
        set(chosen.mmas) == set(inside)
        and all(chosen.warps == _warps(*pair) for pair in pairs)
        and all(None not in chosen.mmas[op] for op in inside[::2])
        and all(chosen.mmas[op][0] is None for op in inside[1::2])
        and all((chosen.mmas[op][1] is None) == (bytes == 1) for op in inside[1::2])
    )


def _warps(scores: MmaOp, result: MmaOp) -> int:
    """As many as have 64 queries in each warp group; one group has 128 of width 64 with few keys."""
    (queries, keys), width = scores.acc.tile.shape[-2:], result.acc.tile.shape[-1]
    return GROUP_WARPS if (queries, keys, width) == _ONE_GROUP else queries // ROWS * GROUP_WARPS


def is_attention_backward(function: Function, backend: Backend) -> bool:
    """Whether ``function`` computes the gradient of queries, or those of keys and values, of attention of 16 bits in
    tiles of ``_BACKWARD``: loops of three or four MMA ops, the last one of what follows from two of the others."""
    target = _target(backend)
    loops = [ops for op in function.walk() if isinstance(op, For) and (ops := mma_ops(op))]
    likely = target.has_wgmma and bool(loops) and _are_all(function, 2) and all(map(_may_be_backward, loops))
    return likely and _choice(function, target, by_threads=lambda op: True) is not None


def _may_be_backward(mmas: Sequence[MmaOp]) -> bool:
    *others, last = mmas
    tile = *mmas[0].acc.tile.shape[-2:], last.acc.tile.shape[-1]
    return tile in _BACKWARD.get(len(mmas), ()) and sum(depends(last, op) for op in others) == 2


def is_latent_decoding(function: Function, backend: Backend) -> bool:
    """Whether ``function`` is decoding attention of 16-bit floats with keys along the rows and values of width 256 or
    more, all of which TMA loads: weights are the right operand of the last MMA op of a loop."""
    target = _target(backend)
    loops = [ops for op in function.walk() if isinstance(op, For) and (ops := mma_ops(op))]
    likely = target.has_wgmma and bool(loops) and _are_all(function, 2, _ATTENTION_HINTS, (LoadView, StoreView, Store))
    if not (likely and all(ops[-1].acc.tile.shape[0] >= _WIDTH and depends(ops[-1], ops[0]) for ops in loops)):
        return False
    found = _choice(function, target, by_threads=_stores)
    if found is None:
        return False
    return all(None not in pair or (pair[1] is None and pair[0] is not None) for pair in found[1].mmas.values())


def _may_be_attention(mmas: Sequence[MmaOp]) -> bool:
    if len(mmas) != 2 or not depends(mmas[1], mmas[0]):
        return False
    scores, result = mmas
    (queries, keys), width = scores.acc.tile.shape[-2:], scores.x.tile.shape[-1]
    few = _FEW_KEYS.get((queries, width, scores.x.tile.element.bytes), ())
    if result.acc.tile.shape[-2:] == (queries, width) and keys in few:
        assert scores.block is not None
        if width == _WIDTH or not any(isinstance(op, Tanh) for op in scores.block.ops):
            return True
    return all(op.y.tile.size >= _KEYS.get(op.acc.tile.shape[0], math.inf) for op in mmas)


@dataclass(frozen=True)
class _Found:
    """MMA ops, whether pairs of CTAs would pay, and whether there are such; what threads load and store, and whether
    they transpose right operands."""

    mmas: list[Mma]
    multicast_pays: bool
    paired: bool
    by_threads: list[Op]
    across_k: bool

    def are_persistent(self, columns: int) -> bool:
        wide = all(op.acc.tile.shape[-1] >= columns and _is_in_persistent_loop(op) for op in self.mmas)
        return wide and (self.paired or not self.multicast_pays)


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
    found = _choice(function, target, (TransposeMma(),), by_threads=lambda op: True)
    if found is None:
        return None
    optimized, chosen = found
    if any(x is None or (y is None and not _is_loaded(op.y)) for op, (x, y) in chosen.mmas.items()):
        return None
    paired = False
    if chosen.multicast_pays:
        fetching = run_passes(optimized, (ChooseWgmma(target), MulticastFetches()))
        paired = any(isinstance(op, Fetch) and op.both is not None for op in fetching.walk())
    across_k = any(y is None for _, y in chosen.mmas.values())
    return _Found(list(chosen.mmas), chosen.multicast_pays, paired, _left_to_threads(optimized, chosen), across_k)


def _target(backend: Backend) -> GpuTarget:
    assert isinstance(backend, GpuBackend)
    return parse_target(backend.architecture().removesuffix("a"))


def _choice(
    function: Function, target: GpuTarget, passes: Sequence[Pass] = (), by_threads: Callable[[Op], bool] | None = None
) -> tuple[Function, Choice] | None:
    """``function`` optimized, and after ``passes``, and what is chosen for it, where warp groups multiply all that are
    MMA ops, and TMA loads all that is read, but what threads convert for an MMA op, and stores all that is written,
    except for accesses that may be ``by_threads``; None otherwise."""
    optimized = run_passes(with_resolved_hints(optimize(function), target), passes)
    mmas = {op for op in optimized.walk() if isinstance(op, Mma)}
    chosen = AnalysisManager(optimized).get(choose, ChooseWgmma(target))
    allowed = (by_threads is not None and by_threads(op) for op in _left_to_threads(optimized, chosen))
    return (optimized, chosen) if chosen.mmas.keys() == mmas and all(allowed) else None


def _left_to_threads(optimized: Function, chosen: Choice) -> list[Op]:
    """What neither is loaded by TMA, or converted by threads for an MMA op, nor stored by TMA."""
    moved: set[Op | None] = {operand.load for pair in chosen.mmas.values() for operand in pair if operand is not None}
    moved |= {operand_source(op.y) for op, (_, y) in chosen.mmas.items() if y is None and _is_loaded(op.y)}
    return [op for op in optimized.walk() if isinstance(op, MemoryOp) and op not in moved | chosen.stores]


def _is_element(op: Op) -> bool:
    """Whether ``op`` loads a single element."""
    return isinstance(op, (Load, LoadView)) and op.result.tile.size == 1


def _stores(op: Op) -> bool:
    return isinstance(op, (Store, StoreView))


def _stores_row_numbers(op: Op) -> bool:
    """Whether ``op`` stores one number of each row, as the sums of weights."""
    return isinstance(op, (Store, StoreView)) and op.value.tile.size in op.value.tile.shape


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
