"""Comparison of numbers and pointers."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.triton.ttir.convert import cast
from tilewright.backends.triton.ttir.elements import pointer_bits
from tilewright.backends.triton.ttir.text import Val, Writer
from tilewright.ir.dtypes import float32
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Cmp


def cmp_op(w: Writer, op: Cmp, operands: Sequence[Val]) -> Val:
    predicate: CmpPredicate = op.predicate
    x, y = operands
    t = op.lhs.tile
    if t.is_pointer:
        return _integers(w, predicate, pointer_bits(w, x), pointer_bits(w, y), signed=False)
    if not t.element.is_floating:
        return _integers(w, predicate, x, y, signed=t.element.is_signed and not t.element.is_bool)
    if t.element.is_restricted:
        x, y = cast(w, x, t.element, float32), cast(w, y, t.element, float32)
    ordered = "u" if predicate is CmpPredicate.NE else "o"  # with a NaN only NE is true
    return w.compare(ordered + predicate.value, x, y)


def _integers(w: Writer, predicate: CmpPredicate, x: Val, y: Val, *, signed: bool) -> Val:
    name = predicate.value
    return w.compare(name if name in ("eq", "ne") else ("s" if signed else "u") + name, x, y)
