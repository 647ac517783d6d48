"""Accesses through pointer tiles: runs of consecutive addresses are found, so that they need no gather."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.backends.cpu.codegen import scalars
from tilewright.backends.cpu.codegen.position import Pattern, Position, common_step, is_uniform, strides_of
from tilewright.backends.cpu.codegen.state import storage_bytes
from tilewright.backends.cpu.codegen.views import LaneAddresses
from tilewright.backends.cpu.loops.vectorize import LONGEST_STEP
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.ops.arith import Add, Cast, Mul, Sub
from tilewright.ir.ops.shape import REARRANGING, Iota, PtrOffset, constant_of
from tilewright.records import NamedTuple

if TYPE_CHECKING:
    from tilewright.backends.cpu.codegen.elements import Elements


class _Line(NamedTuple):
    """Lane l has the value ``first`` + ``pattern[l]``; pointers count bytes."""

    first: ir.Value
    level: int
    pattern: Pattern | None


def locate(elements: Elements, ptrs: Value, position: Position) -> LaneAddresses:
    """Where the elements lie that the pointers at ``position`` refer to."""
    item = storage_bytes(ptrs.tile.pointee)
    if not is_uniform(position):
        line = _line(elements, ptrs, position)
        if line is not None and line.pattern is not None:
            step, rest = divmod(common_step(line.pattern), item)
            if 0 < step <= LONGEST_STEP and not rest:
                return LaneAddresses(line.first, len(line.pattern), step, line.level)
    found = elements.at(ptrs, position)
    return LaneAddresses(found.value, found.lanes, 0, found.level)


def _line(elements: Elements, value: Value, position: Position) -> _Line | None:
    """``value`` as a line, if it is recognised as one.

    A signed offset that wrapped around within a vector would lie outside of any array, so that need not be minded.
    """
    op = value.op if value not in elements.state.bindings else None
    if isinstance(op, Iota):
        flat = elements.map.flatten(position, strides_of(value.tile.shape))
        if flat.pattern is not None:
            first = elements.at(value, elements.map.unflatten(flat.first_lane(), value.tile.shape))
            return _Line(first.value, first.level, tuple(p - flat.pattern[0] for p in flat.pattern))
    elif isinstance(op, REARRANGING) and type(op) in elements.rearranged:
        return _line(elements, op.x, elements.rearranged[type(op)](elements, op, position))
    elif op is not None and (scales := _scales(op)):
        return _combined(elements, op, position, scales)
    found = elements.at(value, position)
    return _Line(found.value, found.level, None) if found.lanes is None else None


def _scales(op: Op) -> tuple[int, ...]:
    """What the pattern of each operand is multiplied by in that of the result; none where that has no pattern."""
    if isinstance(op, PtrOffset):
        return 1, storage_bytes(op.result.tile.pointee)
    if isinstance(op, (Add, Sub)):
        return 1, 1 if isinstance(op, Add) else -1
    if isinstance(op, Mul) and not op.result.tile.element.is_floating:
        factors = [int(c) for c in map(constant_of, op.operands) if c is not None]
        return (factors[0], factors[0]) if factors else ()
    return (1,) if _is_widening(op) else ()


def _is_widening(op: Op) -> bool:
    if not isinstance(op, Cast):
        return False
    source, dtype = op.x.tile.dtype, op.result.tile.dtype
    if not isinstance(source, DType) or not isinstance(dtype, DType):
        return False
    return source.is_integer and dtype.is_integer and source.bitwidth <= dtype.bitwidth


def _combined(elements: Elements, op: Op, position: Position, scales: tuple[int, ...]) -> _Line | None:
    """A sum, a difference, a multiple, or a conversion, of lines."""
    if not op.result.tile.is_pointer and op.result.tile.element.is_floating:
        return None
    lines = []
    for v in op.operands:
        line = _line(elements, v, position)
        if line is None:
            return None
        lines.append(line)
    level = max(line.level for line in lines)
    builder = elements.nest.builders[level]
    first = scalars.emit(elements.state.emitter(builder), builder, op, [line.first for line in lines])
    moving = [[p * scale for p in line.pattern] for line, scale in zip(lines, scales) if line.pattern is not None]
    if moving and _may_wrap(elements, op):
        return None
    return _Line(first, level, tuple(map(sum, zip(*moving))) if moving else None)


def _may_wrap(elements: Elements, op: Op) -> bool:
    """Whether numbers that grow from lane to lane may be small again after the largest one. Of 64 bits they may, as
    addresses do the same."""
    if not isinstance(op, (Add, Sub, Mul)):
        return False
    t = op.result.tile.element
    return t.bitwidth < (32 if t.is_signed else 64) and elements.state.affine.index(op.result) is None
