"""How many warps suit a kernel for which nobody said so: by the elements that each thread would hold."""

from __future__ import annotations

from tilewright.ir.core import Function, Op
from tilewright.ir.ops.linear import CombiningOp, MmaOp
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, Load, LoadView
from tilewright.ir.types import TileType

LANES = 32
_FEWEST, _MOST = 4, 32
# What a thread holds, chosen for the memory-bound kernels of benchmarks/gpu.py on an H100. With 16 elements it has two
# or more accesses of 16 bytes under way, and several CTAs fit on an SM. Where warps wait for each other in reductions,
# fewer are faster, GB/s: softmax of 8192 columns in bfloat16 with 4 warps 2,764, with 16 2,623; layer norm of 4096 with
# 4 2,814, with 8 2,653. With more columns registers do not suffice: 16384 with 4 1,850, with 16 2,600; 32768 with 16
# 1,997, with 32 1,858.
_ELEMENTS, _REDUCED_BYTES = 16, 128
_WARPS_OF_LONG_ROWS = 16
_ACCUMULATORS = 128


def suitable_warps(function: Function) -> int:
    """A power of two from 4 to 32."""
    products = [op for op in function.walk() if isinstance(op, MmaOp)]
    if products:
        largest = max(op.results[0].tile.size for op in products)
        return 4 if largest <= 4 * LANES * _ACCUMULATORS else 8
    largest = max((_kept(op) for op in function.walk()), default=0)
    if any(isinstance(op, CombiningOp) for op in function.walk()):
        bytes_ = max(max((_loaded_bytes(op) for op in function.walk()), default=0), largest)
        fits = (w for w in (_FEWEST, _WARPS_OF_LONG_ROWS) if bytes_ <= w * LANES * _REDUCED_BYTES)
        return next(fits, _MOST)
    warps = _FEWEST
    while warps < _MOST and largest > warps * LANES * _ELEMENTS:
        warps *= 2
    return warps


def _kept(op: Op) -> int:
    """The elements of the largest result of ``op`` that stays in registers: indices and addresses are recomputed."""
    memory = isinstance(op, (Load, LoadView, AtomicRmw, AtomicCas))
    tiles = [r.type for r in op.results if isinstance(r.type, TileType) and not r.type.is_pointer]
    return max((t.size for t in tiles if memory or t.element.is_floating or t.element.bitwidth < 32), default=0)


def _loaded_bytes(op: Op) -> int:
    t = op.results[0].type if isinstance(op, (Load, LoadView)) else None
    return t.size * t.element.bytes if isinstance(t, TileType) and not t.is_pointer else 0
