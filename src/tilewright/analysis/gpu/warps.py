"""How many warps suit a kernel for which nobody said so: by the elements that each thread would hold."""

from __future__ import annotations

from tilewright.ir.core import Function, Op
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, Load, LoadView
from tilewright.ir.types import TileType

LANES = 32
_FEWEST, _MOST = 4, 32
# Chosen for the memory-bound kernels of benchmarks/gpu.py: a thread has two or more accesses of 16 bytes under way, and
# several CTAs fit on an SM.
_ELEMENTS = 16
_ACCUMULATORS = 128


def suitable_warps(function: Function) -> int:
    """A power of two from 4 to 32."""
    products = [op for op in function.walk() if isinstance(op, MmaOp)]
    if products:
        largest = max(op.results[0].tile.size for op in products)
        return 4 if largest <= 4 * LANES * _ACCUMULATORS else 8
    largest = max((_kept(op) for op in function.walk()), default=0)
    warps = _FEWEST
    while warps < _MOST and largest > warps * LANES * _ELEMENTS:
        warps *= 2
    return warps


def _kept(op: Op) -> int:
    """The elements of the largest result of ``op`` that stays in registers: indices and addresses are recomputed."""
    memory = isinstance(op, (Load, LoadView, AtomicRmw, AtomicCas))
    tiles = [r.type for r in op.results if isinstance(r.type, TileType) and not r.type.is_pointer]
    return max((t.size for t in tiles if memory or t.element.is_floating or t.element.bitwidth < 32), default=0)
