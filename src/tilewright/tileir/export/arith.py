"""Elementwise ops of our IR as ops of CUDA Tile IR."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from tilewright.analysis.gpu.clamps import is_never_nan
from tilewright.ir import core
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType, bool_, float32, float64, int64, tfloat32
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.ops import arith, floats, shape
from tilewright.ir.types import PointerType
from tilewright.tileir.elementwise import FLOATS, PREDICATES, SHARED, is_exact, rounding_modes, shared_modes
from tilewright.tileir.errors import VersionError
from tilewright.tileir.export.emitter import Emitter, scalar, signedness, tile_of
from tilewright.tileir.module import Value
from tilewright.tileir.optable import BY_NAME, ENUM_SINCE
from tilewright.tileir.types import I1, I64, SCALARS, Pointer, Tile

Handler = Callable[[Emitter, Any], Value]
_INTEGERS: dict[type[Op], str] = {arith.Add: "addi", arith.Sub: "subi", arith.Mul: "muli"}
_EXTREMA: dict[type[Op], tuple[str, str]] = {arith.Max: ("maxi", "ori"), arith.Min: ("mini", "andi")}


def _shared(name: str) -> Handler:
    """An op that CUDA Tile IR has, too, and whose result is of the type of its last operand."""
    names, modes = [o.name for o in BY_NAME[name].operands], shared_modes(name)
    is_rounded = "rounding_mode" in modes

    def handler(e: Emitter, op: Any) -> Value:
        values = list(map(e.__getitem__, op.operands))
        made: Value = e.make[name](e, dict(zip(names, values)), values[-1].type)
        return made

    if not modes:
        return handler
    known = tuple(modes.items())

    def handler_of_modes(e: Emitter, op: Any) -> Value:
        values, fields, given = list(map(e.__getitem__, op.operands)), op.attributes, {}
        for theirs, ours in known:
            given[theirs] = fields[ours]
        if is_rounded:
            given["rounding_mode"] = given["rounding_mode"]._value_
        made: Value = e.make[name](e, dict(zip(names, values)), values[-1].type, **given)
        return made

    return handler_of_modes


_SHARED: dict[type[Op], Handler] = {cls: _shared(name) for cls, name in SHARED.items()}
_FLOATS: dict[type[Op], Handler] = {cls: _shared(name) for cls, name in FLOATS.items()}


def _sides(e: Emitter, op: Any) -> dict[str, Any]:
    return {"lhs": e[op.lhs], "rhs": e[op.rhs]}


def _overflow(op: Any, dtype: DType) -> str:
    return "no_signed_wrap" if op.no_signed_wrap and dtype.is_signed else "none"


def _binary(e: Emitter, op: Any) -> Value:
    kind, lhs, rhs = op.__class__, op.lhs, op.rhs
    dtype = lhs.type.dtype
    if dtype.is_float:
        return _FLOATS[kind](e, op)
    if kind is not arith.Mul and type(rhs.owner) in _COUNTING and (along := _counting(rhs)):
        across = _counting(lhs)
        if along & across if kind is arith.Add else across <= along:
            return _of_counts(e, op)
    left = e[lhs]
    return e.make[_INTEGERS[kind]](e, {"lhs": left, "rhs": e[rhs]}, left.type, overflow=_overflow(op, dtype))


def _counting(value: core.Value) -> frozenset[int]:
    """The axes along which ``value`` is an iota."""
    op: Any = value.owner
    kind = type(op)
    if kind in _ALIKE:
        return _counting(op.x)
    if kind is shape.Iota or (kind is shape.Reshape and _counting(op.x)):
        return frozenset(axis for axis, extent in enumerate(value.tile.shape) if extent > 1)
    return _NONE


_ALIKE, _NONE = (shape.Broadcast, arith.Cast), frozenset[int]()
_COUNTING = (*_ALIKE, shape.Iota, shape.Reshape)


def _of_counts(e: Emitter, op: arith.Add | arith.Sub) -> Value:
    """A sum or a difference of iotas, as ``a - ~b - 1`` or ``a + ~b + 1``: of the plain form ``tileiras`` 13.5 takes
    all numbers for multiples of what the first one is a multiple of, and rows of addresses there for aligned."""
    t, dtype = e.result(op), arith.operand_dtype(op)
    name = "addi" if isinstance(op, arith.Sub) else "subi"
    flipped = e.make["xori"](e, {"lhs": e[op.rhs], "rhs": e.constant(dtype, -1, t.shape)}, t)
    moved = e.make[name](e, {"lhs": e[op.lhs], "rhs": flipped}, t, overflow="none")
    return e.make[name](e, {"lhs": moved, "rhs": e.constant(dtype, 1, t.shape)}, t, overflow="none")


def _div(e: Emitter, op: arith.Div) -> Value:
    dtype = arith.operand_dtype(op)
    if dtype.is_float:
        return _FLOATS[arith.Div](e, op)
    down = op.rounding is RoundingMode.RM and not dtype.is_signed
    rounding = "zero" if down else op.rounding.value
    return e.make["divi"](e, _sides(e, op), e.result(op), signedness=signedness(dtype), rounding=rounding)


def _rem(e: Emitter, op: arith.Rem) -> Value:
    """``rem`` truncates; by floor or ceiling, remainders of the wrong sign move by one divisor."""
    lhs, rounding = op.lhs, op.rounding
    dtype, t = lhs.tile.element, e.result(op)
    if dtype.is_float:
        rest = _FLOATS[arith.Rem](e, op)
    else:
        rest = e.make["remi"](e, {"lhs": e[lhs], "rhs": e[op.rhs]}, t, signedness=signedness(dtype))
    up = rounding is RoundingMode.RP
    if rounding is RoundingMode.RZ or not (up or dtype.is_signed):
        return rest
    divisor, zero = e[op.rhs], e.constant(dtype, 0, t.shape)
    truth = tile_of(I1, t.shape)
    known = e.splats.get(op.rhs)
    if known is not None and not up and not known[1] >> (known[0].bits - 1):  # by a positive number
        wrong = compare(e, dtype, CmpPredicate.LT, rest, zero)
        return _moved(e, op, rest, wrong, "add")
    wrong = compare(e, dtype, CmpPredicate.NE, rest, zero)
    negative = [compare(e, dtype, CmpPredicate.LT, v, zero) for v in (rest, divisor)]
    differ = e.make["xori"](e, {"lhs": negative[0], "rhs": negative[1]}, truth)
    if up:
        differ = e.make["xori"](e, {"lhs": differ, "rhs": e.constant(bool_, True, t.shape)}, truth)
    wrong = e.make["andi"](e, {"lhs": wrong, "rhs": differ}, truth)
    return _moved(e, op, rest, wrong, "sub" if up else "add")


def _moved(e: Emitter, op: arith.Rem, rest: Value, wrong: Value, name: str) -> Value:
    """``rest``, where it is ``wrong`` with the divisor added or subtracted, as ``name`` says."""
    floating = arith.operand_dtype(op).is_float
    extra = {"rounding_mode": "nearest_even"} if floating else {"overflow": "none"}
    moved = e.make[name + ("f" if floating else "i")](e, {"lhs": rest, "rhs": e[op.rhs]}, rest.type, **extra)
    return e.make["select"](e, {"cond": wrong, "val_if_true": moved, "val_if_false": rest}, rest.type)


def compare(e: Emitter, dtype: DType, predicate: CmpPredicate, lhs: Value, rhs: Value) -> Value:
    """Compares numbers of ``dtype``; with a NaN only NE is true."""
    type: Any = lhs.type
    truth, sides, name = tile_of(I1, type.shape), {"lhs": lhs, "rhs": rhs}, PREDICATES[predicate]
    if dtype.is_float:
        order = "unordered" if predicate is CmpPredicate.NE else "ordered"
        return e.make["cmpf"](e, sides, truth, comparison_predicate=name, comparison_ordering=order)
    return e.make["cmpi"](e, sides, truth, comparison_predicate=name, signedness=signedness(dtype))


def _cmp(e: Emitter, op: arith.Cmp) -> Value:
    left, right = op.lhs, op.rhs
    lhs, rhs, t = e[left], e[right], left.tile
    dtype = t.dtype
    if isinstance(dtype, PointerType):
        address = tile_of(I64, t.shape)
        lhs, rhs = (e.make["ptr_to_int"](e, {"source": v}, address) for v in (lhs, rhs))
        sides = {"lhs": lhs, "rhs": rhs}
        name = PREDICATES[op.predicate]
        return e.make["cmpi"](e, sides, tile_of(I1, t.shape), comparison_predicate=name, signedness="unsigned")
    if dtype.is_restricted:
        lhs, rhs = (convert(e, v, dtype, float32) for v in (lhs, rhs))
        dtype = float32
    return compare(e, dtype, op.predicate, lhs, rhs)


def _neg(e: Emitter, op: arith.Neg) -> Value:
    if arith.operand_dtype(op).is_float:
        return _FLOATS[arith.Neg](e, op)
    overflow = (
        _overflow(op, arith.operand_dtype(op)) if e.minor >= 2 else "none"
    )  # a promise, which an older file cannot make
    return e.make["negi"](e, {"source": e[op.x]}, e.result(op), overflow=overflow)


def _abs(e: Emitter, op: arith.Abs) -> Value:
    dtype = arith.operand_dtype(op)
    if dtype.is_float:
        return _FLOATS[arith.Abs](e, op)
    return e.make["absi"](e, {"source": e[op.x]}, e.result(op)) if dtype.is_signed else e[op.x]


def _extremum(e: Emitter, op: Any) -> Value:
    lhs, (integer, boolean) = op.lhs, _EXTREMA[type(op)]
    dtype = lhs.type.dtype
    if dtype.is_float:
        return _float_extremum(e, op, dtype)
    left = e[lhs]
    sides = {"lhs": left, "rhs": e[op.rhs]}
    if dtype.is_bool:
        return e.make[boolean](e, sides, left.type)
    return e.make[integer](e, sides, left.type, signedness=signedness(dtype))


def _float_extremum(e: Emitter, op: arith.Max | arith.Min, dtype: DType) -> Value:
    """The maximum of a constant and what is no NaN is written as one of which ptxas makes no saturation: see
    ``analysis.gpu.clamps``."""
    clamps = isinstance(op, arith.Max) and any(v in e.splats for v in op.operands)
    if not clamps or op.propagate_nan or not all(map(is_never_nan, op.operands)):
        return _FLOATS[type(op)](e, op)
    if dtype is not float64:
        return e.make["maxf"](e, _sides(e, op), e.result(op), propagate_nan=True, flush_to_zero=op.flush_to_zero)
    lhs, rhs = e[op.lhs], e[op.rhs]
    more = compare(e, dtype, CmpPredicate.GT, lhs, rhs)
    return e.make["select"](e, {"cond": more, "val_if_true": lhs, "val_if_false": rhs}, e.result(op))


def _isinf(e: Emitter, op: floats.IsInf) -> Value:
    t = e.tile(op.x.tile)
    magnitude = e.make["absf"](e, {"source": e[op.x]}, t)
    infinity = e.constant(arith.operand_dtype(op), float("inf"), t.shape)
    return compare(e, arith.operand_dtype(op), CmpPredicate.EQ, magnitude, infinity)


def _not(e: Emitter, op: arith.Not) -> Value:
    ones = e.constant(arith.operand_dtype(op), -1, op.x.tile.shape)
    return e.make["xori"](e, {"lhs": e[op.x], "rhs": ones}, e.result(op))


def _select(e: Emitter, op: arith.Select) -> Value:
    t = op.x.tile
    if not t.is_pointer and t.element.bitwidth < 8:  # of which there is no choice: every value is one of float32
        sides = [convert(e, e[v], t.element, float32) for v in (op.x, op.y)]
        wide = e.make["select"](
            e,
            {"cond": e[op.condition], "val_if_true": sides[0], "val_if_false": sides[1]},
            tile_of(scalar(float32), t.shape),
        )
        return convert(e, wide, float32, t.element)
    return _SHARED[arith.Select](e, op)


_rounding_modes = functools.cache(rounding_modes)
_AWAY = ENUM_SINCE["Rounding", RoundingMode.RA.value]


def convert(e: Emitter, value: Value, source: DType, target: DType, rounding: RoundingMode = RoundingMode.RN) -> Value:
    """``value`` of ``source`` as a number of ``target``."""
    if source is target:
        return value
    of, to = scalar(source), scalar(target)
    if of is to and not target.is_floating:
        return value
    t: Any = value.type
    extents = t.shape
    result = tile_of(to, extents)
    if target.is_bool:
        if source.is_restricted:
            value, source = convert(e, value, source, float32), float32
        return compare(e, source, CmpPredicate.NE, value, e.constant(source, 0, extents))
    if source.is_floating and target.is_floating:
        modes = _rounding_modes(source, target)
        if is_exact(source, target):
            rounding = RoundingMode.RN
        elif rounding not in modes:
            names = ", ".join(m.value for m in modes)
            raise e.error(f"{source} to {target} by {rounding.value}, and this conversion rounds by {names} only")
        if rounding is RoundingMode.RA and e.minor < _AWAY:
            raise VersionError(e.where(f"ftof by {rounding.value} needs bytecode 13.{_AWAY}, which 13.{e.minor} lacks"))
        e.require(result.element)
        return e.make["ftof"](e, {"from": value}, result, rounding_mode=rounding._value_)
    if source.is_floating:
        if source.is_restricted:
            value = convert(e, value, source, float32)
        kind = {"signedness": signedness(target), "rounding_mode": "nearest_int_to_zero"}
        return e.make["ftoi"](e, {"from": value}, result, saturating=e.minor >= 4, **kind)
    if target.is_floating:
        middle = float32 if target.is_restricted else target
        kind = {"signedness": signedness(source), "rounding_mode": "nearest_even"}
        made = e.make["itof"](e, {"from": value}, tile_of(scalar(middle), extents), **kind)
        return convert(e, made, middle, target, rounding)
    if to.bits > of.bits:
        return e.make["exti"](e, {"from": value}, result, signedness=signedness(source))
    return e.make["trunci"](e, {"from": value}, result, overflow="none")


def _cast(e: Emitter, op: arith.Cast) -> Value:
    source, (target, rounding) = op.x, _target(op.attributes)
    return convert(e, e[source], source.type.dtype, target, rounding)  # type: ignore


_target = operator.itemgetter("dtype", "rounding")


def _bitcast(e: Emitter, op: arith.Bitcast) -> Value:
    if isinstance(op.dtype, PointerType):
        return e.make["ptr_to_ptr"](e, {"source": e[op.x]}, e.result(op))
    source = op.x.tile.element
    if source.is_bool != op.dtype.is_bool:  # a byte in our IR, one bit there
        return convert(e, e[op.x], source, op.dtype)
    return bitcast(e, e[op.x], source, op.dtype)


def bitcast(e: Emitter, value: Value, source: DType, target: DType) -> Value:
    """The bits of ``value``, numbers of ``source``, as numbers of ``target``: of ``tfloat32``, whose 32 bits are 19
    there, those of float32."""
    if scalar(source) is scalar(target):
        return value
    assert isinstance(value.type, Tile)
    if tfloat32 in (source, target):
        if source is tfloat32:
            return bitcast(e, convert(e, value, tfloat32, float32), float32, target)
        return convert(e, bitcast(e, value, source, float32), float32, tfloat32, RoundingMode.RZ)
    result = tile_of(scalar(target), value.type.shape)
    e.require(result.element)
    return e.make["bitcast"](e, {"source": value}, result)


def raw(e: Emitter, value: Value) -> Value | None:
    """The bits of ``value`` as integers; None for pointers, and for floats as wide as no integer."""
    assert isinstance(value.type, Tile)
    element = value.type.element
    bits = None if isinstance(element, Pointer) else SCALARS.get(f"i{element.bits}")
    if bits is None or bits is element:
        return None if bits is None else value
    return e.make["bitcast"](e, {"source": value}, tile_of(bits, value.type.shape))


def _offset(e: Emitter, op: shape.PtrOffset) -> Value:
    return e.make["offset"](e, {"ptr": e[op.ptr], "offset": _signed_offset(e, op)}, e.result(op))


def _signed_offset(e: Emitter, op: shape.PtrOffset) -> Value:
    """The offset, which is read as signed: unsigned ones become wider."""
    dtype = op.offset.tile.element
    unsigned = not dtype.is_signed and dtype.bitwidth < 64
    return convert(e, e[op.offset], dtype, int64) if unsigned else e[op.offset]


def _ptr_diff(e: Emitter, op: shape.PtrDiff) -> Value:
    extents = op.lhs.tile.shape
    address = tile_of(I64, extents)
    sides = [e.make["ptr_to_int"](e, {"source": e[v]}, address) for v in (op.lhs, op.rhs)]
    apart = e.make["subi"](e, {"lhs": sides[0], "rhs": sides[1]}, address, overflow="none")
    pointer = op.lhs.tile.dtype
    assert isinstance(pointer, PointerType)
    size = e.constant(int64, pointer.pointee.bytes if pointer.pointee else 1, extents)
    count = e.make["divi"](e, {"lhs": apart, "rhs": size}, address, signedness="signed", rounding="zero")
    return convert(e, count, int64, op.dtype)


HANDLERS: dict[type[Op], Handler] = {
    **_SHARED,
    **dict.fromkeys(_INTEGERS, _binary),
    **dict.fromkeys(_EXTREMA, _extremum),
    arith.Div: _div,
    arith.Rem: _rem,
    arith.Neg: _neg,
    arith.Abs: _abs,
    floats.IsNan: lambda e, op: compare(e, arith.operand_dtype(op), CmpPredicate.NE, e[op.x], e[op.x]),
    floats.IsInf: _isinf,
    arith.Not: _not,
    arith.Shl: lambda e, op: e.make["shli"](e, _sides(e, op), e.result(op), overflow="none"),
    arith.Shr: lambda e, op: e.make["shri"](e, _sides(e, op), e.result(op), signedness=signedness(op.lhs.type.dtype)),
    arith.Cmp: _cmp,
    arith.Select: _select,
    arith.Cast: _cast,
    arith.Bitcast: _bitcast,
    shape.PtrOffset: _offset,
    shape.PtrDiff: _ptr_diff,
    shape.PtrToInt: lambda e, op: e.make["ptr_to_int"](e, {"source": e[op.x]}, e.result(op)),
    shape.IntToPtr: lambda e, op: e.make["int_to_ptr"](e, {"source": e[op.x]}, e.result(op)),
}
