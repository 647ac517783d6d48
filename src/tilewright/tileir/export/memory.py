"""Views, memory ops and output as ops of CUDA Tile IR."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.ir import core
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType, bfloat16, int32, int64
from tilewright.ir.enums import AtomicKind, CmpPredicate, MemoryScope, PaddingMode
from tilewright.ir.hints import UNSPECIFIED, ByTarget
from tilewright.ir.ops import arith, control, linear, memory, shape
from tilewright.ir.types import PartitionViewType, PointerType
from tilewright.tileir.errors import VersionError
from tilewright.tileir.export.arith import compare, convert, raw
from tilewright.tileir.export.emitter import Emitter, scalar, tile_of
from tilewright.tileir.export.tiles import along
from tilewright.tileir.module import ArrayAttr, Attribute, BoolAttr, DictAttr, HintsAttr, IntegerAttr, Value
from tilewright.tileir.types import I32, TOKEN, Pointer, Scalar, TensorView, Tile, TileView, Type

_SCOPES = {
    MemoryScope.BLOCK: "tl_blk",
    MemoryScope.CLUSTER: "device",  # the next wider one
    MemoryScope.DEVICE: "device",
    MemoryScope.SYS: "sys",
}
_ARRAY_ALIGNMENT = 16  # bytes, at least
_THREADS = 256  # that work on tiles, at num_worker_warps=8; 128 by default


_WEAK: dict[str, Any] = {"memory_ordering_semantics": "weak", "memory_scope": None}


def order_of(op: Any) -> dict[str, Any]:
    if op.memory_order is memory.WEAK:
        return _WEAK
    scope = _SCOPES.get(op.memory_scope, "device")
    return {"memory_ordering_semantics": op.memory_order.value, "memory_scope": scope}


def _ordered(
    e: Emitter, op: Op, name: str, operands: dict[str, Any], type: Type | None, attributes: dict[str, Any]
) -> Value:
    """Append a memory op, after those that it comes after. Returns its first result, of ``type``, or else its token."""
    tokens = e.tokens
    operands["token"] = tokens.before(op)
    if type is None:
        found = token = e.make[name](e, operands, TOKEN, **attributes)
    else:
        found, token = e.make[name](e, operands, (type, TOKEN), **attributes)
    tokens.after(op, token)
    return found


def by_architecture(hints: dict[str, Any], minor: int) -> HintsAttr | None:
    """``hints`` by architecture; those for every one need version 13.3, and are left out before."""
    found: dict[str, list[tuple[str, Attribute]]] = {}
    for key, hint in hints.items():
        values = dict(hint.values) if isinstance(hint, ByTarget) else {}
        default = hint.default if isinstance(hint, ByTarget) else hint
        if default is not UNSPECIFIED and minor >= 3:
            values["default"] = default
        for architecture, value in values.items():
            if value is not None:
                made: Attribute = BoolAttr(value) if isinstance(value, bool) else IntegerAttr(I32, value)
                found.setdefault(architecture, []).append((key, made))
    if not found:
        return None
    return HintsAttr(tuple((a, DictAttr(tuple(entries))) for a, entries in found.items()))


def _may_use_tma(e: Emitter, op: memory.LoadView | memory.StoreView) -> bool:
    """Not where a loop carries what it loads: ``tileiras`` 13.5 loads the next tile into the same memory too early. Nor
    where a tile is stored again: it is taken from shared memory, which another tile may have been stored from since.
    Nor where it is a part of another: it is taken from behind that. Nor backward. Nor where memory is accessed after a
    write, for which it does not wait; nor, beside a product, a store in a ``for`` that stands for a branch: it may wait
    for such stores without end.
    """
    if e.tokens.may_be_late(op) or _is_backward(op.view.type.view.strides):  # type: ignore[union-attr]
        return False
    if isinstance(op, memory.LoadView):
        return not _is_carried(op.results[0])
    stored = op.value
    while type(stored.owner) is shape.Reshape:
        stored = stored.owner.x
    if type(stored.owner) is shape.Extract or next(_stores(stored)) is not op:
        return False
    return linear.Mma not in e.tokens.kinds or not _is_in_a_branch(op)


def _is_in_a_branch(op: Op) -> bool:
    """Whether ``op`` is in a ``for`` of one iteration or none, as ``KeepBarriers`` writes branches."""
    return any(type(loop) is control.For and type(loop.upper.owner) is arith.Select for loop in op.ancestors)


def _stores(value: core.Value) -> Iterator[memory.StoreView]:
    """The stores of ``value`` through views, in its own shape or another."""
    for user in value.users:
        if isinstance(user, memory.StoreView) and user.value is value:
            yield user
        elif isinstance(user, shape.Reshape):
            yield from _stores(user.results[0])


def _is_carried(value: core.Value) -> bool:
    """Whether a loop has ``value`` in its next iteration, in its own shape or another."""
    for user in value.users:
        if type(user) is control.Continue or (type(user) in _MOVES and _is_carried(user.results[0])):
            return True
    return False


_MOVES = (shape.Reshape, shape.Permute)


def _hinted(e: Emitter, op: Any) -> dict[str, Any]:
    """The order and the hints of an access through pointers."""
    latency = op.latency
    return {**order_of(op), "optimization_hints": None if latency is None else _access_hints(None, latency, e.minor)}


@functools.lru_cache(maxsize=None, typed=True)
def _access_hints(tma: Any, latency: Any, minor: int) -> HintsAttr | None:
    hints = {"allow_tma": tma, "latency": latency}
    return by_architecture({name: hint for name, hint in hints.items() if hint is not None}, minor)


Extents = tuple[int | None, ...]


@functools.cache
def _view_type(dtype: DType, *declared: Extents) -> TensorView:
    """Static extents and strides are positive there; others become dynamic."""
    shape, strides = (tuple(n if n is not None and n > 0 else None for n in numbers) for numbers in declared)
    return TensorView(scalar(dtype), shape, strides)


def _tensor_view(e: Emitter, op: memory.MakeTensorView) -> Value:
    if (found := e.get(op.results[0])) is not None:  # made before a loop
        return found
    t = op.type
    if not t.shape:  # a view there has an axis at least: accesses go through the pointer
        return e[op.base]
    made, operands = _view_type(t.dtype, t.shape, t.strides), op.operands
    key = id(made), t.index_dtype, *map(e.splats.get, operands, operands)
    return e.known.get(key) or e.known.setdefault(key, _made_tensor_view(e, op, made))


def _made_tensor_view(e: Emitter, op: memory.MakeTensorView, made: TensorView) -> Value:
    t, shape, strides = op.type, op.shape, op.strides  # those that are dynamic
    index, extents, given = t.index_dtype, len(shape), [*shape, *strides]
    dtypes: list[Any] = [v.type.dtype for v in given]  # type: ignore[union-attr]
    signed = e.kernel.negative_strides or _is_backward(t.strides)
    if dtypes.count(index) == extents + len(strides) and not signed:  # as most are
        left = list(map(e.__getitem__, given))
    else:
        if signed or max([d.bitwidth for d in dtypes]) > max(32, index.bitwidth):
            index = int64
        left = [e[v] if dtype is index else convert(e, e[v], dtype, index) for v, dtype in zip(given, dtypes)]
    dynamic, steps = left[:extents], left[extents:]
    if made.shape != t.shape or made.strides != t.strides:
        dynamic, steps = _with_constants(e, index, t.shape, dynamic), _with_constants(e, index, t.strides, steps)
    return e.make["make_tensor_view"](e, {"base": e[op.base], "dynamicShape": dynamic, "dynamicStrides": steps}, made)


@functools.cache
def _is_backward(strides: Extents) -> bool:
    """Whether one is known to be negative, which ``tileiras`` 13.5 reads as such in 64 bits only."""
    return any(n is not None and n < 0 for n in strides)


def _with_constants(e: Emitter, index: DType, declared: Extents, dynamic: list[Value]) -> list[Value]:
    """Extents or strides that are ``dynamic`` there: those of ours, and those that are not positive."""
    left = iter(dynamic)
    return [next(left) if n is None else e.constant(index, n) for n in declared if n is None or n <= 0]


def _partition_view(e: Emitter, op: memory.MakePartitionView) -> Value:
    if (found := e.get(op.results[0])) is not None:
        return found
    t, view = op.type, e[op.view]
    if not t.view.shape:
        return view
    of = t.view
    made = _tile_view_type(t.tile_shape, t.order, t.padding._value_, t.steps, of.dtype, of.shape, of.strides)
    if e.minor < 3:  # there it is in the block of the accesses
        return _made_partition_view(e, op, made)
    return e.known.get((id(made), view)) or e.known.setdefault((id(made), view), _made_partition_view(e, op, made))


def _made_partition_view(e: Emitter, op: memory.MakePartitionView, made: TileView) -> Value:
    return e.make[f"make_{made.kind}"](e, {"tensor_view": e[op.view]}, made)


@functools.cache
def _tile_view_type(
    shape: tuple[int, ...], order: tuple[int, ...], mode: str, steps: tuple[int, ...], of: DType, *view: Extents
) -> TileView:
    """Integers are padded with zero, where ``_with_extremes`` puts what else they may be padded with."""
    padding = None if mode == PaddingMode.UNDETERMINED.value else mode if of.is_floating else "zero"
    return TileView(shape, _view_type(of, *view), order, padding, None if steps in ((), shape) else steps)


def _indices(e: Emitter, values: Sequence[core.Value]) -> list[Value]:
    """Indices of one type."""
    found = e.all(values)
    of = found[0].type
    for v in found:
        if v.type is not of and v.type != of:
            return [_wide(e, v) for v in values]
    return found


def _wide(e: Emitter, value: core.Value) -> Value:
    return convert(e, e[value], value.tile.element, int64)


def _viewed(e: Emitter, op: Any) -> dict[str, Any]:
    """The order, the hints and the promises of an access to a view."""
    tma, latency, in_bounds, order = _asked(op.attributes)
    if tma is not False and not (e.may_use_tma and _may_use_tma(e, op)):
        tma = False
    hints = None if tma is None and latency is None else _access_hints(tma, latency, e.minor)
    ordered = _WEAK if order is memory.WEAK else order_of(op)
    return {**ordered, "optimization_hints": hints, "inbounds": in_bounds if e.minor >= 4 else ()}


_asked = operator.itemgetter("allow_tma", "latency", "in_bounds", "memory_order")


def _loaded(e: Emitter, op: Op, name: str, operands: dict[str, Any], attributes: dict[str, Any]) -> Value:
    """A load. Where a tile of fewer elements than a CTA has threads is used in several layouts, ``tileiras`` 13.5 loads
    it once more for each, behind stores to the same address, too. It does not do so behind a reduction, which here is
    one of single elements, with their bits as they are."""
    type = e.result(op)
    value = _ordered(e, op, name, operands, type, attributes)
    if not e.tokens.is_written(op) or (math.prod(type.shape) >= _THREADS and not e.kernel.keep_loads):
        return value
    numbers = raw(e, value)
    if numbers is None:
        return value
    assert isinstance(numbers.type, Tile) and isinstance(numbers.type.element, Scalar)
    bits = numbers.type.element
    value = e.make["reshape"](e, {"source": numbers}, tile_of(bits, (*type.shape, 1)))
    identities, reduced = _zero(bits), [tile_of(bits, type.shape)]
    found = e.make["reduce"](e, {"operands": [value]}, reduced, dim=len(type.shape), identities=identities)
    sides = [Value(tile_of(bits)), Value(tile_of(bits))]
    with e.region(sides, e.known):
        both = e.make["ori"](e, dict(zip(("lhs", "rhs"), sides)), tile_of(bits))
        e.make["yield"](e, {"operands": [both]})
    e.writer.define(found)
    kept = found[0]
    return kept if type.element is bits else e.make["bitcast"](e, {"source": kept}, type)


@functools.cache
def _zero(bits: Scalar) -> ArrayAttr:
    return ArrayAttr((IntegerAttr(bits, 0),))


def through_memory(e: Emitter, op: Op, value: Value) -> Value:
    """``value``, a tile with axes, stored to an array of its own and loaded again, for ``op``. The array of the next
    iteration is the same memory: ``tileiras`` 13.5 stores to it when tokens say that this iteration has loaded."""
    assert isinstance(value.type, Tile)
    extents, count = value.type.shape, math.prod(value.type.shape)
    pointer = Pointer(value.type.element)
    array = e.make["alloca"](e, {}, tile_of(pointer), num_elem=count, alignment=_ARRAY_ALIGNMENT)
    array = e.make["reshape"](e, {"source": array}, tile_of(pointer, (1,) * len(extents)))
    array = e.make["broadcast"](e, {"source": array}, tile_of(pointer, extents))
    offsets = e.make["iota"](e, {}, tile_of(I32, (count,)))
    offsets = e.make["reshape"](e, {"source": offsets}, tile_of(I32, extents))
    pointers = e.make["offset"](e, {"ptr": array, "offset": offsets}, tile_of(pointer, extents))
    stored = {"destination": pointers, "value": value, "token": e.tokens.before(op)}
    token = e.make["store_ptr_tko"](e, stored, TOKEN, **_WEAK)
    loaded, token = e.make["load_ptr_tko"](e, {"source": pointers, "token": token}, [value.type, TOKEN], **_WEAK)
    e.tokens.after(op, token)
    return loaded


def _load_view(e: Emitter, op: memory.LoadView) -> Value:
    view = op.view
    t: Any = view.type
    if not t.view.shape:
        return _loaded(e, op, "load_ptr_tko", {"source": e[view]}, order_of(op))
    operands = {"view": e[view], "index": _indices(e, op.indices)}
    value = _loaded(e, op, "load_view_tko", operands, _viewed(e, op))
    extreme = t.padding in _EXTREME and not t.view.dtype.is_floating
    return _with_extremes(e, op, value, t) if extreme else value


_EXTREME = (PaddingMode.POS_INF, PaddingMode.NEG_INF)


def _with_extremes(e: Emitter, op: memory.LoadView, value: Value, t: PartitionViewType) -> Value:
    """``value`` with the largest or the smallest integer outside of the array."""
    assert isinstance(op.view.op, memory.MakePartitionView) and isinstance(op.view.op.view.op, memory.MakeTensorView)
    dynamic = iter(op.view.op.view.op.shape)
    extents = [_wide(e, next(dynamic)) if n is None else e.constant(int64, n) for n in t.view.shape]
    one = tile_of(scalar(int64))
    for k, (axis, step) in enumerate(zip(t.order, t.steps)):
        if op.in_bounds[k]:
            continue
        index = _wide(e, op.indices[k])
        start = e.make["muli"](e, {"lhs": index, "rhs": e.constant(int64, step)}, one, overflow="none")
        left = e.make["subi"](e, {"lhs": extents[axis], "rhs": start}, one, overflow="none")
        left = e.make["reshape"](e, {"source": left}, tile_of(scalar(int64), (1,) * len(t.tile_shape)))
        left = e.make["broadcast"](e, {"source": left}, tile_of(scalar(int64), t.tile_shape))
        inside = compare(e, int64, CmpPredicate.LT, convert(e, along(e, t.tile_shape, k), int32, int64), left)
        outside = e.constant(t.view.dtype, memory.padding_value(t.padding, t.view.dtype), t.tile_shape)
        value = e.make["select"](e, {"cond": inside, "val_if_true": value, "val_if_false": outside}, e.result(op))
    return value


def _store_view(e: Emitter, op: memory.StoreView) -> None:
    view, value = op.view, e[op.value]
    if not view.type.view.shape:  # type: ignore[union-attr]
        _ordered(e, op, "store_ptr_tko", {"destination": e[view], "value": value}, None, order_of(op))
        return
    operands = {"tile": value, "view": e[view], "index": _indices(e, op.indices)}
    _ordered(e, op, "store_view_tko", operands, None, _viewed(e, op))


def _mask(e: Emitter, op: Any) -> Value | None:
    return None if op.mask is None else e[op.mask]


def _load(e: Emitter, op: memory.Load) -> Value:
    padding = None if op.padding is None or op.mask is None else e[op.padding]
    operands = {"source": e[op.ptrs], "mask": _mask(e, op), "paddingValue": padding}
    return _loaded(e, op, "load_ptr_tko", operands, _hinted(e, op))


def _store(e: Emitter, op: memory.Store) -> None:
    operands = {"destination": e[op.ptrs], "value": e[op.value], "mask": _mask(e, op)}
    _ordered(e, op, "store_ptr_tko", operands, None, _hinted(e, op))


_BFLOAT16_SUMS = 3  # the version that brought them


def _mode(e: Emitter, kind: AtomicKind, value: core.Value) -> str:
    dtype = value.tile.element
    if kind is AtomicKind.ADD and dtype.is_floating:
        if dtype == bfloat16 and e.minor < _BFLOAT16_SUMS:
            said = f"an atomic add of bfloat16 needs bytecode 13.{_BFLOAT16_SUMS}, which 13.{e.minor} lacks"
            raise VersionError(e.where(said))
        return "addf"
    unsigned = kind in (AtomicKind.MAX, AtomicKind.MIN) and not dtype.is_signed
    return f"u{kind.value}" if unsigned else kind.value


def _atomic_rmw(e: Emitter, op: memory.AtomicRmw) -> Value:
    operands = {"pointers": e[op.ptrs], "arg": e[op.value], "mask": _mask(e, op)}
    result = e.result(op)
    old = _ordered(e, op, "atomic_rmw_tko", operands, result, {**order_of(op), "mode": _mode(e, op.kind, op.value)})
    if op.mask is None:
        return old
    zero = e.constant(op.value.tile.element, 0, result.shape)  # what our IR gives where nothing is done
    return e.make["select"](e, {"cond": e[op.mask], "val_if_true": old, "val_if_false": zero}, result)


def _atomic_cas(e: Emitter, op: memory.AtomicCas) -> Value:
    operands = {"pointers": e[op.ptrs], "cmp": e[op.expected], "val": e[op.desired], "mask": _mask(e, op)}
    return _ordered(e, op, "atomic_cas_tko", operands, e.result(op), order_of(op))


def _atomic_view(e: Emitter, op: memory.AtomicView) -> None:
    operands = {"view": e[op.view], "index": _indices(e, op.indices), "value": e[op.value]}
    _ordered(e, op, "atomic_red_view_tko", operands, None, {**order_of(op), "mode": _mode(e, op.kind, op.value)})


def _local_array(e: Emitter, op: memory.LocalArray) -> Value:
    return e.make["alloca"](e, {}, e.result(op), num_elem=op.count, alignment=max(op.dtype.bytes, _ARRAY_ALIGNMENT))


def _assert(e: Emitter, op: memory.Assert) -> None:
    message = op.message.replace("{}", "?") if op.values else op.message
    e.make["assert"](e, {"condition": e[op.condition]}, message=message)


def _conversion(value: core.Value) -> str:
    t = value.tile
    if isinstance(t.dtype, PointerType):
        return "%p"
    if t.dtype.is_floating:
        return "%f"
    wide = "ll" if t.dtype.bitwidth == 64 else ""
    return f"%{wide}{'d' if t.dtype.is_signed or t.dtype.is_bool else 'u'}"


def _print(e: Emitter, op: memory.Print) -> None:
    holes = iter(zip(op.values, op.formats))
    text: list[str] = []
    for part in op.parts:
        if part is not None:
            text.append(part.replace("%", "%%"))
            continue
        value, given = next(holes)
        text.append(given or _conversion(value))
    if e.minor < 2:  # without tokens
        e.make["print_tko"](e, {"args": e.all(op.values)}, TOKEN, str="".join(text))
        return
    _ordered(e, op, "print_tko", {"args": e.all(op.values)}, None, {"str": "".join(text)})


HANDLERS: dict[type[Op], Any] = {
    memory.MakeTensorView: _tensor_view,
    memory.MakePartitionView: _partition_view,
    memory.LoadView: _load_view,
    memory.StoreView: _store_view,
    memory.Load: _load,
    memory.Store: _store,
    memory.AtomicRmw: _atomic_rmw,
    memory.AtomicCas: _atomic_cas,
    memory.AtomicView: _atomic_view,
    memory.LocalArray: _local_array,
    memory.Assert: _assert,
    memory.Assume: lambda e, op: None,  # a promise, and not needed
    memory.Print: _print,
}
