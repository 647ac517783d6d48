"""What integer ops of CUDA Tile IR promise: that results do not wrap. Broken promises are undefined behaviour.

Signed sums, differences and products carry the promise as an attribute; everything else is stated, for the sanitizer.
"""

from __future__ import annotations

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import bool_
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops import arith
from tilewright.tileir.importer.context import NIBBLE, Context, dtype_in, unsigned
from tilewright.tileir.types import Scalar

_SIGNED, _UNSIGNED = ("no_signed_wrap", "no_wrap"), ("no_unsigned_wrap", "no_wrap")
_SIGNS: dict[type[Op], str] = {arith.Add: "+", arith.Sub: "-", arith.Mul: "*"}


def no_unsigned_wrap(e: Context, cls: type[Op], lhs: Value, rhs: Value, made: Value) -> None:
    """``made``, which is ``cls`` of two numbers, holds the result of unsigned ones."""
    dtype = unsigned(dtype_in(e, lhs))
    x, y, result = (e.cast(v, dtype) for v in (lhs, rhs, made))
    if cls is arith.Add:
        holds = e.emit(arith.Cmp, result, x, predicate=CmpPredicate.GE)
    elif cls is arith.Sub:
        holds = e.emit(arith.Cmp, x, y, predicate=CmpPredicate.GE)
    else:
        zero = e.constant(0, dtype, x.tile.shape)
        holds = e.emit(arith.Cmp, e.emit(arith.MulHi, x, y), zero, predicate=CmpPredicate.EQ)
    e.promise(holds, f"{{}} {_SIGNS[cls]} {{}} does not fit {dtype}, as no_unsigned_wrap promises", x, y)


def shifted(e: Context, overflow: str, lhs: Value, rhs: Value, made: Value) -> None:
    """``made``, which is ``lhs`` shifted left, has lost no bits."""
    dtype = dtype_in(e, lhs)
    for name, modes, read in (("no_signed_wrap", _SIGNED, dtype), ("no_unsigned_wrap", _UNSIGNED, unsigned(dtype))):
        if overflow in modes:
            back = e.emit(arith.Shr, e.cast(made, read), e.cast(rhs, read))
            holds = e.emit(arith.Cmp, back, e.cast(lhs, read), predicate=CmpPredicate.EQ)
            e.promise(holds, f"{{}} << {{}} does not fit {read}, as {name} promises", e.cast(lhs, read), rhs)


def truncated(e: Context, overflow: str, x: Value, made: Value, target: Scalar) -> None:
    """``made``, which is ``x`` in fewer bits, is the same number."""
    dtype = dtype_in(e, x)
    for name, modes in (("no_signed_wrap", _SIGNED), ("no_unsigned_wrap", _UNSIGNED)):
        if overflow not in modes:
            continue
        signed = modes is _SIGNED
        if made.tile.element is bool_:
            wide = e.cast(made, dtype)
            back = e.emit(arith.Neg, wide) if signed else wide
        elif target.name == NIBBLE and not signed:
            back = e.emit(arith.And, e.cast(made, dtype), e.constant(15, dtype, x.tile.shape))
        else:
            back = e.cast(made if signed else e.cast(made, unsigned(made.tile.element)), dtype)
        holds = e.emit(arith.Cmp, back, x, predicate=CmpPredicate.EQ)
        e.promise(holds, f"{{}} does not fit {target}, as {name} promises", x)
