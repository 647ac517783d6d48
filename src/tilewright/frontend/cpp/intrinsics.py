"""The functions that our headers leave to the compiler (``intrinsics.h``), as ops of Tile IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.frontend.cpp import memory_intrinsics
from tilewright.frontend.cpp.llvm_form import Instruction
from tilewright.frontend.cpp.values import Translation
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.dtypes import DType, bool_, int64, uint8, uint16, uint32
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.ops import arith, floats, memory, shape
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.linear import Mma, Reduce, Scan, identity_of
from tilewright.ir.types import PointerType, TileType

# The tables below are in the order of the enumerations in the headers.
_MODES = RoundingMode
ROUNDING = (_MODES.RN, _MODES.RZ, _MODES.RM, _MODES.RP, _MODES.APPROX, _MODES.FULL)
UNARY: tuple[type[Op], ...] = (
    arith.Neg,
    arith.Abs,
    arith.Not,
    floats.Ceil,
    floats.Floor,
    floats.Exp2,
    floats.Exp,
    floats.Log2,
    floats.Log,
    arith.Sqrt,
    floats.Rsqrt,
    floats.Cosh,
    floats.Cos,
    floats.Sinh,
    floats.Sin,
    floats.Tanh,
    floats.Tan,
    floats.IsNan,
    floats.IsInf,
)
# op class, and the rounding that the name of the operation fixes for integers
BINARY: tuple[tuple[type[Op], RoundingMode | None], ...] = (
    (arith.Add, None),
    (arith.Sub, None),
    (arith.Mul, None),
    (arith.Div, RoundingMode.RZ),
    (arith.Div, RoundingMode.RP),
    (arith.Div, RoundingMode.RM),
    (arith.Rem, None),
    (arith.And, None),
    (arith.Or, None),
    (arith.Xor, None),
    (arith.Shl, None),
    (arith.Shr, None),
    (arith.Max, None),
    (arith.Min, None),
    (arith.MulHi, None),
    (floats.Pow, None),
    (floats.Atan2, None),
)
PREDICATES = tuple(CmpPredicate)

# What reductions and scans combine by.
COMBINERS: tuple[type[Op], ...] = (arith.Add, arith.Mul, arith.Max, arith.Min, arith.And, arith.Or, arith.Xor)


def _modes(cls: type[Op], modes: int) -> dict[str, Any]:
    """The attributes that ``modes`` gives to an op: only those that it declares, and only where they matter."""
    declared = {a.name for a in cls.spec.attributes}
    attributes: dict[str, Any] = {}
    if "rounding" in declared and modes & 15:
        attributes["rounding"] = ROUNDING[modes & 15]
    if "flush_to_zero" in declared and modes >> 4 & 1:
        attributes["flush_to_zero"] = True
    if "propagate_nan" in declared and modes >> 5 & 1:
        attributes["propagate_nan"] = True
    return attributes


_WRAPPING = (arith.Add, arith.Sub, arith.Mul, arith.Neg, arith.Abs)


def _arithmetic(state: Translation, cls: type[Op], modes: dict[str, Any], *operands: Value) -> Value:
    """An arithmetic op, whose signed results must fit. On bool, whose numbers are 0 and 1, it becomes a logical one."""
    dtype = operands[0].tile.element
    if cls in _WRAPPING and dtype.is_integer and dtype.is_signed:
        modes = {**modes, "no_signed_wrap": True}
    if dtype is bool_:
        if cls in (arith.Add, arith.Sub):
            cls = arith.Xor
        elif cls in (arith.Mul, arith.Div):
            cls, modes = arith.And, {}
        elif cls in (arith.Neg, arith.Abs):
            return operands[0]
        elif cls is arith.Rem or cls is arith.MulHi:
            return state.constant(False, bool_, operands[0].tile.shape)
    return state.builder.emit(cls, *operands, **modes)


# -- elementwise


def _unary(state: Translation, i: Instruction) -> Value:
    _, op, modes, x = i.operands
    cls = UNARY[state.integer(op)]
    return _arithmetic(state, cls, _modes(cls, state.integer(modes)), state.tile(x))


def _binary(state: Translation, i: Instruction) -> Value:
    _, op, modes, x, y = i.operands
    cls, integer_rounding = BINARY[state.integer(op)]
    lhs, rhs = state.tile(x), state.tile(y)
    attributes = _modes(cls, state.integer(modes))
    if integer_rounding is not None and not lhs.tile.element.is_floating:
        attributes["rounding"] = integer_rounding
    return _arithmetic(state, cls, attributes, lhs, rhs)


def _compare(state: Translation, i: Instruction) -> Value:
    _, predicate, x, y = i.operands
    return state.builder.emit(arith.Cmp, state.tile(x), state.tile(y), predicate=PREDICATES[state.integer(predicate)])


def _fma(state: Translation, i: Instruction) -> Value:
    _, modes, *operands = i.operands
    return state.builder.emit(arith.Fma, *(state.tile(o) for o in operands), **_modes(arith.Fma, state.integer(modes)))


def _tiles(cls: type[Op], **attributes: Any) -> Callable[[Translation, Instruction], Value]:
    """What emits an op of all operands behind the type of the result, which are tiles."""
    return lambda state, i: state.builder.emit(cls, *(state.tile(o) for o in i.operands[1:]), **attributes)


def _cast(state: Translation, i: Instruction) -> Value:
    want = state.type_argument(i.operands[0]).dtype
    value = state.tile(i.operands[1])
    have = value.tile.dtype
    if have == want:
        return value
    if isinstance(have, PointerType) and want is bool_:
        null = state.builder.constant(0, have, value.tile.shape)
        return state.builder.emit(arith.Cmp, value, null, predicate=CmpPredicate.NE)
    if isinstance(have, PointerType) or isinstance(want, PointerType):
        return state.coerce(value, want)
    if isinstance(value.op, shape.Constant) and have.is_integer and value.op.value in (0, 1):  # zeros, ones
        number = float(value.op.value) if want.is_floating else int(value.op.value)
        return state.builder.constant(bool(number) if want.is_bool else number, want, value.tile.shape)
    return state.builder.emit(arith.Cast, value, dtype=want)


def _bitcast(state: Translation, i: Instruction) -> Value:
    want = state.type_argument(i.operands[0]).dtype
    value = state.tile(i.operands[1])
    have = value.tile.dtype
    if have == want:
        return value
    emit = state.builder.emit
    if isinstance(have, PointerType) and isinstance(want, DType):
        address = emit(shape.PtrToInt, value, dtype=want if want.is_integer else int64)
        return address if want.is_integer else emit(arith.Bitcast, address, dtype=want)
    if isinstance(have, DType) and isinstance(want, PointerType):
        return emit(shape.IntToPtr, value if have.is_integer else emit(arith.Bitcast, value, dtype=int64), dtype=want)
    if want is bool_:
        _require_bool(state, value)
    if want is bool_ or have is bool_:
        return emit(arith.Cast, value, dtype=want)
    return emit(arith.Bitcast, value, dtype=want)


def _require_bool(state: Translation, value: Value) -> None:
    """State that the bits of ``value`` are those of false or true."""
    emit, number = state.builder.emit, state.coerce(value, uint8)
    one = state.constant(1, uint8, value.tile.shape)
    is_bool = emit(arith.Cmp, number, one, predicate=CmpPredicate.LE)
    state.builder.emit_op(
        memory.Assume, is_bool, [number], (), kind="invalid-bitcast", message="{} is neither false (0) nor true (1)"
    )


def _assume(state: Translation, i: Instruction) -> Value:
    _, kind, x, *rest = i.operands
    value = state.tile(x)
    numbers = [state.integer(o) for o in rest]
    emit = state.builder.emit
    promise = state.integer(kind)
    if promise == 0:
        return emit(memory.AssumeBlocked, value, shape=tuple(numbers)) if numbers else value
    if promise in (1, 2, 3):
        lower = numbers[0] if promise != 2 else None
        upper = numbers[-1] if promise != 3 else None
        return emit(memory.AssumeBounded, value, lower=lower, upper=upper)
    if promise == 4:
        if numbers[0] == 1 or value.tile.dtype is bool_:
            return value
        return emit(memory.AssumeDivisible, value, divisor=numbers[0])
    return emit(memory.AssumeDivisible, value, divisor=numbers[0], every=numbers[1], along=numbers[2])


# -- shape


def _of_type(cls: type[Op]) -> Callable[[Translation, Instruction], Value]:
    return lambda state, i: state.builder.emit(cls, type=state.type_argument(i.operands[0]))


def _reshape(state: Translation, i: Instruction) -> Value:
    want = state.type_argument(i.operands[0])
    value = state.tile(i.operands[1])
    return value if value.tile.shape == want.shape else state.builder.emit(shape.Reshape, value, shape=want.shape)


def _broadcast(state: Translation, i: Instruction) -> Value:
    want = state.type_argument(i.operands[0])
    value = state.tile(i.operands[1])
    if isinstance(value.op, shape.Constant):
        return state.builder.emit(shape.Constant, value=value.op.value, type=value.tile.with_shape(want.shape))
    aligned = (1,) * (want.rank - value.tile.rank) + value.tile.shape
    if aligned != value.tile.shape:
        value = state.builder.emit(shape.Reshape, value, shape=aligned)
    return value if aligned == want.shape else state.builder.emit(shape.Broadcast, value, shape=want.shape)


def _permute(state: Translation, i: Instruction) -> Value:
    value = state.tile(i.operands[1])
    code = state.integer(i.operands[2])
    return state.builder.emit(shape.Permute, value, axes=tuple(code >> (4 * k) & 15 for k in range(value.tile.rank)))


def _cat(state: Translation, i: Instruction) -> Value:
    _, x, y, axis = i.operands
    return state.builder.emit(shape.Cat, state.tile(x), state.tile(y), axis=state.integer(axis))


def _extract(state: Translation, i: Instruction) -> Value:
    want = state.type_argument(i.operands[0])
    indices = [state.value(o, t) for o, t in zip(i.operands[2:], i.types[2:])]
    return state.builder.emit(shape.Extract, state.tile(i.operands[1]), indices, shape=want.shape)


def _fold(state: Translation, i: Instruction, scan: bool) -> Value:
    code, kind, modes, axis_operand, x = i.operands
    want = state.type_argument(code)
    value, axis = state.tile(x), state.integer(axis_operand)
    cls = COMBINERS[state.integer(kind)]
    dtype = value.tile.element
    body = Block((TileType(dtype), TileType(dtype)))
    with state.builder.at(body):
        result = _arithmetic(state, cls, _modes(cls, state.integer(modes)), *body.args)
        state.builder.emit_op(Yield, [result])
    number = identity_of(cls, dtype)
    if scan:
        return state.builder.emit(Scan, [value], axis=axis, identities=(number,), body=body)
    folded = state.builder.emit(Reduce, [value], axis=axis, identities=(number,), commutative=True, body=body)
    return state.builder.emit(shape.Reshape, folded, shape=want.shape)


# -- scalars


def _wrap(state: Translation, i: Instruction) -> Value:
    want = state.type_argument(i.operands[0]).dtype
    return state.value(i.operands[1], i.types[1], want)


def _unwrap(state: Translation, i: Instruction) -> Value:
    value = state.tile(i.operands[1])
    # A scalar of a format that LLVM lacks is passed as its bits; a plain number keeps its sign.
    dtype = value.tile.dtype
    if isinstance(dtype, DType) and dtype.is_restricted:
        return state.coerce(value, state.default_element(i.type))
    return value


def _pack(state: Translation, i: Instruction) -> Value:
    emit = state.builder.emit
    value = state.tile(i.operands[1])
    if value.tile.dtype is bool_:
        value = emit(arith.Cast, value, dtype=uint8)
    return emit(shape.Reshape, emit(shape.Unpack, emit(shape.Pack, value), dtype=_OF_BYTES[i.type]), shape=())


def _unpack(state: Translation, i: Instruction) -> Value:
    emit = state.builder.emit
    want = state.type_argument(i.operands[0])
    dtype = uint8 if want.dtype is bool_ else want.element
    number = state.value(i.operands[1], i.types[1], _OF_BYTES[i.types[1]])
    reshaped = number.op.x.op if isinstance(number.op, shape.Reshape) else None
    packed = reshaped.x.op if isinstance(reshaped, shape.Unpack) else None
    if isinstance(packed, shape.Pack) and packed.x.type == want.with_dtype(dtype):
        value = packed.x
        if isinstance(value.op, arith.Cast) and value.op.x.type == want:
            return value.op.x
    else:
        value = emit(shape.Reshape, emit(shape.Unpack, emit(shape.Pack, number), dtype=dtype), shape=want.shape)
    return emit(arith.Cast, value, dtype=bool_) if want.dtype is bool_ else value


_OF_BYTES = {"i16": uint16, "i32": uint32}


def _grid(cls: type[Op]) -> Callable[[Translation, Instruction], Value]:
    return lambda state, i: state.builder.emit(cls, axis=state.integer(i.operands[0]))


INTRINSICS: dict[str, Callable[[Translation, Instruction], Value | None]] = {
    "bid": _grid(memory.Bid),
    "num_blocks": _grid(memory.NumBlocks),
    "undefined": _of_type(shape.Undefined),
    "iota": _of_type(shape.Iota),
    "unary": _unary,
    "binary": _binary,
    "compare": _compare,
    "fma": _fma,
    "select": _tiles(arith.Select),
    "cast": _cast,
    "bitcast": _bitcast,
    "reshape": _reshape,
    "broadcast": _broadcast,
    "permute": _permute,
    "cat": _cat,
    "extract": _extract,
    "pack_i16": _pack,
    "pack_i32": _pack,
    "unpack_i16": _unpack,
    "unpack_i32": _unpack,
    "offset": _tiles(shape.PtrOffset, in_array=True),
    "difference": _tiles(shape.PtrDiff, dtype=int64),
    "mma": _tiles(Mma),
    "reduce": lambda state, i: _fold(state, i, scan=False),
    "scan": lambda state, i: _fold(state, i, scan=True),
    "assume": _assume,
    "load": memory_intrinsics.load,
    "store": memory_intrinsics.store,
    "atomic": memory_intrinsics.atomic,
    "compare_exchange": memory_intrinsics.compare_exchange,
    "load_view": memory_intrinsics.load_view,
    "store_view": memory_intrinsics.store_view,
    "broken": memory_intrinsics.broken,
    # Read before translation.
    "hint": lambda state, i: None,
    "hint_end": lambda state, i: None,
}


def intrinsic(name: str) -> Callable[[Translation, Instruction], Value | None] | None:
    """The translation of the intrinsic ``__tw_<name>``."""
    if name.startswith("wrap_"):
        return _wrap
    if name.startswith("unwrap_"):
        return _unwrap
    return INTRINSICS.get(name)
