"""Between which numbers the elements of a tile lie: asked once for a whole tile, so that its loops need no tests."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tilewright.backends.cpu.codegen import lanes
from tilewright.backends.cpu.codegen.elements import Elements
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import open_chunks
from tilewright.backends.cpu.codegen.state import State, storage_bytes
from tilewright.backends.cpu.loops.ranges import WIDE_BITS, range_source
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.ir.core import Value
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Add, And, Cmp
from tilewright.ir.ops.shape import REARRANGING, PtrOffset
from tilewright.records import NamedTuple

_WIDE = ir.IntType(WIDE_BITS)  # of the numbers here: nothing wraps around
# A comparison holds for all elements if it does for the ends; whether that is the high end of the left operand.
_ENDS = {
    CmpPredicate.LT: ("<", True),
    CmpPredicate.LE: ("<=", True),
    CmpPredicate.GT: (">", False),
    CmpPredicate.GE: (">=", False),
}


class ValueRange(NamedTuple):
    """No element is less than ``low`` or greater than ``high``, signed numbers."""

    low: ir.Value
    high: ir.Value


class ValueRanges:
    """Value ranges of tiles, computed in front of the loops that they are for.

    ``loops.ranges`` says for which there are any.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._known: dict[Value, ValueRange] = {}

    def all_true(self, mask: Value) -> ir.Value:
        """i1: surely every element of ``mask`` is true."""
        op, builder = mask.op, self._state.builder
        if mask.tile.size == 1:
            return self._state.scalar(mask)
        assert op is not None
        if isinstance(op, REARRANGING):
            return self.all_true(op.x)
        if isinstance(op, And):
            return builder.and_(self.all_true(op.lhs), self.all_true(op.rhs))
        assert isinstance(op, Cmp)
        left, right = map(self._of, op.operands)
        sign, high = _ENDS[op.predicate]
        ends = (left.high, right.low) if high else (left.low, right.high)
        return builder.icmp_signed(sign, *ends)

    def disjoint(self, pointers: Value, low: ir.Value, high: ir.Value) -> ir.Value:
        """i1: surely ``pointers`` refer to no byte between the addresses ``low`` and ``high``."""
        found, builder = self._of(pointers), self._state.builder
        end = builder.add(found.high, ir.Constant(_WIDE, storage_bytes(pointers.tile.pointee)))
        below = builder.icmp_signed("<=", end, builder.zext(low, _WIDE))
        above = builder.icmp_signed(">=", found.low, builder.zext(high, _WIDE))
        sound = builder.icmp_unsigned("<", builder.or_(found.low, end), ir.Constant(_WIDE, 1 << 63))
        return builder.and_(builder.or_(below, above), sound)

    def _of(self, value: Value) -> ValueRange:
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: Value) -> ValueRange:
        if value.tile.size == 1:
            scalar = self._widen(value, self._state.scalar(value))
            return ValueRange(scalar, scalar)
        source = range_source(value, self._state.bindings.__contains__)
        if source is None:
            return self._search(value)
        if isinstance(source, tuple):
            low, high = (ir.Constant(_WIDE, n) for n in source)
            return ValueRange(low, high)
        if isinstance(source, Value):
            return self._of(source)
        left, right = map(self._of, source.operands)
        if isinstance(source, PtrOffset):
            return self._moved(left, right, value)
        return self._sum(left, right) if isinstance(source, Add) else self._product(left, right)

    def _sum(self, x: ValueRange, y: ValueRange) -> ValueRange:
        builder = self._state.builder
        return ValueRange(builder.add(x.low, y.low), builder.add(x.high, y.high))

    def _product(self, x: ValueRange, y: ValueRange) -> ValueRange:
        builder = self._state.builder
        products = [builder.mul(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
        low = high = products[0]
        for p in products[1:]:
            low, high = _lesser(builder, low, p, True), _greater(builder, high, p, True)
        return ValueRange(low, high)

    def _moved(self, base: ValueRange, offset: ValueRange, value: Value) -> ValueRange:
        item = ir.Constant(_WIDE, 1 if value.tile.pointee is None else storage_bytes(value.tile.pointee))
        builder = self._state.builder
        distance = ValueRange(builder.mul(offset.low, item), builder.mul(offset.high, item))
        return self._sum(base, distance)

    def _search(self, value: Value) -> ValueRange:
        """Look at every element, by vectors."""
        t, state = value.tile, self._state
        signed, bits = t.element.is_signed, t.element.bitwidth
        width = min(state.processor.lanes(element_bytes(t.dtype)), t.size)
        type_ = ir.VectorType(ir.IntType(bits), width)
        ends = [state.slot(type_) for _ in range(2)]
        extremes = (-1 << (bits - 1), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        for slot, start in zip(ends, reversed(extremes)):
            state.builder.store(lanes.integers(type_.element, [start] * width), slot)
        nest = Nest(state.builder)
        elements = Elements(state, nest)
        found = elements.vector(elements.at(value, open_chunks(nest, t.shape, width)), width)
        for slot, choose in zip(ends, (_lesser, _greater)):
            nest.builder.store(choose(nest.builder, nest.builder.load(slot, typ=type_), found, signed), slot)
        while nest.level:
            nest.end()
        low, high = (self._reduce_lanes(slot, choose, signed) for slot, choose in zip(ends, (_lesser, _greater)))
        return ValueRange(self._widen(value, low), self._widen(value, high))

    def _reduce_lanes(self, slot: ir.Value, choose: Callable[..., ir.Value], signed: bool) -> ir.Value:
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


def _lesser(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    return builder.select(_less(builder, a, b, signed), a, b)


def _greater(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    return builder.select(_less(builder, a, b, signed), b, a)


def _less(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    return builder.icmp_signed("<", a, b) if signed else builder.icmp_unsigned("<", a, b)
