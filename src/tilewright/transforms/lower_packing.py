"""Pack and unpack as arithmetic on whole tiles: bytes are shifted out of elements, and put together to elements."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import DType, float4_e2m1fn, float32, uint8, uint16, uint32, uint64
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Add, And, Bitcast, Cast, Cmp, Or, Select, Shl, Shr, Sub
from tilewright.ir.ops.linear import Reduce
from tilewright.ir.ops.shape import Broadcast, Iota, Pack, Reshape, Unpack
from tilewright.ir.rewrite import lower_ops
from tilewright.ir.structured import emit_region
from tilewright.ir.types import TileType
from tilewright.records import dataclass
from tilewright.transforms.base import InPlacePass

UNSIGNED: dict[int, DType] = {1: uint8, 2: uint16, 4: uint32, 8: uint64}  # by bytes
_F4_OF_ONE = 252  # the exponent and the first bit of the fraction of a float32, less the code in a 4-bit float


@dataclass(frozen=True)
class LowerPacking(InPlacePass):
    """Leaves no ``pack`` and ``unpack``. Runs before layouts are assigned, which then need no rule for them.

    Where tiles lie ``in_memory``, those of unsigned integers stay: their bytes are there already.
    """

    name: ClassVar[str] = "lower-packing"
    in_memory: bool = False

    def change(self, function: Function) -> bool:
        return lower_ops(function, {Pack: self._pack, Unpack: self._unpack})

    def _pack(self, op: Pack, b: Builder) -> Value | None:
        if not self._stays(op.x, op.result):
            return _pack(op, b)
        bits = as_unsigned(b, op.x)
        return None if bits is op.x else b.emit(Pack, bits)

    def _unpack(self, op: Unpack, b: Builder) -> Value | None:
        unsigned = UNSIGNED.get(op.dtype.bytes)
        if unsigned is None or not self._stays(op.result, op.x):
            return _unpack(op, b)
        return None if op.dtype is unsigned else b.emit(Bitcast, b.emit(Unpack, op.x, dtype=unsigned), dtype=op.dtype)

    def _stays(self, wide: Value, bytes_: Value) -> bool:
        return self.in_memory and 1 < wide.tile.size < bytes_.tile.size


def _pack(op: Pack, b: Builder) -> Value:
    x = op.x
    size, dtype = x.tile.size, x.tile.element
    if dtype is float4_e2m1fn:
        return _joined(b, b.emit(Reshape, float4_code(b, x), shape=(size // 2, 2)), uint8, 4)
    bits = as_unsigned(b, x)
    if dtype.bytes == 1:
        return b.emit(Reshape, bits, shape=(size,))
    return _parts(b, b.emit(Reshape, bits, shape=(size, 1)), dtype.bytes, 8)


def _unpack(op: Unpack, b: Builder) -> Value:
    x, dtype, size = op.x, op.dtype, op.x.tile.size
    if dtype is float4_e2m1fn:
        nibbles = _parts(b, b.emit(Reshape, x, shape=(size, 1)), 2, 4)
        return float4_value(b, b.emit(And, nibbles, b.constant(15, uint8, nibbles.tile.shape)))
    unsigned = UNSIGNED[dtype.bytes]
    if dtype.bytes > 1:
        x = _joined(b, b.emit(Reshape, x, shape=(size // dtype.bytes, dtype.bytes)), unsigned, 8)
    return x if dtype is unsigned else b.emit(Bitcast, x, dtype=dtype)


def as_unsigned(b: Builder, x: Value) -> Value:
    """The bits of each element, which has whole bytes, as an unsigned integer."""
    unsigned = UNSIGNED[x.tile.element.bytes]
    return x if x.tile.dtype is unsigned else b.emit(Bitcast, x, dtype=unsigned)


def _shifts(b: Builder, count: int, bits: int, like: TileType) -> Value:
    """0, bits, 2 * bits, ... along the last of two axes."""
    dtype = like.element
    line = b.emit(Reshape, b.emit(Iota, type=TileType(dtype, (count,))), shape=(1, count))
    shift = b.constant(bits.bit_length() - 1, dtype, (1, count))
    return b.emit(Broadcast, b.emit(Shl, line, shift), shape=(like.shape[0], count))


def _parts(b: Builder, x: Value, count: int, bits: int) -> Value:
    """The ``count`` parts of ``bits`` bits of each element of a column, the lowest first, as bytes in a line."""
    rows = x.tile.shape[0]
    spread = b.emit(Broadcast, x, shape=(rows, count))
    shifted = b.emit(Shr, spread, _shifts(b, count, bits, spread.tile))
    narrow = shifted if x.tile.element is uint8 else b.emit(Cast, shifted, dtype=uint8)
    return b.emit(Reshape, narrow, shape=(rows * count,))


def _joined(b: Builder, x: Value, dtype: DType, bits: int) -> Value:
    """The bytes of each row as parts of ``bits`` bits of one element of ``dtype``, the lowest first."""
    wide = x if dtype is uint8 else b.emit(Cast, x, dtype=dtype)
    shifted = b.emit(Shl, wide, _shifts(b, x.tile.shape[1], bits, wide.tile))
    body = emit_region(b, [TileType(dtype)] * 2, lambda *args: [b.emit(Or, *args)])
    return b.emit(Reduce, [shifted], axis=1, identities=(0,), commutative=True, body=body)


def float4_code(b: Builder, x: Value) -> Value:
    """The four bits of each 4-bit float, as a byte."""
    shape = x.tile.shape

    def number(value: int, dtype: DType = uint32) -> Value:
        return b.constant(value, dtype, shape)

    bits = b.emit(Bitcast, b.emit(Cast, x, dtype=float32), dtype=uint32)
    high = b.emit(And, b.emit(Shr, bits, number(22)), number(0x1FF))
    normal = b.emit(Sub, high, number(_F4_OF_ONE))  # 0 for 0.5, whose code is 1
    small = b.emit(Select, b.emit(Cmp, high, number(0), predicate=CmpPredicate.NE), number(1), number(0))
    is_normal = b.emit(Cmp, high, number(_F4_OF_ONE + 2), predicate=CmpPredicate.GE)
    sign = b.emit(And, b.emit(Shr, bits, number(28)), number(8))
    return b.emit(Cast, b.emit(Or, b.emit(Select, is_normal, normal, small), sign), dtype=uint8)


def float4_value(b: Builder, code: Value) -> Value:
    """The 4-bit floats with these codes, bytes below 16."""
    shape = code.tile.shape

    def number(value: int) -> Value:
        return b.constant(value, uint32, shape)

    wide = b.emit(Cast, code, dtype=uint32)
    magnitude = b.emit(And, wide, number(7))
    normal = b.emit(Shl, b.emit(Add, magnitude, number(_F4_OF_ONE)), number(22))
    half = number(0x3F000000)
    small = b.emit(Select, b.emit(Cmp, magnitude, number(0), predicate=CmpPredicate.NE), half, number(0))
    is_normal = b.emit(Cmp, magnitude, number(2), predicate=CmpPredicate.GE)
    sign = b.emit(Shl, b.emit(And, wide, number(8)), number(28))
    bits = b.emit(Or, b.emit(Select, is_normal, normal, small), sign)
    return b.emit(Cast, b.emit(Bitcast, bits, dtype=float32), dtype=float4_e2m1fn)
