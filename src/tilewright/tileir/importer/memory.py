"""Views and memory ops of CUDA Tile IR.

Tokens are dropped: the order of the program is a legal schedule of any graph of tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, int32, int64
from tilewright.ir.enums import AtomicKind, CmpPredicate, MemoryOrder, MemoryScope, PaddingMode, RoundingMode
from tilewright.ir.formatting import KINDS, conversions, joined
from tilewright.ir.hints import UNSPECIFIED, ByTarget
from tilewright.ir.ops import arith, shape
from tilewright.ir.ops import memory as ours
from tilewright.ir.types import PartitionViewType, PointerType, TensorViewType, TileType
from tilewright.tileir.importer.arith import pointer_of
from tilewright.tileir.importer.context import (
    NIBBLE,
    Context,
    TensorView,
    View,
    as_unsigned,
    dtype_in,
    dtype_of,
    element_type,
    is_bool,
    number_type,
    unsigned,
)
from tilewright.tileir.module import BoolAttr, DictAttr, HintsAttr, IntegerAttr, Operation
from tilewright.tileir.types import Pointer, Tile, TileView
from tilewright.tileir.types import TensorView as TensorViewOfTileIR

_SCOPES = {"tl_blk": MemoryScope.BLOCK, "device": MemoryScope.DEVICE, "sys": MemoryScope.SYS, None: MemoryScope.NONE}
_LONGEST = (1 << 31) - 1  # that an int32 index reaches
_ATOMIC = {
    "and": AtomicKind.AND,
    "or": AtomicKind.OR,
    "xor": AtomicKind.XOR,
    "add": AtomicKind.ADD,
    "addf": AtomicKind.ADD,
    "max": AtomicKind.MAX,
    "min": AtomicKind.MIN,
    "umax": AtomicKind.MAX,
    "umin": AtomicKind.MIN,
    "xchg": AtomicKind.XCHG,
}


def order_of(op: Operation) -> dict[str, Any]:
    """The memory order and scope."""
    order = MemoryOrder(op.attributes["memory_ordering_semantics"])
    scope = MemoryScope.NONE if order is MemoryOrder.WEAK else _SCOPES[op.attributes["memory_scope"]]
    return {"memory_order": order, "memory_scope": scope}


def hint_values(hints: HintsAttr | None) -> dict[str, Any]:
    """Hints by name, with a value for each architecture; what is unknown is left out."""
    found: dict[str, dict[str, Any]] = {}
    for architecture, entries in hints.entries if hints is not None else ():
        for name, value in entries.entries if isinstance(entries, DictAttr) else ():
            if isinstance(value, (BoolAttr, IntegerAttr)):
                boolean = isinstance(value, IntegerAttr) and str(value.type) == "i1"
                found.setdefault(name, {})[architecture] = bool(value.value) if boolean else value.value
    return {name: _by_target(values) for name, values in found.items()}


def _by_target(values: dict[str, Any]) -> Any:
    known = {k: v for k, v in values.items() if re.fullmatch(r"sm_\d+", k)}
    default = values.get("default", UNSPECIFIED)
    return ByTarget(default=default, **known) if known else None if default is UNSPECIFIED else default


def _hints(op: Operation, *names: str) -> dict[str, Any]:
    return {n: v for n, v in hint_values(op.attributes["optimization_hints"]).items() if n in names}


# -- views


def _tensor_view(
    e: Context, op: Operation, base: Value, extents: Sequence[Value], strides: Sequence[Value]
) -> TensorView:
    type = op.results[0].type
    if not isinstance(type, TensorViewOfTileIR):
        raise e.error(f"the result is {type}; a tensor view is expected")
    if type.element.name == NIBBLE:
        raise e.error("views of i4 are not possible: read bytes, and unpack them")
    return make_tensor_view(e, base, dtype_of(type.element), type.shape, type.strides, extents, strides)


def make_tensor_view(
    e: Context,
    base: Value,
    dtype: DType,
    shape_: Sequence[int | None],
    strides: Sequence[int | None],
    dynamic_shape: Sequence[Value],
    dynamic_strides: Sequence[Value],
) -> TensorView:
    """A tensor view; integers narrower than int32 are unsigned ones."""
    dynamic = [_wide(e, v) for v in (*dynamic_shape, *dynamic_strides)]
    index = int64 if any(v.tile.element is int64 for v in dynamic) or _is_long(shape_, strides) else int32
    numbers = [e.cast(v, index) for v in dynamic]
    found = TensorViewType(dtype, tuple(shape_), tuple(strides), index)
    first = len(dynamic_shape)
    value = e.emit(ours.MakeTensorView, base, numbers[:first], numbers[first:], type=found)
    extents_left, strides_left = iter(numbers[:first]), iter(numbers[first:])
    return TensorView(
        value,
        base,
        tuple(next(extents_left) if n is None else n for n in shape_),
        tuple(next(strides_left) if n is None else n for n in strides),
        found,
    )


def _is_long(*numbers: Sequence[int | None]) -> bool:
    return any(n is not None and n > _LONGEST for group in numbers for n in group)


def _wide(e: Context, index: Value) -> Value:
    """An index of at least 32 bits; those of fewer bits are unsigned."""
    if is_bool(index):
        return e.cast(index, int32)
    return e.cast(as_unsigned(e, index), int32) if dtype_in(e, index).bitwidth < 32 else index


def _view(e: Context, op: Operation, tensor: TensorView) -> View:
    type = op.results[0].type
    if not isinstance(type, TileView):
        raise e.error(f"the result is {type}; a view of tiles is expected")
    if type.view != op.operands["tensor_view"].type:
        raise e.error(f"the result is {type}, which is no view of {op.operands['tensor_view'].type}")
    return View(tensor, type, None if type.sparse_dim is not None else _partition(e, tensor, type))


def _padding(type: TileView) -> PaddingMode:
    return PaddingMode.UNDETERMINED if type.padding is None else PaddingMode(type.padding)


def _partition(e: Context, tensor: TensorView, type: TileView) -> Value:
    found = PartitionViewType(tensor.type, type.tile_shape, type.dim_map, _padding(type), type.steps or type.tile_shape)
    return e.emit(ours.MakePartitionView, tensor.value, type=found)


def _tensor_shape(e: Context, op: Operation) -> list[Value]:
    tensor = e.tensor(op.operands["src"])
    return [e.number(n, number_type(r.type)) for n, r in zip(tensor.shape, op.results)]


def _index_space_shape(e: Context, op: Operation) -> list[Value]:
    """How many tiles there are along each axis; indices of gather/scatter views count elements."""
    view = e.view(op.operands["src"])
    type, found = view.type, []
    for k, result in enumerate(op.results):
        axis, step = k, 1
        if type.sparse_dim is None:
            axis, step = type.dim_map[k], (type.steps or type.tile_shape)[k]
        length, dtype = view.tensor.shape[axis], number_type(result.type)
        if isinstance(length, int):
            found.append(e.constant(-(-length // step), dtype))
            continue
        by = e.constant(step, length.tile.element)
        count = length if step == 1 else e.emit(arith.Div, length, by, rounding=RoundingMode.RP)
        found.append(e.cast(count, dtype))
    return found


def _promised(op: Operation, rank: int) -> tuple[bool, ...]:
    given = tuple(op.attributes["inbounds"])
    return given or (False,) * rank


def _load_view(e: Context, op: Operation, view: View, index: Sequence[Value]) -> Value:
    indices = [_wide(e, v) for v in index]
    if view.value is None:
        pointers, inside = _gathered(e, view, indices)
        padding = None
        if _padding(view.type) is not PaddingMode.UNDETERMINED:
            dtype = view.tensor.type.dtype
            value = ours.padding_value(_padding(view.type), dtype)
            padding = e.constant(value, dtype, view.type.tile_shape)
        return e.emit(ours.Load, pointers, inside, padding, **order_of(op), **_hints(op, "latency"))
    promised = {"in_bounds": _promised(op, len(indices))}
    return e.emit(ours.LoadView, view.value, indices, **promised, **order_of(op), **_hints(op, "latency", "allow_tma"))


def _store_view(e: Context, op: Operation, tile: Value, view: View, index: Sequence[Value]) -> None:
    indices = [_wide(e, v) for v in index]
    if view.value is None:
        pointers, inside = _gathered(e, view, indices)
        e.emit_op(ours.Store, pointers, tile, inside, **order_of(op), **_hints(op, "latency"))
        return
    promised = {"in_bounds": _promised(op, len(indices))}
    hints = _hints(op, "latency", "allow_tma")
    e.emit_op(ours.StoreView, view.value, tile, indices, **promised, **order_of(op), **hints)


def _gathered(e: Context, view: View, indices: Sequence[Value]) -> tuple[Value, Value]:
    """The addresses of a tile of a gather/scatter view, and which of them lie in the tensor.

    Along the axes that are not gathered, an index is that of the first element, not of a tile.
    """
    extents, rank = view.type.tile_shape, len(view.type.tile_shape)
    if len(indices) != rank:
        raise e.error(f"{len(indices)} indices for {view.type}; one for each axis is expected")
    offset: Value | None = None
    inside: Value | None = None
    for k, index in enumerate(indices):
        position = e.cast(index, int64)
        line = tuple(n if axis == k else 1 for axis, n in enumerate(extents))
        if k == view.type.sparse_dim:
            if index.tile.shape != (extents[k],):
                raise e.error(f"index {k} has type {index.type}; {extents[k]} positions are expected")
            along = e.emit(shape.Reshape, position, shape=line)
        else:
            steps = e.emit(shape.Reshape, e.emit(shape.Iota, type=TileType(int64, (extents[k],))), shape=line)
            along = e.emit(arith.Add, e.builder.splat(position, line), steps)
        within = _within(e, along, view.tensor.shape[k])
        stride = e.builder.splat(e.number(view.tensor.strides[k], int64), line)
        moved = e.emit(shape.Broadcast, e.emit(arith.Mul, along, stride), shape=extents)
        here = e.emit(shape.Broadcast, within, shape=extents)
        offset = moved if offset is None else e.emit(arith.Add, offset, moved)
        inside = here if inside is None else e.emit(arith.And, inside, here)
    assert rank and offset is not None and inside is not None
    return e.emit(shape.PtrOffset, e.builder.splat(view.tensor.base, extents), offset), inside


def _within(e: Context, positions: Value, extent: Value | int) -> Value:
    """Which positions are from 0 to ``extent``."""
    extents = positions.tile.shape
    low = e.emit(arith.Cmp, positions, e.constant(0, int64, extents), predicate=CmpPredicate.GE)
    end = e.builder.splat(e.number(extent, int64), extents)
    return e.emit(arith.And, low, e.emit(arith.Cmp, positions, end, predicate=CmpPredicate.LT))


# -- pointers


def _load(e: Context, op: Operation, source: Value, mask: Value | None, padding: Value | None) -> Value:
    addresses = _addresses(op.results[0].type)
    if addresses is not None and padding is not None:
        padding = e.emit(shape.PtrToInt, padding, dtype=int64)
    if mask is None:
        padding = None
    made = e.emit(ours.Load, source, mask, padding, **order_of(op), **_hints(op, "latency"))
    return made if addresses is None else e.emit(shape.IntToPtr, made, dtype=addresses)


def _addresses(type: Any) -> PointerType | None:
    """What elements point to that are pointers themselves."""
    if isinstance(type, Tile) and isinstance(type.element, Pointer):
        found = element_type(type.element)
        assert isinstance(found, PointerType)
        return found
    return None


def _store(e: Context, op: Operation, destination: Value, value: Value, mask: Value | None) -> None:
    if _addresses(op.operands["value"].type) is not None:
        value = e.emit(shape.PtrToInt, value, dtype=int64)
    e.emit_op(ours.Store, destination, value, mask, **order_of(op), **_hints(op, "latency"))


def _as_mode(e: Context, mode: str, pointers: Value, arg: Value) -> tuple[Value, Value]:
    """Pointers and values of the sign that ``mode`` reads."""
    if not mode.startswith("u"):
        return pointers, arg
    dtype = unsigned(dtype_in(e, arg))
    return e.emit(arith.Bitcast, pointers, dtype=PointerType(dtype)), e.cast(arg, dtype)


def _atomic_rmw(e: Context, op: Operation, pointers: Value, arg: Value, mask: Value | None) -> Value:
    mode = op.attributes["mode"]
    pointers, value = _as_mode(e, mode, pointers, arg)
    old = e.emit(ours.AtomicRmw, pointers, value, mask, kind=_ATOMIC[mode], **order_of(op))
    return e.cast(old, dtype_in(e, arg))


def _atomic_view(e: Context, op: Operation, view: View, index: Sequence[Value], value: Value) -> None:
    mode, order, indices = op.attributes["mode"], order_of(op), [_wide(e, v) for v in index]
    if view.value is None:
        pointers, inside = _gathered(e, view, indices)
        pointers, value = _as_mode(e, mode, pointers, value)
        e.emit_op(ours.AtomicRmw, pointers, value, inside, kind=_ATOMIC[mode], **order)
        return
    partition = view.value
    if mode.startswith("u"):
        tensor, dtype = view.tensor, unsigned(dtype_in(e, value))
        base = e.emit(arith.Bitcast, tensor.base, dtype=PointerType(dtype))
        numbers = [[n for n in group if isinstance(n, Value)] for group in (tensor.shape, tensor.strides)]
        again = make_tensor_view(e, base, dtype, tensor.type.shape, tensor.type.strides, *numbers)
        partition, value = _partition(e, again, view.type), e.cast(value, dtype)
    e.emit_op(ours.AtomicView, partition, value, indices, kind=_ATOMIC[mode], **order)


def _alloca(e: Context, op: Operation) -> Value:
    dtype = pointer_of(e, op).pointee
    assert dtype is not None
    if op.attributes["global"]:
        return e.memory[shared_name(op)]
    return e.emit(ours.LocalArray, dtype=dtype, count=op.attributes["num_elem"])


def shared_name(op: Operation) -> str:
    """What the memory of an ``alloca`` that all blocks share is called."""
    return f"<alloca at {op.offset}>"


def _get_global(e: Context, op: Operation) -> Value:
    name = op.attributes["name"]
    if name not in e.memory:
        raise e.error(f"there is no global {name}")
    return e.memory[name]


# -- output


def _print(e: Context, op: Operation, values: Sequence[Value]) -> None:
    text, formats = op.attributes["str"], []
    parts: list[str | None] = []
    for before, match in conversions(text):
        parts.append(before)
        if match is None:
            break
        if match["kind"] not in KINDS:
            parts.append(match.group())
            continue
        parts.append(None)
        formats.append(match.group().replace(f"{match['length'] or ''}{match['kind']}", match["kind"]))
    if len(formats) != len(values):
        raise e.error(f"the format {text!r} has {len(formats)} conversions for {len(values)} values")
    shown = [as_unsigned(e, v) if f[-1] in "ouxX" and _is_integer(v) else v for v, f in zip(values, formats)]
    e.emit_op(ours.Print, shown, parts=joined(parts), formats=tuple(formats))


def _is_integer(value: Value) -> bool:
    return not value.tile.is_pointer and value.tile.element.is_integer


def _assert(e: Context, op: Operation, condition: Value) -> None:
    e.emit_op(ours.Assert, condition, [], message=op.attributes["message"])


def _multimem(e: Context, op: Operation, *operands: Any) -> None:
    raise e.error(
        "ops on memory of several GPUs need a multi-GPU runtime and multicast memory, which tilewright does not have; "
        "compile this kernel with tileiras"
    )


def nothing(e: Context, op: Operation) -> None:
    """Tokens and fences: our ops take effect in program order, and so do launches."""


HANDLERS: dict[str, Callable[..., Any]] = {
    "make_tensor_view": _tensor_view,
    **dict.fromkeys(("make_partition_view", "make_strided_view", "make_gather_scatter_view"), _view),
    "get_tensor_shape": _tensor_shape,
    "get_index_space_shape": _index_space_shape,
    "load_view_tko": _load_view,
    "store_view_tko": _store_view,
    "load_ptr_tko": _load,
    "store_ptr_tko": _store,
    "atomic_rmw_tko": _atomic_rmw,
    "atomic_cas_tko": lambda e, op, *operands: e.emit(ours.AtomicCas, *operands, **order_of(op)),
    "atomic_red_view_tko": _atomic_view,
    "alloca": _alloca,
    "get_global": _get_global,
    "print_tko": _print,
    "assert": _assert,
    **dict.fromkeys(
        ("multimem_load_reduce_view_tko", "multimem_store_view_tko", "multimem_reduce_view_tko"), _multimem
    ),
    **dict.fromkeys(
        ("make_token", "join_tokens", "memory_fence_alias_tko", "gdc_wait_tko", "gdc_launch_dependents_tko"), nothing
    ),
}
