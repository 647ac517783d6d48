"""The functions of our headers that read or write memory, as ops of Tile IR: see ``intrinsics``."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.cpp.llvm_form import Const, Instruction, Operand
from tilewright.frontend.cpp.values import Translation
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, bool_, int64
from tilewright.ir.enums import AtomicKind, CmpPredicate, MemoryOrder, MemoryScope, PaddingMode
from tilewright.ir.ops import arith, memory, shape
from tilewright.ir.types import PartitionViewType, PointerType, TensorViewType, TileType

# In the order of the enumerations in the headers.
ORDERS = (MemoryOrder.RELAXED, MemoryOrder.ACQUIRE, MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)
SCOPES = (MemoryScope.SYS, MemoryScope.DEVICE, MemoryScope.BLOCK)
PADDINGS = (PaddingMode.ZERO, PaddingMode.NEG_ZERO, PaddingMode.POS_INF, PaddingMode.NEG_INF, PaddingMode.NAN)
ATOMICS = tuple(AtomicKind)
_SUBTRACT = len(ATOMICS)  # of which the IR knows nothing: the negated values are added


def _order(state: Translation, order: Operand, scope: Operand) -> dict[str, Any]:
    number = state.integer(order)
    if number < 0:
        return {}
    return {"memory_order": ORDERS[number], "memory_scope": SCOPES[state.integer(scope)]}


def _optional(state: Translation, operand: Operand) -> Value | None:
    return None if isinstance(operand, Const) and operand.value is None else state.tile(operand)


def load(state: Translation, i: Instruction) -> Value:
    _, order, scope, pointers, mask, padding = i.operands
    attributes = {**_order(state, order, scope), **state.hints.of(state.builder.loc, "latency")}
    return state.builder.emit(
        memory.Load, state.tile(pointers), _optional(state, mask), _optional(state, padding), **attributes
    )


def store(state: Translation, i: Instruction) -> None:
    order, scope, pointers, value, mask = i.operands
    attributes = {**_order(state, order, scope), **state.hints.of(state.builder.loc, "latency")}
    state.builder.emit_op(memory.Store, state.tile(pointers), state.tile(value), _optional(state, mask), **attributes)


def atomic(state: Translation, i: Instruction) -> Value:
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


def broken(state: Translation, i: Instruction) -> None:
    kind, message, count = RULES[state.integer(i.operands[0])]
    values = [state.value(o, t) for o, t in zip(i.operands[1 : 1 + count], i.types[1:])]
    state.builder.emit_op(memory.Assume, state.builder.constant(False, bool_), values, (), kind=kind, message=message)


def compare_exchange(state: Translation, i: Instruction) -> Value:
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


def load_view(state: Translation, i: Instruction) -> Value:
    code, order, scope, padding, base, _, *numbers = i.operands
    tile = state.type_argument(code)
    view, indices, attributes = _partition(state, tile, state.integer(padding), base, list(zip(numbers, i.types[6:])))
    loaded = state.builder.emit(memory.LoadView, view, indices, **attributes, **_order(state, order, scope))
    return state.builder.emit(shape.IntToPtr, loaded, dtype=tile.dtype) if tile.is_pointer else loaded


def store_view(state: Translation, i: Instruction) -> None:
    code, order, scope, padding, base, operand, _, *numbers = i.operands
    tile, value = state.type_argument(code), state.tile(operand)
    view, indices, attributes = _partition(state, tile, state.integer(padding), base, list(zip(numbers, i.types[7:])))
    if tile.is_pointer:
        value = state.builder.emit(shape.PtrToInt, value, dtype=int64)
    state.builder.emit_op(memory.StoreView, view, value, indices, **attributes, **_order(state, order, scope))
