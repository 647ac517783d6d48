"""The functions that our headers leave to the compiler (``intrinsics.h``), as ops of Tile IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.frontend.cpp.llvm_form import Const, Instruction, Operand
from tilewright.frontend.cpp.values import Translation
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.dtypes import DType, bool_, int64, uint8, uint16, uint32
from tilewright.ir.enums import AtomicKind, CmpPredicate, MemoryOrder, MemoryScope, PaddingMode, RoundingMode
from tilewright.ir.ops import arith, memory, shape
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.linear import Mma, Reduce, Scan, identity_of
from tilewright.ir.types import PartitionViewType, PointerType, TensorViewType, TileType

# The tables below are in the order of the enumerations in the headers.
_MODES = RoundingMode
ROUNDING = (_MODES.RN, _MODES.RZ, _MODES.RM, _MODES.RP, _MODES.APPROX, _MODES.FULL)
UNARY: tuple[type[Op], ...] = (
    arith.Neg,
    arith.Abs,
    arith.Not,
    arith.Ceil,
    arith.Floor,
    arith.Exp2,
    arith.Exp,
    arith.Log2,
    arith.Log,
    arith.Sqrt,
    arith.Rsqrt,
    arith.Cosh,
    arith.Cos,
    arith.Sinh,
    arith.Sin,
    arith.Tanh,
    arith.Tan,
    arith.IsNan,
    arith.IsInf,
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
    (arith.Pow, None),
    (arith.Atan2, None),
)
PREDICATES = tuple(CmpPredicate)
ORDERS = (MemoryOrder.RELAXED, MemoryOrder.ACQUIRE, MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)
SCOPES = (MemoryScope.SYS, MemoryScope.DEVICE, MemoryScope.BLOCK)
PADDINGS = (PaddingMode.ZERO, PaddingMode.NEG_ZERO, PaddingMode.POS_INF, PaddingMode.NEG_INF, PaddingMode.NAN)
ATOMICS = tuple(AtomicKind)


_SUBTRACT = len(ATOMICS)  # of which the IR knows nothing: the negated values are added


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


# -- memory


def _order(state: Translation, order: Operand, scope: Operand) -> dict[str, Any]:
    number = state.integer(order)
    if number < 0:
        return {}
    return {"memory_order": ORDERS[number], "memory_scope": SCOPES[state.integer(scope)]}


def _optional(state: Translation, operand: Operand) -> Value | None:
    return None if isinstance(operand, Const) and operand.value is None else state.tile(operand)


def _load(state: Translation, i: Instruction) -> Value:
    _, order, scope, pointers, mask, padding = i.operands
    attributes = {**_order(state, order, scope), **state.hints.of(state.builder.loc, "latency")}
    return state.builder.emit(
        memory.Load, state.tile(pointers), _optional(state, mask), _optional(state, padding), **attributes
    )


def _store(state: Translation, i: Instruction) -> None:
    order, scope, pointers, value, mask = i.operands
    attributes = {**_order(state, order, scope), **state.hints.of(state.builder.loc, "latency")}
    state.builder.emit_op(memory.Store, state.tile(pointers), state.tile(value), _optional(state, mask), **attributes)


def _atomic(state: Translation, i: Instruction) -> Value:
    _, kind_code, order, scope, pointers, value, mask = i.operands
    code, number, where = state.integer(kind_code), state.tile(value), _optional(state, mask)
    dtype = number.tile.element
    attributes: dict[str, Any] = _order(state, order, scope)
    if code == _SUBTRACT:
        number, attributes["subtracts"] = _negated(state, number, where), True
    kind = AtomicKind.ADD if code == _SUBTRACT else ATOMICS[code]
    if kind is AtomicKind.ADD and dtype.is_integer and dtype.is_signed:
        attributes["no_signed_wrap"] = True
    return state.builder.emit(memory.AtomicRmw, state.tile(pointers), number, where, kind=kind, **attributes)


def _negated(state: Translation, value: Value, mask: Value | None) -> Value:
    """What an atomic subtraction of ``value`` adds."""
    dtype, emit = value.tile.element, state.builder.emit
    if dtype.is_integer and dtype.is_signed:
        least = state.constant(dtype.min, dtype, value.tile.shape)
        fits = emit(arith.Cmp, value, least, predicate=CmpPredicate.NE)
        if mask is not None:
            fits = emit(arith.Or, fits, emit(arith.Not, mask))
        message = f"-({{}}), which is to be added, does not fit {dtype}"
        state.builder.emit_op(memory.Assume, fits, [value], (), kind="atomic-sub-overflow", message=message)
    return emit(arith.Neg, value)


# What a checked program calls broken: the category, and the message for the two numbers that it gives.
RULES = (
    ("irange-step", "the step of the range is {}; it must be positive", 1),
    ("irange-bound", "with the upper bound {} and the step {} the range passes the largest value of its type", 2),
    ("extent-index", "dimension {} of extents of rank {}", 2),
    ("extent-overflow", "the extent {} does not fit an index type of {} bits", 2),
    ("dimension-map-index", "entry {} of a dimension map of {} entries", 2),
    ("stride-index", "stride {} of a layout of rank {}", 2),
    ("stride-overflow", "{} times {} does not fit the type of the stride", 2),
)


def _broken(state: Translation, i: Instruction) -> None:
    kind, message, count = RULES[state.integer(i.operands[0])]
    values = [state.value(o, t) for o, t in zip(i.operands[1 : 1 + count], i.types[1:])]
    state.builder.emit_op(memory.Assume, state.builder.constant(False, bool_), values, (), kind=kind, message=message)


def _compare_exchange(state: Translation, i: Instruction) -> Value:
    _, order, scope, pointers, expected, desired, mask = i.operands
    return state.builder.emit(
        memory.AtomicCas,
        state.tile(pointers),
        state.tile(expected),
        state.tile(desired),
        _optional(state, mask),
        **_order(state, order, scope),
    )


def _partition(
    state: Translation, tile: TileType, padding: int, base: Operand, numbers: list[tuple[Operand, str]]
) -> tuple[Value, list[Value], dict[str, Any]]:
    """The partition view at ``base``; ``numbers`` holds extents, strides and indices."""
    rank = tile.rank
    sizes, indices = numbers[: 2 * rank], numbers[2 * rank :]
    static = [o.value if isinstance(o, Const) else None for o, _ in sizes]
    element = _in_memory(tile)
    dynamic = [state.value(o, t) if s is None else None for (o, t), s in zip(sizes, static)]
    index_dtype = int64
    if all(v is None or v.tile.element.bitwidth == 32 for v in dynamic) and any(dynamic):
        index_dtype = next(v for v in dynamic if v is not None).tile.element
    dynamic = [None if v is None else _as_index(state, v, index_dtype) for v in dynamic]
    array = TensorViewType(element, tuple(static[:rank]), tuple(static[rank:]), index_dtype)
    pointer = state.value(base, "ptr", PointerType(element))
    view = state.builder.emit(
        memory.MakeTensorView,
        pointer,
        [v for v in dynamic[:rank] if v is not None],
        [v for v in dynamic[rank:] if v is not None],
        type=array,
    )
    mode = PaddingMode.UNDETERMINED if padding < 0 else PADDINGS[padding]
    partition = PartitionViewType(array, tile.shape, tuple(range(rank)), mode, tile.shape)
    attributes = {"in_bounds": (padding < 0,) * rank, **state.hints.of(state.builder.loc, "latency", "allow_tma")}
    return (
        state.builder.emit(memory.MakePartitionView, view, type=partition),
        [state.value(o, t) for o, t in indices],
        attributes,
    )


def _as_index(state: Translation, value: Value, dtype: DType) -> Value:
    if value.tile.element.bitwidth == dtype.bitwidth:
        return state.coerce(value, dtype)
    return state.builder.emit(arith.Cast, value, dtype=dtype)


def _in_memory(tile: TileType) -> DType:
    """The elements of arrays that tiles of type ``tile`` are loaded from: pointers are kept as numbers."""
    return int64 if tile.is_pointer else tile.element


def _load_view(state: Translation, i: Instruction) -> Value:
    code, order, scope, padding, base, _, *numbers = i.operands
    tile = state.type_argument(code)
    view, indices, attributes = _partition(state, tile, state.integer(padding), base, list(zip(numbers, i.types[6:])))
    loaded = state.builder.emit(memory.LoadView, view, indices, **attributes, **_order(state, order, scope))
    return state.builder.emit(shape.IntToPtr, loaded, dtype=tile.dtype) if tile.is_pointer else loaded


def _store_view(state: Translation, i: Instruction) -> None:
    code, order, scope, padding, base, operand, _, *numbers = i.operands
    tile, value = state.type_argument(code), state.tile(operand)
    view, indices, attributes = _partition(state, tile, state.integer(padding), base, list(zip(numbers, i.types[7:])))
    if tile.is_pointer:
        value = state.builder.emit(shape.PtrToInt, value, dtype=int64)
    state.builder.emit_op(memory.StoreView, view, value, indices, **attributes, **_order(state, order, scope))


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
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "compare_exchange": _compare_exchange,
    "load_view": _load_view,
    "store_view": _store_view,
    "broken": _broken,
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
