"""Kernels that another backend takes from this one, see ``composition``: each class is a predicate on the IR.

They look at what the front end made: a kernel without MMA ops is told from others by a walk, before any pass.
"""

from __future__ import annotations

from tilewright.analysis.gpu.target import GpuTarget, parse_target
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import depends, is_factor, mma_loops, mma_ops
from tilewright.backends.base import Backend
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.hints import with_resolved_hints
from tilewright.ir.core import Function
from tilewright.ir.dtypes import float32, float64
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.wgmma import ROWS
from tilewright.ir.ops.linear import Mma, MmaOp, MmaScaled
from tilewright.ir.ops.memory import Load, LoadView
from tilewright.transforms.gpu.legalize_mma import LegalizeMma
from tilewright.transforms.gpu.lowering import reshaped
from tilewright.transforms.gpu.split_mma import SplitMma
from tilewright.transforms.gpu.split_steps import SplitSteps
from tilewright.transforms.gpu.transpose_mma import TransposeMma
from tilewright.transforms.gpu.wgmma_choice import Options, choose
from tilewright.transforms.pipelines import optimize, run_passes

# Of gradients of attention, for so many MMA ops of a loop and widths: rows and columns of scores in small steps.
_SMALL_STEPS = {
    (3, 64): {(64, 32), (128, 32)},
    (3, 128): {(64, 32)},
    (4, 64): {(128, 32)},
    (4, 128): {(64, 32), (128, 32)},
}
_SMALL_IN_LOOPS = {(4, 128): {(64, 64)}}  # of keys that heads of queries share
_LARGE_SCORES, _NARROW = 128, 64  # rows and columns, and the width, with which threads load a bias of 16 bits as fast


def is_slower_attention(function: Function, backend: Backend) -> bool:
    """Whether ``function`` is attention of 16-bit floats whose threads load tiles beside the scores, such as masks, but
    those of 16 bits beside large ones, or its backward pass in small steps. See benchmarks/results/gpu_attention.md."""
    return any(_has_small_steps(loop) or _loads_beside_scores(loop) for loop in mma_loops(function))


def _has_small_steps(loop: For) -> bool:
    mmas = mma_ops(loop)
    *others, last = mmas
    scores, form = mmas[0].acc.tile.shape[-2:], (len(mmas), last.acc.tile.shape[-1])
    small = {*_SMALL_STEPS.get(form, ()), *(_SMALL_IN_LOOPS.get(form, ()) if isinstance(loop.parent, For) else ())}
    return last.x.tile.element.bytes == 2 and scores in small and sum(depends(last, op) for op in others) == 2


def _loads_beside_scores(loop: For) -> bool:
    mmas = mma_ops(loop)
    first, last = mmas[0], mmas[-1]
    if last.x.tile.element.bytes != 2 or len(mmas) != 2 or not depends(last, first):
        return False
    large = min(first.acc.tile.shape[-2:]) >= _LARGE_SCORES and last.acc.tile.shape[-1] <= _NARROW
    loads = [op for op in loop.body.walk() if isinstance(op, (Load, LoadView)) and not is_factor(op.result)]
    beside = [op.result.tile.element.bytes for op in loads if op.result.tile.size == first.acc.tile.size]
    return any(not (large and size == 2) for size in beside)


def has_slower_mma(function: Function, backend: Backend) -> bool:
    """Whether ``function`` has MMA ops of floats that are no faster here, or were not measured: of GPUs without those
    of warp groups, of scaled operands, of all bits of float32 and float64, of operands that threads load or convert,
    and small ones of 8 bits. See benchmarks/results/gpu_products.md."""
    mmas = [op for op in function.walk() if isinstance(op, MmaOp)]
    if not all(op.x.tile.element.is_floating for op in mmas):
        return False
    assert isinstance(backend, GpuBackend)
    target = parse_target(backend.architecture().removesuffix("a"))
    exact = any(isinstance(op, MmaScaled) or op.x.tile.element in (float32, float64) for op in mmas)
    return bool(mmas) and (exact or not target.has_wgmma or _is_left_to_threads(function, target))


def _is_left_to_threads(function: Function, target: GpuTarget) -> bool:
    """Whether warp groups do not multiply all MMA ops, which may be divided and transposed for them, but for small ones
    of 16 bits, or threads convert an operand beside one that is loaded."""
    optimized = with_resolved_hints(optimize(function), target)
    divided = reshaped(run_passes(optimized, (SplitMma(target), SplitSteps())), TransposeMma())
    divided = run_passes(divided, (LegalizeMma(),))
    chosen = AnalysisManager(divided).get(choose, Options(target, realign=True)).mmas
    for op in divided.walk():
        if isinstance(op, Mma) and op not in chosen:
            if op.x.tile.element.bytes == 1 or min(op.acc.tile.shape[-2:]) >= ROWS:
                return True
        elif isinstance(op, Mma) and isinstance(op.y.op, Cast) and op.y.tile.element.bytes == 2:
            left, right = chosen[op]
            if left is not None and right is None:
                return True
    return False
