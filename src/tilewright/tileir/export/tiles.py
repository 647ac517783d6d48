"""Ops that create and rearrange tiles as ops of CUDA Tile IR."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from tilewright.ir import core
from tilewright.ir.core import Op
from tilewright.ir.dtypes import int32, uint8
from tilewright.ir.ops import memory, shape
from tilewright.ir.types import PointerType, TileType
from tilewright.tileir.export.arith import convert, raw
from tilewright.tileir.export.emitter import Emitter, scalar, splat_of, tile_of
from tilewright.tileir.module import BoundedAttr, DivByAttr, SameElementsAttr, Value
from tilewright.tileir.types import I8, I32, Scalar, Tile


def is_splat(e: Emitter, op: Any) -> bool:
    """Whether ``op`` is a tile of equal numbers, which is known then."""
    result, value = op.results[0], _value(op.attributes)
    t = result.type
    if t.dtype.__class__ is PointerType:
        return False
    e.splats[result] = splat_of(t.dtype, value, t.shape)
    return True


_value = operator.itemgetter("value")


def _undefined(e: Emitter, op: shape.Undefined) -> Value:
    if not isinstance(op.type, TileType):
        raise e.error(f"an undefined {op.type}, and only tiles may be")
    return e.null(op.type) if op.type.is_pointer else e.constant(op.type.element, 0, op.type.shape)


def _iota(e: Emitter, op: shape.Iota) -> Value:
    t = e.result(op)
    flat = e.make["iota"](e, {}, tile_of(t.element, (math.prod(t.shape),)))
    return flat if len(t.shape) == 1 else e.make["reshape"](e, {"source": flat}, t)


def _respread(name: str) -> Callable[[Emitter, Any], Value | None]:
    """An op that gives a tile another shape, which equal elements have without it."""

    def handler(e: Emitter, op: Any) -> Value | None:
        source, result = op.x, op.results[0]
        known = e.splats.get(source)
        if known is None:
            return e.make[name](e, {"source": e[source]}, e.result(op))
        e.splats[result] = known[0], known[1], result.type.shape
        return None

    return handler


def _permute(e: Emitter, op: shape.Permute) -> Value:
    if op.result.tile.rank < 2:
        return e[op.x]
    return e.make["permute"](e, {"source": e[op.x]}, e.result(op), permutation=op.axes)


def _grid_index(e: Emitter, values: list[core.Value]) -> list[Value]:
    return [convert(e, e[v], v.tile.element, int32) for v in values]


def _extract(e: Emitter, op: shape.Extract) -> Value:
    return e.make["extract"](e, {"source": e[op.x], "indices": _grid_index(e, op.indices)}, e.result(op))


def _insert(e: Emitter, op: shape.Insert) -> Value:
    indices = _grid_index(e, op.indices)
    return e.make["insert"](e, {"source": e[op.value], "destination": e[op.x], "indices": indices}, e.result(op))


def _pack(e: Emitter, op: shape.Pack) -> Value:
    """``pack`` takes rank 1, and elements that are no bytes."""
    t = op.x.tile
    flat = e[op.x]
    if t.rank != 1:
        flat = e.make["reshape"](e, {"source": flat}, tile_of(scalar(t.element), (t.size,)))
    if t.element.bitwidth != 8:
        return e.make["pack"](e, {"source": flat}, e.result(op))
    return flat if scalar(t.element) == I8 else e.make["bitcast"](e, {"source": flat}, e.result(op))


def _unpack(e: Emitter, op: shape.Unpack) -> Value:
    if op.dtype.bitwidth != 8:
        return e.make["unpack"](e, {"source": e[op.x]}, e.result(op))
    return e[op.x] if scalar(op.dtype) == scalar(uint8) else e.make["bitcast"](e, {"source": e[op.x]}, e.result(op))


def along(e: Emitter, extents: tuple[int, ...], axis: int) -> Value:
    """0, 1, 2, ... along ``axis`` of a tile."""
    line = tuple(n if k == axis else 1 for k, n in enumerate(extents))
    flat = e.make["iota"](e, {}, tile_of(I32, (extents[axis],)))
    column = e.make["reshape"](e, {"source": flat}, tile_of(I32, line))
    return e.make["broadcast"](e, {"source": column}, tile_of(I32, extents))


_div_by = functools.lru_cache(maxsize=256)(DivByAttr)
bounded = functools.lru_cache(maxsize=256)(BoundedAttr)


def _divisible(e: Emitter, op: memory.AssumeDivisible) -> Value:
    value, divisor = e[op.x], _promise(op.attributes)
    if not e.divisors or divisor[0] & (divisor[0] - 1):  # there it is a power of two
        return value
    return e.make["assume"](e, {"value": value}, value.type, predicate=_div_by(*divisor))


_promise = operator.itemgetter("divisor", "every", "along")


def _bounded(e: Emitter, op: memory.AssumeBounded) -> Value:
    if not op.x.tile.element.is_signed:  # there the numbers are signed
        return e[op.x]
    return e.make["assume"](e, {"value": e[op.x]}, e.result(op), predicate=bounded(op.lower, op.upper))


def another(e: Emitter, value: Value) -> Value:
    """The tile ``value`` as a value of its own."""
    numbers = raw(e, value) or value
    assert isinstance(numbers.type, Tile)
    if isinstance(numbers.type.element, Scalar) and not numbers.type.element.is_integer:
        return value
    found = e.make["assume"](e, {"value": numbers}, numbers.type, predicate=_div_by(1))
    return found if numbers is value else e.make["bitcast"](e, {"source": found}, value.type)


def ask_grid(e: Emitter, name: str) -> None:
    """Append the op ``name``, whose results the ops after it in this block see."""
    e.known.update({(name, axis): v for axis, v in enumerate(e.make[name](e, {}, [tile_of(I32)] * 3))})


def _of_grid(name: str) -> Callable[[Emitter, Any], Value]:
    def handler(e: Emitter, op: Any) -> Value:
        if (name, op.axis) not in e.known:  # in a combiner, which sees nothing from around it
            ask_grid(e, name)
        return e.known[name, op.axis]

    return handler


HANDLERS: dict[type[Op], Any] = {
    shape.Constant: lambda e, op: e.null(op.type),  # a tile of pointers: the others are splats
    shape.Undefined: _undefined,
    shape.Iota: _iota,
    shape.Reshape: _respread("reshape"),
    shape.Broadcast: _respread("broadcast"),
    shape.Permute: _permute,
    shape.Cat: lambda e, op: e.make["cat"](e, {"lhs": e[op.lhs], "rhs": e[op.rhs]}, e.result(op), dim=op.axis),
    shape.Extract: _extract,
    shape.Insert: _insert,
    shape.Pack: _pack,
    shape.Unpack: _unpack,
    memory.AssumeDivisible: _divisible,
    memory.AssumeBounded: _bounded,
    memory.AssumeBlocked: lambda e, op: e.make["assume"](
        e, {"value": e[op.x]}, e.result(op), predicate=SameElementsAttr(op.shape)
    ),
    memory.Bid: _of_grid("get_tile_block_id"),
    memory.NumBlocks: _of_grid("get_num_tile_blocks"),
}
