"""Type rules and operands shared by op declarations."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.dtypes import DType, bool_
from tilewright.ir.enums import RoundingMode
from tilewright.ir.opdef import IRError, operand
from tilewright.ir.types import PointerType, TileType, Type, check_tile_shape

IEEE_MODES = (RoundingMode.RN, RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP)
INTEGER_DIV_MODES = (RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP)


class Unary(Op):
    """An op of one operand, besides further ones."""

    x: Value = operand()


class Binary(Op):
    """An op of two operands."""

    lhs: Value = operand()
    rhs: Value = operand()


def require(condition: object, op: Op, message: str, *values: object) -> None:
    """IRError with ``message`` unless ``condition`` holds. ``values`` take the places of ``{}`` in it: rules that run
    for almost every op make their messages only when they need one."""
    if not condition:
        raise IRError(f"{op.name}: {message.format(*values) if values else message}")


def same_tiles(op: Op, *values: Value) -> TileType:
    """The common type of ``values``, which must be tiles of one dtype and shape."""
    first = tile(op, values[0])
    for v in values[1:]:
        if v.type is not first and v.type != first:
            raise IRError(f"{op.name}: operand types differ: {first} and {v.type}")
    return first


def numeric(op: Op, *values: Value) -> DType:
    """The common dtype of ``values``, which must be numeric tiles of one type."""
    t = same_tiles(op, *values)
    if t.is_pointer:
        raise IRError(f"{op.name}: {t} holds pointers")
    return t.element


def tile(op: Op, value: Value) -> TileType:
    if not isinstance(value.type, TileType):
        raise IRError(f"{op.name}: operand type {value.type} is not a tile")
    return value.type


def scalar_integer(op: Op, *values: Value) -> None:
    for v in values:
        t = tile(op, v)
        if t.rank or t.is_pointer or not t.element.is_integer:
            raise IRError(f"{op.name}: {t} is not an integer scalar")


def pointers(op: Op, value: Value) -> TileType:
    t = tile(op, value)
    require(t.is_pointer, op, "{} does not hold pointers", t)
    return t


def bool_like(op: Op, mask: Value | None, like: TileType) -> None:
    """``mask``, if there is one, has a bool for each element of ``like``, at the same index."""
    if mask is not None:
        want = like.with_dtype(bool_)
        require(mask.type == want, op, "mask type {}, expected {}", mask.type, want)


def tile_shape(op: Op, shape: tuple[int, ...]) -> None:
    problem = check_tile_shape(shape)
    require(problem is None, op, problem or "")


def pointee(op: Op, t: TileType) -> DType:
    require(isinstance(t.dtype, PointerType) and t.dtype.pointee is not None, op, "{} holds untyped pointers", t)
    return t.pointee


def region_args(op: Op, block: Block, types: tuple[Type, ...]) -> None:
    found = tuple(a.type for a in block.args)
    require(found == types, op, "region arguments {}, expected {}", list(found), list(types))


def types_of(values: Sequence[Value]) -> tuple[Type, ...]:
    return tuple(v.type for v in values)
