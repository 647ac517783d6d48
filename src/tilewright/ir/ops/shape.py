"""Ops that create tiles and rearrange their elements. C++ reference 2.7 to 2.9."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, uint8, with_article
from tilewright.ir.opdef import attribute, define, operand, operands
from tilewright.ir.ops.rules import Binary, Unary, require, scalar_integer, tile, tile_shape
from tilewright.ir.types import PointerType, TileType, Type

if TYPE_CHECKING:
    from tilewright.ir.builder import Builder


@define("constant")
class Constant(Op):
    """A tile whose elements all equal ``value``: a Python bool, int or float that the dtype can hold.

    A pointer constant has the integer value of the address; only 0, the null pointer, is meaningful.
    """

    value: bool | int | float = attribute(bool, int, float)
    type: TileType = attribute(TileType)

    def infer(self) -> tuple[Type, ...]:
        dtype = self.type.dtype
        tile_shape(self, self.type.shape)
        if isinstance(dtype, DType) and not dtype.is_floating:
            require(isinstance(self.value, int), self, "{!r} is not {}", self.value, with_article(dtype))
            require(dtype.min <= self.value <= dtype.max, self, "{!r} is out of range for {}", self.value, dtype)
        return (self.type,)


@define("iota")
class Iota(Op):
    """The integers 0, 1, 2, ... in row-major order."""

    type: TileType = attribute(TileType)

    def infer(self) -> tuple[Type, ...]:
        tile_shape(self, self.type.shape)
        require(not self.type.is_pointer and self.type.element.is_integer, self, "{} is not an integer tile", self.type)
        return (self.type,)


@define("undefined")
class Undefined(Op):
    """A value that no correct program depends on: default-constructed tiles, and joins of paths that never use it."""

    type: TileType = attribute(TileType)

    def infer(self) -> tuple[Type, ...]:
        return (self.type,)


@define("reshape")
class Reshape(Unary):
    """The elements of ``x`` in row-major order, as a tile of ``shape``."""

    shape: tuple[int, ...] = attribute(tuple)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        tile_shape(self, self.shape)
        require(t.size == math.prod(self.shape), self, "{} does not have the elements of shape {}", t, self.shape)
        if t.layout is not None and self.shape:
            return (t.with_layout(t.layout.reshape(self.shape)),)
        return (t.with_shape(self.shape),)

    def canonicalize(self, builder: Builder) -> Value | None:
        if isinstance(self.x.op, Iota):
            return builder.emit(Iota, type=self.result.tile)
        simple = _unchanged(self) or _refilled(self, builder)
        if simple is None and isinstance(inner := self.x.op, Reshape):
            source = inner.x
            return source if source.type == self.result.type else builder.emit(Reshape, source, shape=self.shape)
        return simple


@define("broadcast")
class Broadcast(Unary):
    """x repeated along its dimensions of length 1 to ``shape``, which has the same rank."""

    shape: tuple[int, ...] = attribute(tuple)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        tile_shape(self, self.shape)
        require(t.rank == len(self.shape), self, "{} and shape {} differ in rank", t, self.shape)
        for have, want in zip(t.shape, self.shape):
            require(have in (1, want), self, "{} does not broadcast to shape {}", t, self.shape)
        return (t.with_shape(self.shape),)

    def canonicalize(self, builder: Builder) -> Value | None:
        simple = _unchanged(self) or _refilled(self, builder)
        if simple is None and isinstance(inner := self.x.op, Broadcast):
            return builder.emit(Broadcast, inner.x, shape=self.shape)
        return simple


@define("permute")
class Permute(Unary):
    """Axis ``k`` of the result is axis ``axes[k]`` of x."""

    axes: tuple[int, ...] = attribute(tuple)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        require(sorted(self.axes) == list(range(t.rank)), self, "axes {} are no permutation for {}", self.axes, t)
        if t.layout is not None:
            return (t.with_layout(t.layout.permute(self.axes)),)
        return (t.with_shape(tuple(t.shape[a] for a in self.axes)),)

    def canonicalize(self, builder: Builder) -> Value | None:
        if self.axes == tuple(range(len(self.axes))):
            return self.x
        simple = _refilled(self, builder)
        if simple is None and isinstance(inner := self.x.op, Permute):
            axes = tuple(inner.axes[a] for a in self.axes)
            return inner.x if axes == tuple(range(len(axes))) else builder.emit(Permute, inner.x, axes=axes)
        return simple


@define("cat")
class Cat(Binary):
    """lhs followed by rhs along ``axis``."""

    axis: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        a, b = tile(self, self.lhs), tile(self, self.rhs)
        fit = 0 <= self.axis < a.rank and a.rank == b.rank and a.dtype == b.dtype
        require(fit, self, "cannot join {} and {}", a, b)
        shape = list(a.shape)
        shape[self.axis] += b.shape[self.axis]
        rest = [(m, n) for i, (m, n) in enumerate(zip(a.shape, b.shape)) if i != self.axis]
        require(all(m == n for m, n in rest), self, "cannot join {} and {} along axis {}", a, b, self.axis)
        tile_shape(self, tuple(shape))
        return (a.with_shape(tuple(shape)),)


def _subtile(op: Op, whole: TileType, part: tuple[int, ...], indices: list[Value]) -> None:
    require(whole.rank == len(part) == len(indices), op, "{}, shape {}, {} indices", whole, part, len(indices))
    require(all(n % m == 0 for n, m in zip(whole.shape, part)), op, "{} is not a grid of {} tiles", whole, part)
    scalar_integer(op, *indices)


@define("extract")
class Extract(Unary):
    """The subtile of ``shape`` at grid index ``indices`` of x; an index outside the grid wraps around."""

    indices: list[Value] = operands()
    shape: tuple[int, ...] = attribute(tuple)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        _subtile(self, t, self.shape, self.indices)
        return (t.with_shape(self.shape),)

    def canonicalize(self, builder: Builder) -> Value | None:
        return _unchanged(self)


@define("insert")
class Insert(Unary):
    """x with the subtile at grid index ``indices`` replaced by ``value``; an index outside the grid wraps around."""

    value: Value = operand()
    indices: list[Value] = operands()

    def infer(self) -> tuple[Type, ...]:
        t, v = tile(self, self.x), tile(self, self.value)
        require(t.dtype == v.dtype, self, "cannot insert {} into {}", v, t)
        _subtile(self, t, v.shape, self.indices)
        return (t,)


@define("pack")
class Pack(Unary):
    """The bytes of x in row-major, little-endian order, as a rank-1 uint8 tile."""

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        bits = t.size * t.element.bitwidth
        require(bits % 8 == 0 and not t.element.is_bool, self, "{} does not fill whole bytes", t)
        return (TileType(uint8, (bits // 8,)),)


@define("unpack")
class Unpack(Unary):
    """The inverse of ``pack``: a rank-1 tile of ``dtype`` made from a rank-1 uint8 tile."""

    dtype: DType = attribute(DType)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        require(t.dtype == uint8 and t.rank == 1 and not self.dtype.is_bool, self, "cannot unpack {}", t)
        require(t.size * 8 % self.dtype.bitwidth == 0, self, "{} does not divide into {} elements", t, self.dtype)
        return (TileType(self.dtype, (t.size * 8 // self.dtype.bitwidth,)),)


@define("ptr_offset", elementwise=True)
class PtrOffset(Op):
    """The pointer ``offset`` elements (bytes for untyped pointers) after ``ptr``.

    ``in_array`` promises that it stays in the array of ``ptr``, or just behind its last element.
    """

    ptr: Value = operand()
    offset: Value = operand()
    in_array: bool = attribute(bool, default=False)

    def infer(self) -> tuple[Type, ...]:
        p, o = tile(self, self.ptr), tile(self, self.offset)
        require(p.is_pointer and not o.is_pointer and o.element.is_integer, self, "cannot offset {} by {}", p, o)
        require(p.shape == o.shape, self, "shapes of {} and {} differ", p, o)
        require(p.layout == o.layout, self, "layouts of {} and {} differ", p, o)
        return (p,)

    def canonicalize(self, builder: Builder) -> Value | None:
        return self.ptr if is_constant(self.offset, 0) else None


@define("ptr_diff", elementwise=True)
class PtrDiff(Binary):
    """lhs - rhs in elements, as ``dtype``."""

    dtype: DType = attribute(DType)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.lhs)
        same = t.is_pointer and self.rhs.type == t
        require(same and self.dtype.is_integer, self, "cannot subtract {} from {}", self.rhs.type, t)
        return (t.with_dtype(self.dtype),)


@define("ptr_to_int", elementwise=True)
class PtrToInt(Unary):
    """The address as a 64-bit integer ``dtype``."""

    dtype: DType = attribute(DType)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        require(t.is_pointer and self.dtype.is_integer and self.dtype.bitwidth == 64, self, "cannot convert {}", t)
        return (t.with_dtype(self.dtype),)


@define("int_to_ptr", elementwise=True)
class IntToPtr(Unary):
    """The pointer of ``dtype`` with the given 64-bit address."""

    dtype: PointerType = attribute(PointerType)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        require(not t.is_pointer and t.element.is_integer and t.element.bitwidth == 64, self, "cannot convert {}", t)
        return (t.with_dtype(self.dtype),)


REARRANGING = (Broadcast, Reshape, Permute, Extract)  # ops whose results hold elements of ``x``, and nothing else


def constant_of(value: Value) -> Any:
    """The number that every element of ``value`` equals, or None when it is not a constant."""
    op = value.op
    return op.value if isinstance(op, Constant) else None


def is_constant(value: Value, number: float) -> bool:
    """Whether ``value`` is the constant ``number``, with its sign of zero."""
    found = constant_of(value)
    return found is not None and found == number and repr(float(found)) == repr(float(number))


def _unchanged(op: Broadcast | Extract | Reshape) -> Value | None:
    return op.x if op.result.type == op.x.type else None


def _refilled(op: Broadcast | Permute | Reshape, builder: Builder) -> Value | None:
    """A constant in the result's shape, when the operand is a constant."""
    number = constant_of(op.x)
    return None if number is None else builder.constant(number, op.result.tile.dtype, op.result.tile.shape)
