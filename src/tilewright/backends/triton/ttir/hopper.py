"""MMA ops on Hopper: operands that pass through registers, and results that the TMA unit stores in pieces.

The tensor cores of Hopper read float32 words from shared memory along K only. An operand of tfloat32 that lies along M
or N in memory must pass through registers, and only the left one can stay there: with such an operand on the right, the
MMA op of the transposed operands is computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tilewright.analysis.gpu.tma_descriptors import LoweringPlan
from tilewright.backends.triton.ttir.text import axes_kept
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.gpu_parameters import Descriptor, element_bits
from tilewright.ir.ops import memory
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import For, If
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.shape import Permute, Reshape

_SMALLEST_M = 64  # PTX ISA, shapes of wgmma.mma_async
# Chosen for the matmuls of benchmarks/gpu.py; others: benchmarks/results/gpu_constants.md.
_PIECE_BYTES = 1 << 15  # of a result that is stored in pieces
_SMALLEST_PIECE = 32  # elements


def register_operands(function: Function, plan: LoweringPlan) -> dict[Op, int]:
    """The MMA ops of which an operand has to pass through registers, and which one."""
    found: dict[Op, int] = {}
    for loop in (op for op in function.walk() if isinstance(op, For)):
        for op in loop.body.ops:
            if isinstance(op, Mma) and op.x.tile.element.short == "tf32" and op.x.tile.rank == 2:
                operand = _register_operand(op, plan)
                if operand is not None and _only_accumulators(op, loop, transposed=operand == 1):
                    found[op] = operand
    return found


def _register_operand(op: Mma, plan: LoweringPlan) -> int | None:
    """The operand of ``op`` that does not lie along K."""
    x, y = op.x, op.y
    if has_major_axis(x, 0, plan):
        return 0
    if has_major_axis(y, 1, plan) and has_major_axis(x, 1, plan) and y.tile.shape[1] >= _SMALLEST_M:
        return 1
    return None


def _only_accumulators(op: Mma, loop: For, *, transposed: bool) -> bool:
    """Whether nothing in ``loop`` but the MMA op ``op`` sees the sum, nor what is done in some iterations only where
    it is not turned around: Triton waits nowhere else for it."""
    body = loop.body
    seen = {body.terminator}
    if not transposed:
        seen |= {nested for o in body.ops if isinstance(o, If) for nested in o.walk()}
    return op.acc in body.args and list(op.acc.users) == [op] and seen.issuperset(op.result.users)


def has_major_axis(value: Value, axis: int, plan: LoweringPlan) -> bool:
    """Whether the TMA unit loads the tile ``value`` with ``axis`` as its innermost."""
    while (op := value.op) is not None and op not in plan.descriptors:
        shape = value.tile.shape
        if isinstance(op, Permute):
            axis = op.axes[axis]
        elif isinstance(op, Reshape):
            kept, before = axes_kept(shape), axes_kept(op.x.tile.shape)
            if axis not in kept or [shape[k] for k in kept] != [op.x.tile.shape[k] for k in before]:
                return False
            axis = before[kept.index(axis)]
        elif not isinstance(op, Cast) or op not in plan.rounded:
            return False
        value = op.x
    if not isinstance(op, memory.LoadView):
        return False
    return op.view.partition.order[axis] == plan.descriptors[op].axes[-1]


def cut_stores(function: Function, plan: LoweringPlan, register_operand: Mapping[Op, int]) -> dict[Op, Descriptor]:
    """The descriptors of ``plan``, with smaller blocks for results of MMA ops that a loop stores: the shared memory for
    a whole one is better spent on loads. The cuts are along the axis whose elements a thread holds."""
    found = dict(plan.descriptors)
    for loop in function.walk():
        for op in loop.body.walk() if isinstance(loop, For) else ():
            d = found.get(op) if isinstance(op, memory.StoreView) else None
            axis = _axis_of_threads(op.value, register_operand) if d is not None else None  # type: ignore[attr-defined]
            if d is not None and axis is not None and len(d.block) == 2 and 1 not in d.block:
                axis = op.view.partition.order[axis]  # type: ignore[attr-defined]
                pieces = max(1, math.prod(d.block) * element_bits(d.element) // 8 // _PIECE_BYTES)
                k = d.axes.index(axis)
                block = tuple(n // pieces if i == k else n for i, n in enumerate(d.block))
                if block[k] >= _SMALLEST_PIECE:
                    found[op] = replace(d, block=block)
    return found


def _axis_of_threads(value: Value, register_operand: Mapping[Op, int]) -> int | None:
    """The axis along which a thread holds elements of ``value``, the converted result of an MMA op; None for others."""
    transposed = False
    while (op := value.op) is not None and not isinstance(op, Mma):
        if isinstance(op, (Cast, Permute)):
            transposed ^= isinstance(op, Permute) and op.axes == (1, 0)
            value = op.x
        elif isinstance(op, For):
            value = op.next_values[value.index]
        else:
            return None
    if op is None:
        return None
    return 0 if transposed ^ (register_operand.get(op) == 1) else 1
