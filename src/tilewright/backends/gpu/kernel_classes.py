"""Kernels that another backend takes from this one, see ``composition``: each class is a predicate on the IR.

They look at what the front end made: a kernel without MMA ops is told from others by a walk, before any pass.
"""

from __future__ import annotations

from tilewright.analysis.gpu.contiguity import Contiguity
from tilewright.analysis.gpu.target import GpuTarget, parse_target
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import is_factor
from tilewright.backends.base import Backend
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.pipeline import optimized_for
from tilewright.ir.core import Function
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.memory import Load
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.transforms.canonicalize import Canonicalize
from tilewright.transforms.expand_views import ExpandViews
from tilewright.transforms.gpu.layout_choice import widest_access
from tilewright.transforms.gpu.lower_views import LowerViews
from tilewright.transforms.gpu.operand_loads import COPY_BYTES
from tilewright.transforms.lower_packing import LowerPacking
from tilewright.transforms.pipelines import run_passes


def has_slower_mma(function: Function, backend: Backend) -> bool:
    """Whether ``function`` has MMA ops of floats that are no faster here: all of GPUs with a memory for accumulators,
    which only others use; none on Hopper; on other GPUs those with operands of bytes that lie in memory so that threads
    load less than four at once. See benchmarks/results/gpu_products.md."""
    mmas = function.ops_of(MmaOp)
    if not mmas or not all(op.x.tile.element.is_floating for op in mmas):
        return False
    assert isinstance(backend, GpuBackend)
    target = parse_target(backend.architecture().removesuffix("a"))
    return target.has_tensor_memory or (not target.has_wgmma and _is_loaded_singly(function, target))


def _is_loaded_singly(function: Function, target: GpuTarget) -> bool:
    """Whether operands of 8 bits lie in memory so that no ``cp.async`` copies them."""
    passes = LowerPacking(), ExpandViews(), LowerViews(), Canonicalize()
    lowered = run_passes(optimized_for(function, target), passes)
    contiguity = AnalysisManager(lowered).get(Contiguity)
    loads = [op for op in lowered.walk() if isinstance(op, Load) and op.ptrs.tile.rank]
    operands = (op for op in loads if is_factor(op.result, (Permute, Reshape, Cast)))
    return any(op.ptrs.tile.pointee.bytes == 1 and widest_access(op, contiguity)[1] < COPY_BYTES[0] for op in operands)
