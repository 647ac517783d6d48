"""Elementwise ops of CUDA Tile IR.

Integers have no sign there. Ours are signed, and ops that read theirs as unsigned get them cast. An i1 is our bool,
which has no arithmetic: its sums are exclusive ors, and as a signed number true is -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import bool_, float64, int8, int64
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.ops import arith, floats, shape
from tilewright.ir.types import PointerType
from tilewright.tileir import module as tir
from tilewright.tileir.elementwise import FLOATS, PREDICATES, SHARED, is_exact, rounding_modes, shared_modes
from tilewright.tileir.importer import promises
from tilewright.tileir.importer.context import (
    NIBBLE,
    Context,
    as_unsigned,
    dtype_in,
    dtype_of,
    element_type,
    is_bool,
    unsigned,
)
from tilewright.tileir.module import Operation
from tilewright.tileir.types import Scalar, Tile

Handler = Callable[..., Value]  # of the context, the op, and its operands in order
_SIGNED_WRAP, _UNSIGNED_WRAP = ("no_signed_wrap", "no_wrap"), ("no_unsigned_wrap", "no_wrap")
_NIBBLE_BITS = 4


def scalar_of(e: Context, value: tir.Value) -> Scalar:
    """The number type of the elements of a value."""
    if not isinstance(value.type, Tile) or not isinstance(value.type.element, Scalar):
        raise e.error(f"{value.type} is not possible here, where a tile of numbers is expected")
    return value.type.element


def _shared(cls: type[Op], name: str) -> Handler:
    """An op that is ours, too."""
    known = shared_modes(name)

    def make(e: Context, op: Operation, *operands: Value) -> Value:
        given = {ours: op.attributes[theirs] for theirs, ours in known.items()}
        if "rounding" in given:
            given["rounding"] = RoundingMode(given["rounding"])
        return e.emit(cls, *operands, **given)

    return make


def _integer(cls: type[Op], of_bools: type[Op]) -> Handler:
    def make(e: Context, op: Operation, lhs: Value, rhs: Value) -> Value:
        if is_bool(lhs):
            return e.emit(of_bools, lhs, rhs)
        overflow = op.attributes["overflow"]
        made = e.emit(cls, lhs, rhs, no_signed_wrap=overflow in _SIGNED_WRAP)
        if e.checked and overflow in _UNSIGNED_WRAP:
            promises.no_unsigned_wrap(e, cls, lhs, rhs, made)
        return made

    return make


def by_signedness(e: Context, signedness: str, cls: type[Op], lhs: Value, rhs: Value, **attributes: Any) -> Value:
    """An op of two integers that ``signedness`` decides about; the result is signed."""
    dtype = dtype_in(e, lhs)
    if signedness == "signed":
        return e.emit(cls, lhs, rhs, **attributes)
    made = e.emit(cls, as_unsigned(e, lhs), as_unsigned(e, rhs), **attributes)
    return made if made.tile.element is bool_ else e.cast(made, dtype)


def _divi(e: Context, op: Operation, lhs: Value, rhs: Value) -> Value:
    if is_bool(lhs):
        return lhs  # the divisor can be true only
    rounding = RoundingMode(op.attributes["rounding"])
    return by_signedness(e, op.attributes["signedness"], arith.Div, lhs, rhs, rounding=rounding)


def _remi(e: Context, op: Operation, lhs: Value, rhs: Value) -> Value:
    if is_bool(lhs):
        return e.constant(False, bool_, lhs.tile.shape)
    return by_signedness(e, op.attributes["signedness"], arith.Rem, lhs, rhs)


def _extremum_integer(cls: type[Op], of_signed_bools: type[Op], of_bools: type[Op]) -> Handler:
    def make(e: Context, op: Operation, lhs: Value, rhs: Value) -> Value:
        signedness = op.attributes["signedness"]
        if is_bool(lhs):
            return e.emit(of_signed_bools if signedness == "signed" else of_bools, lhs, rhs)
        return by_signedness(e, signedness, cls, lhs, rhs)

    return make


def _shli(e: Context, op: Operation, lhs: Value, rhs: Value) -> Value:
    if is_bool(lhs):
        return _unless(e, lhs, rhs)
    made = e.emit(arith.Shl, lhs, rhs)
    if e.checked:
        promises.shifted(e, op.attributes["overflow"], lhs, rhs, made)
    return made


def _unless(e: Context, lhs: Value, rhs: Value) -> Value:
    """One bit shifted by one bit: nothing is left where the count is 1."""
    return e.emit(arith.And, lhs, e.emit(arith.Not, rhs))


def _shri(e: Context, op: Operation, lhs: Value, rhs: Value) -> Value:
    if is_bool(lhs):
        return lhs if op.attributes["signedness"] == "signed" else _unless(e, lhs, rhs)
    return by_signedness(e, op.attributes["signedness"], arith.Shr, lhs, rhs)


def _negi(e: Context, op: Operation, x: Value) -> Value:
    return x if is_bool(x) else e.emit(arith.Neg, x, no_signed_wrap=op.attributes["overflow"] in _SIGNED_WRAP)


def _fpowi(e: Context, op: Operation, x: Value, n: Value) -> Value:
    """By float64, which holds every exponent: rounding one would change the sign of powers of negative numbers."""
    made = e.emit(floats.Pow, e.cast(x, float64), e.cast(n, float64))
    return e.cast(made, dtype_in(e, x))


_PREDICATES = {name: predicate for predicate, name in PREDICATES.items()}
_OPPOSITE = {
    CmpPredicate.LT: CmpPredicate.GE,
    CmpPredicate.LE: CmpPredicate.GT,
    CmpPredicate.GT: CmpPredicate.LE,
    CmpPredicate.GE: CmpPredicate.LT,
}


def _cmpi(e: Context, op: Operation, lhs: Value, rhs: Value) -> Value:
    predicate = _PREDICATES[op.attributes["comparison_predicate"]]
    signed = op.attributes["signedness"] == "signed"
    if is_bool(lhs) and signed:  # true is -1
        lhs, rhs = rhs, lhs
    if is_bool(lhs):
        return e.emit(arith.Cmp, lhs, rhs, predicate=predicate)
    return by_signedness(e, op.attributes["signedness"], arith.Cmp, lhs, rhs, predicate=predicate)


def _cmpf(e: Context, op: Operation, lhs: Value, rhs: Value) -> Value:
    """Ours are false for a NaN, but for NE."""
    predicate = _PREDICATES[op.attributes["comparison_predicate"]]
    ordered = op.attributes["comparison_ordering"] == "ordered"
    if ordered == (predicate is not CmpPredicate.NE):
        return e.emit(arith.Cmp, lhs, rhs, predicate=predicate)
    if predicate in _OPPOSITE:
        return e.emit(arith.Not, e.emit(arith.Cmp, lhs, rhs, predicate=_OPPOSITE[predicate]))
    nan = e.emit(arith.Or, e.emit(floats.IsNan, lhs), e.emit(floats.IsNan, rhs))
    compared = e.emit(arith.Cmp, lhs, rhs, predicate=predicate)
    if ordered:
        return e.emit(arith.And, compared, e.emit(arith.Not, nan))
    return e.emit(arith.Or, compared, nan)


# -- conversions


def _as_number(e: Context, x: Value) -> Value:
    """An i1 as a signed number, of which true is -1."""
    return e.emit(arith.Neg, e.cast(x, int8))


def _from_integer(e: Context, op: Operation, x: Value) -> Value:
    target = dtype_of(scalar_of(e, op.results[0]))
    signed = op.attributes["signedness"] == "signed"
    if is_bool(x) and signed:
        x = _as_number(e, x)
    return e.cast(x if signed else as_unsigned(e, x), target)


def _exti(e: Context, op: Operation, x: Value) -> Value:
    if scalar_of(e, op.operands["from"]).name != NIBBLE or op.attributes["signedness"] == "signed":
        return _from_integer(e, op, x)
    mask = e.constant((1 << _NIBBLE_BITS) - 1, int8, x.tile.shape)
    return e.cast(e.emit(arith.And, x, mask), dtype_of(scalar_of(e, op.results[0])))


def lowest_bit(e: Context, x: Value) -> Value:
    """Whether numbers are odd."""
    dtype, extents = dtype_in(e, x), x.tile.shape
    bit = e.emit(arith.And, x, e.constant(1, dtype, extents))
    return e.emit(arith.Cmp, bit, e.constant(0, dtype, extents), predicate=CmpPredicate.NE)


def nibble(e: Context, x: Value) -> Value:
    """The low four bits of int8 numbers, with the sign extended."""
    by = e.constant(_NIBBLE_BITS, int8, x.tile.shape)
    return e.emit(arith.Shr, e.emit(arith.Shl, x, by), by)


def _trunci(e: Context, op: Operation, x: Value) -> Value:
    target = scalar_of(e, op.results[0])
    if target.name == "i1":
        made = lowest_bit(e, x)
    else:
        made = e.cast(x, dtype_of(target))
        if target.name == NIBBLE:
            made = nibble(e, made)
    if e.checked:
        promises.truncated(e, op.attributes["overflow"], x, made, target)
    return made


_EXACT = tuple(map(RoundingMode, ("nearest_even", "zero", "negative_inf", "positive_inf", "nearest_away")))


def _ftof(e: Context, op: Operation, x: Value) -> Value:
    source, target = dtype_in(e, x), dtype_of(scalar_of(e, op.results[0]))
    rounding = RoundingMode(op.attributes["rounding_mode"])
    modes = _EXACT if is_exact(source, target) else rounding_modes(source, target)
    if rounding not in modes:
        raise e.error(f"expected rounding by {' or '.join(m.value for m in modes)}, not {rounding.value}")
    return e.emit(arith.Cast, x, dtype=target, rounding=rounding)


def _ftoi(e: Context, op: Operation, x: Value) -> Value:
    target, saturating = dtype_of(scalar_of(e, op.results[0])), op.attributes["saturating"]
    if target is bool_:  # of one bit: 0, and 1 or -1
        return lowest_bit(e, e.emit(arith.Cast, x, dtype=int8, saturating=saturating))
    if op.attributes["signedness"] == "signed":
        return e.emit(arith.Cast, x, dtype=target, saturating=saturating)
    return e.cast(e.emit(arith.Cast, x, dtype=unsigned(target), saturating=saturating), target)


def _bitcast(e: Context, op: Operation, x: Value) -> Value:
    source, target = scalar_of(e, op.operands["source"]), scalar_of(e, op.results[0])
    if source == target:
        return x
    if NIBBLE in (source.name, target.name):
        raise e.error(f"bits of {source} as {target}: use pack and unpack for 4 bits")
    return e.emit(arith.Bitcast, x, dtype=dtype_of(target))


# -- pointers


def pointer_of(e: Context, op: Operation) -> PointerType:
    """What the result points to."""
    type = op.results[0].type
    found = element_type(type.element) if isinstance(type, Tile) else None
    if not isinstance(found, PointerType):
        raise e.error(f"the result is {type}; a tile of pointers is expected")
    return found


def _offset(e: Context, op: Operation, ptr: Value, offset: Value) -> Value:
    if is_bool(offset):
        offset = _as_number(e, offset)
    return e.emit(shape.PtrOffset, ptr, offset)


HANDLERS: dict[str, Handler] = {
    **{name: _shared(cls, name) for cls, name in (*FLOATS.items(), *SHARED.items())},
    "addi": _integer(arith.Add, arith.Xor),
    "subi": _integer(arith.Sub, arith.Xor),
    "muli": _integer(arith.Mul, arith.And),
    "divi": _divi,
    "remi": _remi,
    "mulhii": lambda e, op, x, y: e.constant(False, bool_, x.tile.shape) if is_bool(x) else e.emit(arith.MulHi, x, y),
    "maxi": _extremum_integer(arith.Max, arith.And, arith.Or),
    "mini": _extremum_integer(arith.Min, arith.Or, arith.And),
    "shli": _shli,
    "shri": _shri,
    "negi": _negi,
    "absi": lambda e, op, x: x if is_bool(x) else e.emit(arith.Abs, x),
    "fpowi": _fpowi,
    "cmpi": _cmpi,
    "cmpf": _cmpf,
    "exti": _exti,
    "trunci": _trunci,
    "ftof": _ftof,
    "ftoi": _ftoi,
    "itof": _from_integer,
    "bitcast": _bitcast,
    "ptr_to_int": lambda e, op, x: e.emit(shape.PtrToInt, x, dtype=int64),
    "int_to_ptr": lambda e, op, x: e.emit(shape.IntToPtr, x, dtype=pointer_of(e, op)),
    "ptr_to_ptr": lambda e, op, x: e.emit(arith.Bitcast, x, dtype=pointer_of(e, op)),
    "offset": _offset,
}
