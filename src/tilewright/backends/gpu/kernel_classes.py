"""Kernels that another backend takes from this one, see ``composition``: each class is a predicate on the IR.

They look at what the front end made: a kernel without MMA ops is told from others by a walk, before any pass.
"""

from __future__ import annotations

from tilewright.analysis.gpu.contiguity import Contiguity
from tilewright.analysis.gpu.target import GpuTarget, parse_target
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import is_factor, operand_source
from tilewright.backends.base import Backend
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.pipeline import optimized_for
from tilewright.ir.core import Function
from tilewright.ir.dtypes import float16
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.gpu.wgmma import ROWS
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.memory import Load
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.transforms.canonicalize import Canonicalize
from tilewright.transforms.expand_views import ExpandViews
from tilewright.transforms.gpu.layout_choice import widest_access
from tilewright.transforms.gpu.lower_views import LowerViews
from tilewright.transforms.gpu.pipeline_loads import COPY_BYTES
from tilewright.transforms.lower_packing import LowerPacking
from tilewright.transforms.pipelines import run_passes


def has_slower_mma(function: Function, backend: Backend) -> bool:
    """Whether ``function`` has MMA ops of floats that are no faster here: all of GPUs with a memory for accumulators,
    which only others use; on Hopper those that add in float16, and those whose right operand is converted from what
    threads gather, but none of a kernel with lists, which only here launches pass without a copy; on other GPUs those
    with operands that lie in memory so that threads load less than four bytes at once. See
    benchmarks/results/gpu_products.md."""
    mmas = function.ops_of(MmaOp)
    if not mmas or not all(op.x.tile.element.is_floating for op in mmas):
        return False
    assert isinstance(backend, GpuBackend)
    target = parse_target(backend.architecture().removesuffix("a"))
    if target.has_tensor_memory:
        return True
    if not target.has_wgmma:
        return _is_loaded_singly(function, target)
    if any(param.role == "table" for param in function.params):
        return False
    return any(map(_is_slower_on_hopper, optimized_for(function, target).ops_of(MmaOp)))


def _is_loaded_singly(function: Function, target: GpuTarget) -> bool:
    """Whether operands lie in memory so that no ``cp.async`` copies them."""
    passes = LowerPacking(), ExpandViews(), LowerViews(), Canonicalize()
    lowered = run_passes(optimized_for(function, target), passes)
    contiguity = AnalysisManager(lowered).get(Contiguity)
    loads = [op for op in lowered.walk() if isinstance(op, Load) and op.ptrs.tile.rank]
    operands = (op for op in loads if is_factor(op.result, (Permute, Reshape, Cast)))
    return any(widest_access(op, contiguity)[1] * op.ptrs.tile.pointee.bytes < COPY_BYTES[0] for op in operands)


def _is_slower_on_hopper(op: MmaOp) -> bool:
    """Whether ``op`` adds in float16, or threads convert its right operand of 16 bits from what they gather. Small ones
    are no slower."""
    if min(op.acc.tile.shape[-2:]) < ROWS:
        return False
    cast = isinstance(op.y.op, Cast) and op.y.tile.element.bytes == 2
    return op.acc.tile.element is float16 or (cast and isinstance(operand_source(op.y), Load))
