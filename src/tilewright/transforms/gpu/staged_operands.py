"""Operands of MMA ops that threads put into shared memory, where warp groups read them, and how they lie there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.analysis.gpu.contiguity import Contiguity
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import operand_source
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.tma import SWIZZLES, swizzled_layout
from tilewright.ir.ops.gpu.wgmma import readable
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Load, LoadView
from tilewright.ir.ops.shape import Permute, constant_of
from tilewright.ir.reachable import operands_within, reachable
from tilewright.ir.types import SharedType
from tilewright.transforms.gpu.layout_choice import widest_access

COPIES = 3  # one that the MMA op in flight reads, and two that run ahead: benchmarks/results/gpu_products.md


@dataclass(frozen=True)
class Staged:
    """How an operand lies in shared memory that threads put there, in how many copies: what they ``load``, also where
    that is seen ``transposed``, or else compute."""

    type: SharedType
    load: Load | None = None
    transposed: Permute | None = None
    copies: int = COPIES


def staged_operands(function: Function) -> dict[Value, Staged]:
    """The operands of 8 and 16 bits of MMA ops in ``function`` that threads load, from elements that they find, or
    compute from what they load, for a loop that only adds."""
    mmas = [op for op in function.ops_of(Mma) if is_only_added(op)]
    found = {v: _loaded(function, v, op, k) or _computed(v, op, k) for op in mmas for k, v in enumerate((op.x, op.y))}
    return {v: how for v, how in found.items() if how is not None}


def _loaded(function: Function, value: Value, op: Mma, k: int) -> Staged | None:
    turned = value.op if isinstance(value.op, Permute) else None
    source = value if turned is None else turned.x
    load, t = source.op, value.tile
    if not isinstance(load, Load) or t.rank != 2 or t.element.bytes > 2:
        return None
    zero = load.padding is None or constant_of(load.padding) == 0
    alone = all(len(list(v.users)) == 1 for v in (value, source)) and load.block is op.block
    if not (zero and alone and load.is_weak):
        return None
    (fastest, *_), _ = widest_access(load, AnalysisManager(function).get(Contiguity))
    inner = fastest if turned is None else turned.axes.index(fastest)
    types = (swizzled(t.shape, axis, t.element) for axis in (inner, 1 - inner))
    suitable = next((of for of in types if of is not None and readable(of, 1 - k)), None)
    return None if suitable is None else Staged(suitable, load, turned)


def _computed(value: Value, op: Mma, k: int) -> Staged | None:
    """An operand of 16 bits that is computed element by element, from no other MMA op. A right one that is only
    converted lies as what is loaded for it."""
    source, t = value.op, value.tile
    if source is None or source.block is not op.block or not source.spec.elementwise or t.rank != 2:
        return None
    converted = k == 1 and isinstance(source, Cast) and isinstance(operand_source(value), (Load, LoadView))
    if converted or t.element.bytes != 2 or any(isinstance(v.op, Mma) for v in reachable([value], operands_within)):
        return None
    suitable = swizzled(t.shape, 1, t.element)
    return Staged(suitable) if suitable is not None and readable(suitable, 1 - k) else None


def is_only_added(op: Mma) -> bool:
    """Whether the loop around ``op`` does nothing with its sum but to add to it."""
    loop = op.parent
    if not isinstance(loop, For) or op.acc not in loop.carried or list(op.acc.users) != [op]:
        return False
    return op.block is loop.body and list(op.result.users) == [loop.body.terminator]


def swizzle_of(row_bytes: int) -> int | None:
    return next((s for s in SWIZZLES if row_bytes % s == 0), None)


def swizzled(shape: Sequence[int], inner: int, dtype: DType) -> SharedType | None:
    """How an operand of ``shape`` lies in shared memory along its axis ``inner``, if rows are long enough for that."""
    swizzle = swizzle_of(shape[inner] * dtype.bytes)
    return None if swizzle is None else SharedType(dtype, swizzled_layout(shape, inner, swizzle, dtype.bytes))
