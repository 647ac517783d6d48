"""Kernels that another backend takes from this one, see ``composition``: each class is a predicate on the IR.

They look at what the front end made: a kernel without MMA ops is told from others by a walk, before any pass.
"""

from __future__ import annotations

from tilewright.analysis.gpu.target import GpuTarget, parse_target
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.base import Backend
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.hints import with_resolved_hints
from tilewright.ir.core import Function
from tilewright.ir.dtypes import float32
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.gpu.wgmma import ROWS
from tilewright.ir.ops.linear import Mma, MmaOp, MmaScaled
from tilewright.transforms.gpu.legalize_mma import LegalizeMma
from tilewright.transforms.gpu.lowering import reshaped
from tilewright.transforms.gpu.split_mma import SplitMma
from tilewright.transforms.gpu.split_steps import SplitSteps
from tilewright.transforms.gpu.transpose_mma import TransposeMma
from tilewright.transforms.gpu.wgmma_choice import Options, choose
from tilewright.transforms.pipelines import optimize, run_passes


def has_slower_mma(function: Function, backend: Backend) -> bool:
    """Whether ``function`` has MMA ops of floats that are no faster here, or were not measured: of GPUs without those
    of warp groups, of scaled operands, of all bits of float32, of operands of 16 bits that threads gather or convert,
    and small ones of 8 bits; but none of a kernel with lists for warp groups, as only here launches pass these without
    a copy. See benchmarks/results/gpu_products.md."""
    mmas = [op for op in function.walk() if isinstance(op, MmaOp)]
    if not all(op.x.tile.element.is_floating for op in mmas):
        return False
    assert isinstance(backend, GpuBackend)
    target = parse_target(backend.architecture().removesuffix("a"))
    if target.has_wgmma and any(param.role == "table" for param in function.params):
        return False
    exact = any(isinstance(op, MmaScaled) or op.x.tile.element is float32 for op in mmas)
    return bool(mmas) and (exact or not target.has_wgmma or _is_left_to_threads(function, target))


def _is_left_to_threads(function: Function, target: GpuTarget) -> bool:
    """Whether warp groups do not multiply all MMA ops, which may be divided and transposed for them, but for small ones
    of 16 bits, or threads gather one of 16 bits or convert one beside one that is loaded."""
    optimized = with_resolved_hints(optimize(function), target)
    divided = reshaped(run_passes(optimized, (SplitMma(target), SplitSteps())), TransposeMma())
    divided = run_passes(divided, (LegalizeMma(),))
    choice = AnalysisManager(divided).get(choose, Options(target, realign=True))
    for op in divided.walk():
        if isinstance(op, Mma) and op not in choice.mmas:
            if op.x.tile.element.bytes == 1 or min(op.acc.tile.shape[-2:]) >= ROWS:
                return True
        elif isinstance(op, Mma) and op.y.tile.element.bytes == 2:
            left, right = choice.mmas[op]
            converted = isinstance(op.y.op, Cast) and left is not None and right is None
            if converted or op in choice.gathered:
                return True
    return False
