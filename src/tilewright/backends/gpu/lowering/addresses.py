"""Integers and addresses as a sum of what the thread contributes and a constant for each register.

The indices of a tile are an ``iota``, of which each register adds a constant to what lane and warp give. Where that is
known, a thread computes one address, and its accesses have the constants as offsets. Where rows lie a number apart that
only the launch knows, a loop adds that, times powers of two, to the address of another row: so it keeps no offset of
each row in registers. Outside of loops each row has a product of its own: sums of sums would wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from llvmlite import ir

from tilewright.backends.gpu.lowering.assembly import I64
from tilewright.backends.gpu.lowering.integers import is_narrow
from tilewright.backends.gpu.lowering.patterns import number_of
from tilewright.backends.gpu.lowering.scalars import pointee_bytes
from tilewright.ir.core import Op
from tilewright.ir.ops.arith import Add, Cast, Mul
from tilewright.ir.ops.shape import PtrOffset

if TYPE_CHECKING:
    from tilewright.backends.gpu.lowering.context import Context

_FAR = 1 << 30  # offsets in instructions are smaller


@dataclass(frozen=True)
class BaseOffset:
    """``base`` + ``offset``, both not negative and their sum below 2**31 if they are ``bounded`` by it; else modulo the
    width of the type."""

    base: ir.Value
    offset: int
    bound: int | None = None  # the largest sum, where it is known


class _Stepped(NamedTuple):
    """``first`` and so many ``times`` a number ``apart``, modulo 2**64; found in a ``block``."""

    first: ir.Value
    apart: ir.Value
    times: int
    block: ir.Block


class BaseOffsets:
    """What is known of the values of a function, and the sums of bases that were made, of which each is made once."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self._builder = builder
        self._parts: dict[ir.Value, BaseOffset] = {}
        self._made: dict[Any, tuple[ir.Block, ir.Value]] = {}
        self.steps: dict[ir.Value, _Stepped] = {}  # what bases are as well

    def of(self, value: ir.Value) -> BaseOffset:
        return self._parts.get(value) or BaseOffset(value, 0)

    def known(self, value: ir.Value) -> BaseOffset | None:
        return self._parts.get(value)

    def at(self, parts: BaseOffset) -> ir.Value:
        """The value of ``parts``, which is remembered."""
        if not parts.offset:
            self._parts[parts.base] = parts
            return parts.base
        found = self._builder.add(parts.base, ir.Constant(parts.base.type, parts.offset))
        self._parts[found] = parts
        return found

    def once(self, key: Any, make: Callable[[], ir.Value]) -> ir.Value:
        """What ``make`` gives, made once in a basic block."""
        found = self._made.get(key)
        if found is None or found[0] is not self._builder.block:
            found = self._made[key] = self._builder.block, make()
        return found[1]

    def stepped(self, first: ir.Value, apart: ir.Value, count: int) -> ir.Value:
        """``first`` and ``count`` times a number ``apart``: one addition to what has fewer."""
        if not count:
            return first
        b, last = self._builder, count & -count
        step = self.once(("step", apart, last), lambda: b.mul(apart, ir.Constant(I64, last)))
        return self.once(("steps", first, apart, count), lambda: b.add(self.stepped(first, apart, count - last), step))


def may_be_sum(op: Op) -> bool:
    """Whether ``emit`` knows ops like that."""
    if isinstance(op, (Add, Mul, Cast)):
        return (
            not op.result.tile.is_pointer and op.result.tile.element.is_integer and not is_narrow(op.result.tile.dtype)
        )
    return isinstance(op, PtrOffset)


def emit(cx: Context, op: Op, operands: Sequence[ir.Value]) -> ir.Value | None:
    """One register of the result of ``op``, if it is such a sum."""
    offsets = cx.base_offsets
    if isinstance(op, PtrOffset):
        return _pointer(cx, op, *operands)
    if isinstance(op, Cast):
        parts = offsets.known(operands[0])
        target = op.dtype
        if parts is None or parts.bound is None or not (target.is_integer and op.x.tile.element.is_integer):
            return None
        if target.bitwidth != 64 or parts.base.type == I64:
            return None
        base = offsets.once(("wide", parts.base), lambda: cx.builder.zext(parts.base, I64))
        return offsets.at(BaseOffset(base, parts.offset, parts.bound))
    if isinstance(op, Add) and op.result.tile.element.is_integer:
        x, y = operands
        if offsets.known(x) is None and offsets.known(y) is None:
            return None
        a, b = offsets.of(x), offsets.of(y)
        if a.offset + b.offset >= min(_FAR, 1 << a.base.type.width - 1):
            return None
        base = _sum(cx, a.base, b.base)
        if (a.base in offsets.steps) != (b.base in offsets.steps):
            v, other = (a.base, b.base) if a.base in offsets.steps else (b.base, a.base)
            first = _sum(cx, offsets.steps[v].first, other)
            offsets.steps[base] = offsets.steps[v]._replace(first=first, block=cx.builder.block)
        bound = None if a.bound is None or b.bound is None else a.bound + b.bound
        return offsets.at(BaseOffset(base, a.offset + b.offset, bound if bound is None or bound < _FAR else None))
    if isinstance(op, Mul) and op.result.tile.element.is_integer:
        return _product(cx, *operands)
    return None


def _sum(cx: Context, x: ir.Value, y: ir.Value) -> ir.Value:
    return cx.base_offsets.once(("sum", x, y), lambda: cx.builder.add(x, y))


def _product(cx: Context, x: ir.Value, y: ir.Value) -> ir.Value | None:
    offsets = cx.base_offsets
    if isinstance(x, ir.Constant):
        x, y = y, x
    parts = offsets.known(x)
    number = number_of(y)
    if parts is None:
        return None
    if number is None:
        if y.type != I64 or offsets.known(y) is not None:
            return None
        found = cx.builder.mul(x, y)
        first = offsets.once(("product", parts.base, y), lambda: cx.builder.mul(parts.base, y))
        offsets.steps[found] = _Stepped(first, y, parts.offset, cx.builder.block)
        return found
    factor = int(number)
    reach = max(parts.offset, parts.bound or 0) * factor
    if factor <= 0 or reach >= min(_FAR, 1 << parts.base.type.width - 1):
        return None
    base = offsets.once(("product", parts.base, factor), lambda: cx.builder.mul(parts.base, y))
    return offsets.at(BaseOffset(base, parts.offset * factor, None if parts.bound is None else parts.bound * factor))


def _pointer(cx: Context, op: PtrOffset, pointer: ir.Value, offset: ir.Value) -> ir.Value | None:
    offsets, b = cx.base_offsets, cx.builder
    p, o = offsets.of(pointer), offsets.of(offset)
    size = pointee_bytes(op.ptr.tile.dtype)
    rows = offsets.steps.get(o.base)
    if rows is not None and rows.block is b.block:
        rows = None
    if (offsets.known(offset) is None and rows is None) or p.offset + o.offset * size >= _FAR:
        return None
    if o.base.type != I64 and o.bound is None:
        return None  # the sum may have wrapped

    first = o.base if rows is None else rows.first

    def make() -> ir.Value:
        wide = first if first.type == I64 else b.zext(first, I64)
        return b.add(p.base, b.mul(wide, ir.Constant(I64, size)) if size > 1 else wide)

    base = offsets.once(("pointer", p.base, first, size), make)
    if rows is not None:
        base = offsets.stepped(base, rows.apart, rows.times * size)
    return offsets.at(BaseOffset(base, p.offset + o.offset * size))
