"""Reductions and scans of signed integers that overflow for some grouping or order of their elements.

The documents leave the order open, so a reduction is undefined when any order overflows (C++ reference 2.6): a sum,
when all positive or all negative elements together do not fit; a product, when that of some of the elements does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.backends.reference.values import Array
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType
from tilewright.ir.ops.arith import Add, Mul
from tilewright.ir.ops.linear import CombiningOp
from tilewright.sanitizer.undefined import Marks

if TYPE_CHECKING:
    from tilewright.sanitizer.block import CheckedBlock


def check_reduction(block: CheckedBlock, op: CombiningOp, operands: list[Any], marks: Marks) -> None:
    """Report the first row along the axis of ``op`` that overflows in some order."""
    wrong = overflowing_rows(op, operands[0], op.axis)
    if wrong is None:
        return
    combiner, dtype = _combiner(op), op.values[0].tile.element
    x = np.moveaxis(operands[0], op.axis, -1)
    rows = x.reshape(-1, x.shape[-1])
    if marks and marks[0] is not None:
        undefined = np.moveaxis(np.broadcast_to(marks[0].mask, operands[0].shape), op.axis, -1)
        wrong &= ~undefined.reshape(rows.shape).any(axis=1)
    if not wrong.any():
        return
    row = int(np.flatnonzero(wrong)[0])
    element = [int(i) for i in np.unravel_index(row, x.shape[:-1])]
    element.insert(op.axis, 0)
    values = rows[row]
    worst = _worst_sum(values) if combiner == "add" else _worst_product(values, dtype)
    what = "sum" if combiner == "add" else "product"
    block.report(
        op,
        "reduction-overflow",
        f"in some order the {what} reaches {worst}, which does not fit {dtype}",
        element=element,
        operands={"elements": [int(v) for v in values[:8]] + (["..."] if values.size > 8 else [])},
        elements=int(wrong.sum()),
    )


def overflowing_rows(op: CombiningOp, x: Array, axis: int) -> Array | None:
    """Which rows of ``x`` along ``axis`` overflow in some order; None for a reduction that cannot."""
    combiner = _combiner(op)
    if combiner is None:
        return None
    rows = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    return (_sums_overflow if combiner == "add" else _products_overflow)(rows, op.values[0].tile.element)


def _combiner(op: Op) -> str | None:
    """``add`` or ``mul`` when the reduction is one of them on signed integers that must not wrap."""
    (body,) = op.regions
    if len(body.ops) != 2 or not isinstance(body.ops[0], (Add, Mul)):
        return None
    combine = body.ops[0]
    dtype = combine.lhs.tile.dtype
    signed = isinstance(dtype, DType) and dtype.is_integer and dtype.is_signed
    return combine.name if signed and combine.no_signed_wrap else None


def _sums_overflow(rows: Array, dtype: DType) -> Array:
    if dtype.bitwidth < 64:
        wide = rows.astype(np.int64)
        up, down = np.maximum(wide, 0).sum(axis=1), np.minimum(wide, 0).sum(axis=1)
        return np.asarray((up > dtype.max) | (down < dtype.min))
    near = np.abs(rows.astype(np.float64)).sum(axis=1) > 2.0**62
    for i in np.flatnonzero(near):
        near[i] = not dtype.min <= _worst_sum(rows[i]) <= dtype.max
    return np.asarray(near)


def _worst_sum(row: Array) -> int:
    numbers = [int(v) for v in row]
    up, down = sum(v for v in numbers if v > 0), sum(v for v in numbers if v < 0)
    return up if up > -down - 1 else down


def _products_overflow(rows: Array, dtype: DType) -> Array:
    with np.errstate(divide="ignore"):
        size = np.log2(np.maximum(np.abs(rows.astype(np.float64)), 1.0)).sum(axis=1)
    near = size > dtype.bitwidth - 1.5
    for i in np.flatnonzero(near):
        near[i] = not dtype.min <= _worst_product(rows[i], dtype) <= dtype.max
    return np.asarray(near)


def _worst_product(row: Array, dtype: DType) -> int:
    """The product of some of the elements that does not fit ``dtype``; one that fits when there is none."""
    numbers = [int(v) for v in row if abs(int(v)) > 1]
    has_minus_one = any(int(v) == -1 for v in row)
    whole = 1
    for v in numbers:
        whole *= v
    candidates = [whole]
    if has_minus_one:
        candidates.append(-whole)
    negatives = [v for v in numbers if v < 0]
    if negatives:
        candidates.append(whole // max(negatives))  # without the negative one of least magnitude
    return next((c for c in candidates if not dtype.min <= c <= dtype.max), whole)
