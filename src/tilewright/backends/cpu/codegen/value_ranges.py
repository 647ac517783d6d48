"""Between which numbers the elements of a tile lie: asked once for a whole tile, so that its loops need no tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from llvmlite import ir

from tilewright.backends.cpu.codegen import lanes
from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.elements import Elements
from tilewright.backends.cpu.codegen.fusion import FusionGroup
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import open_chunks
from tilewright.backends.cpu.codegen.state import State, storage_bytes
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.ir.core import Op, Value
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Add, And, Cast, Cmp, Mul
from tilewright.ir.ops.memory import AssumeBlocked, AssumeBounded, AssumeDivisible
from tilewright.ir.ops.shape import REARRANGING, Constant, Iota, PtrOffset

_WIDE = ir.IntType(128)  # of the numbers here: nothing wraps around
_PROMISES = (AssumeDivisible, AssumeBounded, AssumeBlocked)
# A comparison holds for all elements if it does for the ends; whether that is the high end of the left operand.
_ENDS = {
    CmpPredicate.LT: ("<", True),
    CmpPredicate.LE: ("<=", True),
    CmpPredicate.GT: (">", False),
    CmpPredicate.GE: (">=", False),
}


@dataclass(frozen=True)
class ValueRange:
    """No element is less than ``low`` or greater than ``high``, signed numbers of at most ``bits`` bits."""

    low: ir.Value
    high: ir.Value
    bits: int


class ValueRanges:
    """ValueRanges of tiles, computed in front of the loops that they are for.

    To find them, loops look at tiles of at most ``largest`` elements; ``materialize`` puts what is loaded in buffers.
    """

    def __init__(self, state: State, largest: int, materialize: Callable[[State, Value], Buffer]) -> None:
        self._state = state
        self._largest = largest
        self._materialize = materialize
        self._known: dict[Value, ValueRange | None] = {}

    def all_true(self, mask: Value) -> ir.Value | None:
        """i1: surely every element of ``mask`` is true. None when ranges do not tell."""
        op, builder = mask.op, self._state.builder
        if mask.tile.size == 1:
            return self._state.scalar(mask)
        if op is None or mask in self._state.bindings:
            return None
        if isinstance(op, REARRANGING):
            return self.all_true(op.x)
        if isinstance(op, And):
            x, y = map(self.all_true, op.operands)
            return None if x is None or y is None else builder.and_(x, y)
        if not isinstance(op, Cmp) or op.predicate not in _ENDS:
            return None
        left, right = map(self._of, op.operands)
        if left is None or right is None:
            return None
        sign, high = _ENDS[op.predicate]
        ends = (left.high, right.low) if high else (left.low, right.high)
        return builder.icmp_signed(sign, *ends)

    def apart(self, pointers: Value, low: ir.Value, high: ir.Value) -> ir.Value | None:
        """i1: surely ``pointers`` refer to no byte between the addresses ``low`` and ``high``, or None."""
        found, builder = self._of(pointers), self._state.builder
        if found is None:
            return None
        end = builder.add(found.high, ir.Constant(_WIDE, storage_bytes(pointers.tile.pointee)))
        below = builder.icmp_signed("<=", end, builder.zext(low, _WIDE))
        above = builder.icmp_signed(">=", found.low, builder.zext(high, _WIDE))
        sound = builder.icmp_unsigned("<", builder.or_(found.low, end), ir.Constant(_WIDE, 1 << 63))
        return builder.and_(builder.or_(below, above), sound)

    def _of(self, value: Value) -> ValueRange | None:
        """None when it is not worth its cost, or the elements are neither integers nor pointers."""
        if value not in self._known:
            t = value.tile
            integers = t.is_pointer or (t.element.is_integer and not t.element.is_bool and t.element.bitwidth <= 64)
            self._known[value] = self._find(value) if integers else None
        return self._known[value]

    def _find(self, value: Value) -> ValueRange | None:
        op, t = value.op, value.tile
        if t.size == 1:
            scalar = self._widen(value, self._state.scalar(value))
            return ValueRange(scalar, scalar, _bits(value))
        if op is None or value in self._state.bindings:
            return self._search(value)
        if isinstance(op, Constant):
            number = int(op.value)
            return ValueRange(ir.Constant(_WIDE, number), ir.Constant(_WIDE, number), number.bit_length() + 1)
        if isinstance(op, Iota) and t.size <= 1 << (t.element.bitwidth - t.element.is_signed):
            return ValueRange(ir.Constant(_WIDE, 0), ir.Constant(_WIDE, t.size - 1), t.size.bit_length() + 1)
        if isinstance(op, REARRANGING + _PROMISES) or _is_widening(op):
            return self._of(op.x)
        combine = _COMBINING.get(type(op))
        if combine is None or not (t.is_pointer or (t.element.bitwidth == 64 and t.element.is_signed)):
            return self._search(value)
        left, right = map(self._of, op.operands)
        return None if left is None or right is None else combine(self, left, right, value)

    def _sum(self, x: ValueRange, y: ValueRange, value: Value) -> ValueRange | None:
        builder = self._state.builder
        return _known_size(builder.add(x.low, y.low), builder.add(x.high, y.high), max(x.bits, y.bits) + 1)

    def _product(self, x: ValueRange, y: ValueRange, value: Value) -> ValueRange | None:
        builder = self._state.builder
        products = [builder.mul(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
        low = high = products[0]
        for p in products[1:]:
            low, high = _lesser(builder, low, p, True), _greater(builder, high, p, True)
        return _known_size(low, high, x.bits + y.bits)

    def _moved(self, base: ValueRange, offset: ValueRange, value: Value) -> ValueRange | None:
        item = ir.Constant(_WIDE, 1 if value.tile.pointee is None else storage_bytes(value.tile.pointee))
        builder = self._state.builder
        distance = ValueRange(builder.mul(offset.low, item), builder.mul(offset.high, item), offset.bits + 4)
        return self._sum(base, distance, value)

    def _search(self, value: Value) -> ValueRange | None:
        """Look at every element, by vectors."""
        t, state = value.tile, self._state
        if t.is_pointer or t.size > self._largest:
            return None
        for load in FusionGroup(state, [value], None).loads():
            if load.result.tile.size > 1:
                self._materialize(state, load.result)
        signed, bits = t.element.is_signed, t.element.bitwidth
        width = min(state.processor.lanes(element_bytes(t.dtype)), t.size)
        type_ = ir.VectorType(ir.IntType(bits), width)
        ends = [state.slot(type_) for _ in range(2)]
        extremes = (-1 << (bits - 1), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        for slot, start in zip(ends, reversed(extremes)):
            state.builder.store(lanes.integers(type_.element, [start] * width), slot)
        nest = Nest(state.builder)
        elements = Elements(state, nest, state.accesses, True)
        found = elements.vector(elements.at(value, open_chunks(nest, t.shape, width)), width)
        for slot, choose in zip(ends, (_lesser, _greater)):
            nest.builder.store(choose(nest.builder, nest.builder.load(slot, typ=type_), found, signed), slot)
        while nest.level:
            nest.end()
        low, high = (self._fold(slot, choose, signed) for slot, choose in zip(ends, (_lesser, _greater)))
        return ValueRange(self._widen(value, low), self._widen(value, high), _bits(value))

    def _fold(self, slot: ir.Value, choose: Callable[..., ir.Value], signed: bool) -> ir.Value:
        """The least or greatest lane."""
        builder = self._state.builder
        rest = builder.load(slot, typ=slot.allocated_type)
        while rest.type.count > 2:
            half = rest.type.count // 2
            low, high = (lanes.shuffle(builder, rest, range(at, at + half)) for at in (0, half))
            rest = choose(builder, low, high, signed)
        ends = [builder.extract_element(rest, ir.Constant(ir.IntType(32), lane)) for lane in range(2)]
        return choose(builder, *ends, signed)

    def _widen(self, value: Value, register: ir.Value) -> ir.Value:
        t, builder = value.tile, self._state.builder
        signed = not t.is_pointer and t.element.is_signed
        return builder.sext(register, _WIDE) if signed else builder.zext(register, _WIDE)


_COMBINING: dict[type[Op], Callable[[ValueRanges, ValueRange, ValueRange, Value], ValueRange | None]] = {
    Add: ValueRanges._sum,
    Mul: ValueRanges._product,
    PtrOffset: ValueRanges._moved,
}


def _bits(value: Value) -> int:
    """Of the signed numbers that hold every element of ``value``."""
    op, t = value.op, value.tile
    if op is not None and (isinstance(op, REARRANGING + _PROMISES) or _is_widening(op)):
        return _bits(op.x)
    return 65 if t.is_pointer else t.element.bitwidth + (not t.element.is_signed)


def _known_size(low: ir.Value, high: ir.Value, bits: int) -> ValueRange | None:
    """The range, unless its ends may not fit in the numbers used here."""
    return ValueRange(low, high, bits) if bits < _WIDE.width else None


def _lesser(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    return builder.select(_less(builder, a, b, signed), a, b)


def _greater(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    return builder.select(_less(builder, a, b, signed), b, a)


def _less(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    return builder.icmp_signed("<", a, b) if signed else builder.icmp_unsigned("<", a, b)


def _is_widening(op: Op) -> TypeGuard[Cast]:
    """Whether ``op`` is a conversion that keeps every number."""
    if not isinstance(op, Cast):
        return False
    source, result = op.x.tile, op.result.tile
    if source.is_pointer or result.is_pointer or not (source.element.is_integer and result.element.is_integer):
        return False
    room = result.element.bitwidth - source.element.bitwidth
    return room >= 0 if source.element.is_signed == result.element.is_signed else room > 0 and result.element.is_signed
