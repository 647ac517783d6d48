"""Constants, ops that rearrange tiles, matrix products and promises of CUDA Tile IR."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, int8, int32, uint8
from tilewright.ir.ops import arith, linear, memory, shape
from tilewright.ir.types import TileType
from tilewright.tileir import constants
from tilewright.tileir import module as tir
from tilewright.tileir.importer.arith import lowest_bit, nibble, scalar_of
from tilewright.tileir.importer.context import NIBBLE, Context, as_unsigned, dtype_of, is_bool, number_type, tile_type
from tilewright.tileir.numbers import decode
from tilewright.tileir.types import Scalar, Tile

_MOST_PIECES = 4096  # that a constant is joined of; one of more is in memory


def number(dtype: DType, bits: int) -> bool | int | float:
    """The number that ``bits`` of a constant stand for."""
    if dtype.is_bool:
        return bool(bits)
    if dtype.is_integer:
        return bits - (1 << dtype.bitwidth) if bits >> (dtype.bitwidth - 1) and dtype.is_signed else bits
    return decode(dtype, bits)


def attribute_number(e: Context, dtype: DType, a: Any) -> bool | int | float:
    """The number of an attribute, such as the identity of a reduction."""
    if isinstance(a, tir.BoolAttr) and dtype.is_bool:
        return a.value
    if isinstance(a, (tir.IntegerAttr, tir.FloatAttr)) and isinstance(a.type, Scalar):
        theirs = dtype_of(a.type)
        if (theirs.is_floating, theirs.bitwidth, theirs.is_bool) == (dtype.is_floating, dtype.bitwidth, dtype.is_bool):
            return number(dtype, a.bits if isinstance(a, tir.FloatAttr) else a.value & (1 << a.type.bits) - 1)
    raise e.error(f"{a} is no number of {dtype}")


def _constant(e: Context, op: tir.Operation) -> Value:
    type = op.results[0].type
    if not isinstance(type, Tile) or not isinstance(type.element, Scalar):
        raise e.error(f"a constant of type {type}; constants are tiles of numbers")
    dtype, data = dtype_of(type.element), op.attributes["value"]
    if constants.is_splat(type, data):
        value = number(dtype, constants.elements(Tile(type.element), data, first=True)[0])
        return e.constant(value, dtype, type.shape)
    base = e.memory.get(table_name(op))
    if base is not None:
        indices = e.emit(shape.Iota, type=TileType(int32, (type.size,)))
        found = e.emit(memory.Load, e.emit(shape.PtrOffset, e.builder.splat(base, (type.size,)), indices), None, None)
    else:
        numbers = [number(dtype, bits) for bits in constants.elements(type, data)]
        found = _progression(e, dtype, numbers) or _joined(e, dtype, numbers)
    return found if type.shape == (type.size,) else e.emit(shape.Reshape, found, shape=type.shape)


def is_table(op: tir.Operation) -> bool:
    """Whether a constant has too many different numbers to be computed: it is loaded from memory."""
    type, data = op.results[0].type, op.attributes["value"]
    if not isinstance(type, Tile) or not isinstance(type.element, Scalar) or constants.is_splat(type, data):
        return False
    row = constants.elements(type, data)
    if type.element.is_integer and len({b - a for a, b in itertools.pairwise(row)}) == 1:
        return False
    count = len(set(row))
    while len(row) > 1 and count <= _MOST_PIECES:
        known: dict[tuple[int, int], int] = {}
        row = [known.setdefault(pair, len(known)) for pair in zip(row[::2], row[1::2])]
        count += len(known)
    return count > _MOST_PIECES


def table_name(op: tir.Operation) -> str:
    """What the memory of such a constant is called: equal ones share it."""
    return f"<constant {op.results[0].type} {hashlib.sha256(op.attributes['value']).hexdigest()[:16]}>"


def _progression(e: Context, dtype: DType, numbers: Sequence[Any]) -> Value | None:
    """Integers at equal distances, as they are counted."""
    if not dtype.is_integer:
        return None
    first, step, count = numbers[0], numbers[1] - numbers[0], len(numbers)
    if not dtype.min <= step <= dtype.max or any(b - a != step for a, b in itertools.pairwise(numbers)):
        return None
    extents = (count,)
    made = e.emit(shape.Iota, type=TileType(dtype, extents))
    if step != 1:
        made = e.emit(arith.Mul, made, e.constant(step, dtype, extents))
    return e.emit(arith.Add, made, e.constant(first, dtype, extents)) if first else made


def _joined(e: Context, dtype: DType, numbers: Sequence[Any]) -> Value:
    """Different numbers: runs of equal ones, joined."""
    keys = [repr(n) for n in numbers]
    known: dict[tuple[str, ...], Value] = {}

    def join(start: int, stop: int) -> Value:
        piece = tuple(keys[start:stop])
        if piece in known:
            return known[piece]
        if len(set(piece)) == 1:
            made = e.constant(numbers[start], dtype, (stop - start,))
        else:
            middle = (start + stop) // 2
            made = e.emit(shape.Cat, join(start, middle), join(middle, stop), axis=0)
        known[piece] = made
        return made

    return join(0, len(numbers))


def _iota(e: Context, op: tir.Operation) -> Value:
    t = tile_type(op.results[0].type)
    if number_type(op.results[0].type).is_integer:
        return e.emit(shape.Iota, type=t)
    wide = e.emit(shape.Iota, type=t.with_dtype(int32))
    return e.cast(e.emit(arith.And, wide, e.constant(1, int32, t.shape)), t.element)


def _result_shape(op: tir.Operation) -> tuple[int, ...]:
    return tile_type(op.results[0].type).shape


def _pack(e: Context, op: tir.Operation, x: Value) -> Value:
    element = scalar_of(e, op.operands["source"])
    if element.name not in _PARTS_OF_BYTES:
        return e.cast(e.emit(shape.Pack, x), int8)
    parts = 8 // element.bits
    column = (x.tile.size // parts, 1)
    rows = e.emit(shape.Reshape, e.cast(x, int8), shape=(column[0], parts))
    made = e.constant(0, int8, column)
    for k in range(parts):
        part = e.emit(shape.Extract, rows, [e.constant(0, int32), e.constant(k, int32)], shape=column)
        part = e.emit(arith.And, part, e.constant((1 << element.bits) - 1, int8, column))
        made = e.emit(arith.Or, made, e.emit(arith.Shl, part, e.constant(k * element.bits, int8, column)))
    return e.emit(shape.Reshape, made, shape=column[:1])


_PARTS_OF_BYTES = {"i1": lowest_bit, NIBBLE: nibble}  # of which the first one is in the lowest bits


def _unpack(e: Context, op: tir.Operation, x: Value) -> Value:
    element = scalar_of(e, op.results[0])
    if element.name not in _PARTS_OF_BYTES:
        return e.emit(shape.Unpack, e.cast(x, uint8), dtype=dtype_of(element))
    column = (x.tile.size, 1)
    bytes_ = e.emit(shape.Reshape, x, shape=column)
    shifts = [e.constant(k, int8, column) for k in range(0, 8, element.bits)]
    parts = [_PARTS_OF_BYTES[element.name](e, e.emit(arith.Shr, bytes_, by)) for by in shifts]
    while len(parts) > 1:
        parts = [e.emit(shape.Cat, *pair, axis=1) for pair in zip(parts[::2], parts[1::2])]
    return e.emit(shape.Reshape, parts[0], shape=_result_shape(op))


def _mmai(e: Context, op: tir.Operation, lhs: Value, rhs: Value, acc: Value) -> Value:
    sides = [
        v if op.attributes[f"signedness_{name}"] == "signed" else as_unsigned(e, v)
        for name, v in (("lhs", lhs), ("rhs", rhs))
    ]
    return e.emit(linear.Mma, *sides, acc)


def _assume(e: Context, op: tir.Operation, x: Value) -> Value:
    promised = op.attributes["predicate"]
    if is_bool(x):
        return x
    if isinstance(promised, tir.DivByAttr):
        facts = {"divisor": promised.divisor, "every": promised.every, "along": promised.along}
        return e.emit(memory.AssumeDivisible, x, **facts)
    if isinstance(promised, tir.BoundedAttr):
        return e.emit(memory.AssumeBounded, x, lower=promised.lower, upper=promised.upper)
    assert isinstance(promised, tir.SameElementsAttr)
    return e.emit(memory.AssumeBlocked, x, shape=promised.shape) if promised.shape else x


def _grid(cls: type[Any]) -> Callable[[Context, tir.Operation], list[Value]]:
    return lambda e, op: [e.emit(cls, axis=axis) for axis in range(len(op.results))]


HANDLERS: dict[str, Any] = {
    "constant": _constant,
    "iota": _iota,
    "reshape": lambda e, op, x: e.emit(shape.Reshape, x, shape=_result_shape(op)),
    "broadcast": lambda e, op, x: e.emit(shape.Broadcast, x, shape=_result_shape(op)),
    "permute": lambda e, op, x: e.emit(shape.Permute, x, axes=tuple(op.attributes["permutation"])),
    "cat": lambda e, op, lhs, rhs: e.emit(shape.Cat, lhs, rhs, axis=op.attributes["dim"]),
    "extract": lambda e, op, x, indices: e.emit(shape.Extract, x, indices, shape=_result_shape(op)),
    "insert": lambda e, op, part, whole, indices: e.emit(shape.Insert, whole, part, indices),
    "pack": _pack,
    "unpack": _unpack,
    "mmaf": lambda e, op, *operands: e.emit(linear.Mma, *operands, fast_acc=op.attributes["fast_acc"]),
    "mmai": _mmai,
    "mmaf_scaled": lambda e, _, x, y, acc, x_scale, y_scale: e.emit(linear.MmaScaled, x, x_scale, y, y_scale, acc),
    "assume": _assume,
    "get_tile_block_id": _grid(memory.Bid),
    "get_num_tile_blocks": _grid(memory.NumBlocks),
}
