"""Integers and addresses as a sum of what the thread contributes and a constant for each register.

The indices of a tile are an ``iota``, of which each register adds a constant to what lane and warp give. Where that is
known, a thread computes one address, and its accesses have the constants as offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from tilewright.backends.gpu.lowering.assembly import I64
from tilewright.backends.gpu.lowering.scalars import pointee_bytes
from tilewright.ir.core import Op
from tilewright.ir.ops.arith import Add, Cast, Mul
from tilewright.ir.ops.shape import PtrOffset

if TYPE_CHECKING:
    from tilewright.backends.gpu.lowering.context import Context

_FAR = 1 << 30  # offsets in instructions are smaller


@dataclass(frozen=True)
class Place:
    """``base`` + ``offset``, both not negative and their sum below 2**31 if they are ``bounded`` by it; else modulo the
    width of the type."""

    base: ir.Value
    offset: int
    bound: int | None = None  # the largest sum, where it is known


class Places:
    """What is known of the values of a function, and the sums of bases that were made, of which each is made once."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self._builder = builder
        self._places: dict[ir.Value, Place] = {}
        self._made: dict[Any, tuple[ir.Block, ir.Value]] = {}

    def of(self, value: ir.Value) -> Place:
        return self._places.get(value) or Place(value, 0)

    def known(self, value: ir.Value) -> Place | None:
        return self._places.get(value)

    def at(self, place: Place) -> ir.Value:
        """The value of ``place``, which is remembered."""
        if not place.offset:
            self._places[place.base] = place
            return place.base
        found = self._builder.add(place.base, ir.Constant(place.base.type, place.offset))
        self._places[found] = place
        return found

    def once(self, key: Any, make: Callable[[], ir.Value]) -> ir.Value:
        """What ``make`` gives, made once in a basic block."""
        found = self._made.get(key)
        if found is None or found[0] is not self._builder.block:
            found = self._made[key] = self._builder.block, make()
        return found[1]


def emit(cx: Context, op: Op, operands: list[ir.Value]) -> ir.Value | None:
    """One register of the result of ``op``, if it is such a sum."""
    places = cx.places
    if isinstance(op, PtrOffset):
        return _pointer(cx, op, *operands)
    if isinstance(op, Cast):
        place = places.known(operands[0])
        target = op.dtype
        if place is None or place.bound is None or not (target.is_integer and op.x.tile.element.is_integer):
            return None
        if target.bitwidth != 64 or place.base.type == I64:
            return None
        base = places.once(("wide", place.base), lambda: cx.builder.zext(place.base, I64))
        return places.at(Place(base, place.offset, place.bound))
    if isinstance(op, Add) and op.result.tile.element.is_integer:
        x, y = operands
        if places.known(x) is None and places.known(y) is None:
            return None
        a, b = places.of(x), places.of(y)
        if a.offset + b.offset >= min(_FAR, 1 << a.base.type.width - 1):
            return None
        base = places.once(("sum", a.base, b.base), lambda: cx.builder.add(a.base, b.base))
        bound = None if a.bound is None or b.bound is None else a.bound + b.bound
        return places.at(Place(base, a.offset + b.offset, bound if bound is None or bound < _FAR else None))
    if isinstance(op, Mul) and op.result.tile.element.is_integer:
        return _product(cx, *operands)
    return None


def _product(cx: Context, x: ir.Value, y: ir.Value) -> ir.Value | None:
    places = cx.places
    if isinstance(x, ir.Constant):
        x, y = y, x
    place = places.known(x)
    if place is None or not isinstance(y, ir.Constant):
        return None
    factor = int(getattr(y, "value", None) or y.constant or 0)
    reach = max(place.offset, place.bound or 0) * factor
    if factor <= 0 or reach >= min(_FAR, 1 << place.base.type.width - 1):
        return None
    base = places.once(("product", place.base, factor), lambda: cx.builder.mul(place.base, y))
    return places.at(Place(base, place.offset * factor, None if place.bound is None else place.bound * factor))


def _pointer(cx: Context, op: PtrOffset, pointer: ir.Value, offset: ir.Value) -> ir.Value | None:
    places, b = cx.places, cx.builder
    p, o = places.of(pointer), places.of(offset)
    size = pointee_bytes(op.ptr.tile.dtype)
    if places.known(offset) is None or p.offset + o.offset * size >= _FAR:
        return None
    if o.base.type != I64 and o.bound is None:
        return None  # the sum may have wrapped

    def make() -> ir.Value:
        wide = o.base if o.base.type == I64 else b.zext(o.base, I64)
        return b.add(p.base, b.mul(wide, ir.Constant(I64, size)) if size > 1 else wide)

    base = places.once(("pointer", p.base, o.base, size), make)
    return places.at(Place(base, p.offset + o.offset * size))
