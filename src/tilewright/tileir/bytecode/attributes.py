"""Attributes in bytecode: tagged ones, hints and predicates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

from tilewright.tileir.bytecode.primitives import MAX_DEPTH, Cursor, apint, integers, svarint, varint
from tilewright.tileir.errors import TileIRError
from tilewright.tileir.module import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    BoundedAttr,
    DenseAttr,
    DictAttr,
    DivByAttr,
    FloatAttr,
    HintsAttr,
    IntegerAttr,
    SameElementsAttr,
    StringAttr,
    TypeAttr,
)
from tilewright.tileir.types import Scalar, Type

TAGS = {
    IntegerAttr: 1,
    FloatAttr: 2,
    BoolAttr: 3,
    TypeAttr: 4,
    StringAttr: 5,
    ArrayAttr: 6,
    DenseAttr: 7,
    DivByAttr: 8,
    SameElementsAttr: 9,
    DictAttr: 10,
    HintsAttr: 11,
    BoundedAttr: 12,
}
PREDICATES = (TAGS[DivByAttr], TAGS[SameElementsAttr], TAGS[BoundedAttr])
HINTS_TAG = TAGS[HintsAttr]
_EXTREMES = {4: (-(1 << 31), (1 << 31) - 1), 8: (-(1 << 63), (1 << 63) - 1)}


class Tables(Protocol):
    """The tables of a file, by number."""

    def string(self, cursor: Cursor, what: str) -> str: ...

    def type(self, cursor: Cursor, what: str) -> Type: ...

    def constant(self, cursor: Cursor) -> bytes: ...


class Numbers(Protocol):
    """The numbers that a writer gives to entries of its tables."""

    def string(self, text: str) -> int: ...

    def type(self, type: Type) -> int: ...

    def constant(self, data: bytes) -> int: ...


def op_integers(cursor: Cursor, width: int, what: str) -> tuple[int, ...]:
    """Integers of an op, which hold neither the smallest nor the largest number of their width."""
    start = cursor.pos
    found = cursor.integers(width, what)
    if any(v in _EXTREMES[width] for v in found):
        raise cursor.error(f"no smallest or largest {width * 8}-bit integer in {what}", start)
    return found


def read_tagged(cursor: Cursor, tables: Tables, depth: int = 0) -> Attribute:
    """An attribute with its tag."""
    start = cursor.pos
    if depth > MAX_DEPTH:
        raise cursor.error(f"attributes nested at most {MAX_DEPTH} deep")
    tag = cursor.varint("the tag of an attribute")
    if tag == TAGS[IntegerAttr]:
        at = cursor.pos
        type = tables.type(cursor, "the type of an integer attribute")
        if not isinstance(type, Scalar) or not type.is_integer:
            raise cursor.error(f"an integer type, not {type}", at)
        boolean = type.bits == 1
        value = cursor.byte("an i1") if boolean else cursor.varint("an integer attribute")
        return IntegerAttr(type, value)
    if tag == TAGS[FloatAttr]:
        return _float(cursor, tables)
    if tag == TAGS[BoolAttr]:
        return BoolAttr(cursor.bool("a Bool attribute"))
    if tag == TAGS[TypeAttr]:
        return TypeAttr(tables.type(cursor, "a Type attribute"))
    if tag == TAGS[StringAttr]:
        return StringAttr(tables.string(cursor, "a String attribute"))
    if tag == TAGS[ArrayAttr]:
        return read_array(cursor, tables, depth + 1)
    if tag == TAGS[DenseAttr]:
        return DenseAttr(tables.type(cursor, "the type of an array"), tables.constant(cursor))
    if tag in PREDICATES:
        return _predicate(cursor, tag)
    if tag == TAGS[DictAttr]:
        return DictAttr(_entries(cursor, tables, depth + 1))
    if tag == HINTS_TAG:
        return read_hints(cursor, tables, depth + 1)
    raise cursor.error(f"the tag of an attribute, 1 to 12, not {tag}", start)


def _float(cursor: Cursor, tables: Tables) -> FloatAttr:
    start = cursor.pos
    type = tables.type(cursor, "the type of a Float attribute")
    if not isinstance(type, Scalar) or type.is_integer:
        raise cursor.error(f"a floating-point type, not {type}", start)
    if type.bits <= 8:
        return FloatAttr(type, cursor.byte("a Float attribute"))
    return FloatAttr(type, cursor.svarint("a Float attribute") & (1 << type.bits) - 1)


def read_array(cursor: Cursor, tables: Tables, depth: int = 0) -> ArrayAttr:
    count = cursor.count("attributes")
    return ArrayAttr(tuple(read_tagged(cursor, tables, depth) for _ in range(count)))


def read_hints(cursor: Cursor, tables: Tables, depth: int = 0) -> HintsAttr:
    """Optimization hints without their tag."""
    return HintsAttr(_entries(cursor, tables, depth))


def _entries(cursor: Cursor, tables: Tables, depth: int) -> tuple[tuple[str, Attribute], ...]:
    count = cursor.count("dictionary entries", 2)
    entries: dict[str, Attribute] = {}
    for _ in range(count):
        start = cursor.pos
        key = tables.string(cursor, "the key of a dictionary")
        if not key or key in entries:
            raise cursor.error(f"keys that differ and are not empty, not {key!r}", start)
        entries[key] = read_tagged(cursor, tables, depth)
    return tuple(entries.items())


def read_predicate(cursor: Cursor, tables: Tables) -> Attribute:
    """What an ``assume`` promises."""
    start = cursor.pos
    tag = cursor.varint("the tag of a predicate")
    if tag not in PREDICATES:
        raise cursor.error(f"the tag of a predicate, 8, 9 or 12, not {tag}", start)
    return _predicate(cursor, tag)


def _predicate(cursor: Cursor, tag: int) -> Attribute:
    if tag == TAGS[SameElementsAttr]:
        return SameElementsAttr(op_integers(cursor, 8, "same_elements"))
    divisor = cursor.varint("a divisor") if tag == TAGS[DivByAttr] else None
    start = cursor.pos
    flags = cursor.byte("the flags of a predicate")
    if flags > 3:
        raise cursor.error(f"flags below 4, not {flags}", start)
    first = cursor.svarint("a predicate") if flags & 1 else None
    second = cursor.svarint("a predicate") if flags & 2 else None
    return BoundedAttr(first, second) if divisor is None else DivByAttr(divisor, first, second)


def write_tagged(attribute: Attribute, numbers: Numbers) -> bytes:
    """``attribute`` with its tag."""
    payload = write_payload(attribute, numbers)
    return varint(TAGS[type(attribute)]) + payload


def write_payload(attribute: Attribute, numbers: Numbers) -> bytes:
    """``attribute`` where the field says what kind it is."""
    write = _PAYLOADS.get(type(attribute))
    if write is not None:
        return write(attribute, numbers)
    if type(attribute) in _PREDICATES:
        return _PREDICATES[type(attribute)](attribute)
    raise TileIRError(f"{attribute!r} is no attribute of Tile IR")


@functools.lru_cache(maxsize=256)
def write_predicate(predicate: Attribute) -> bytes:
    """What an ``assume`` promises, with its tag."""
    return varint(TAGS[type(predicate)]) + _PREDICATES[type(predicate)](predicate)


def _integer(a: IntegerAttr, numbers: Numbers) -> bytes:
    boolean = isinstance(a.type, Scalar) and a.type.bits == 1
    return varint(numbers.type(a.type)) + (bytes((a.value,)) if boolean else varint(a.value))


def _dictionary(a: DictAttr | HintsAttr, numbers: Numbers) -> bytes:
    entries = [varint(numbers.string(key)) + write_tagged(value, numbers) for key, value in a.entries]
    return varint(len(entries)) + b"".join(entries)


def _bounds(first: int | None, second: int | None) -> bytes:
    flags = (first is not None) | (second is not None) << 1
    return bytes((flags,)) + b"".join(svarint(v) for v in (first, second) if v is not None)


_PAYLOADS: dict[type, Callable[[Any, Numbers], bytes]] = {
    IntegerAttr: _integer,
    FloatAttr: lambda a, numbers: varint(numbers.type(a.type)) + apint(a.bits, a.type.bits),
    BoolAttr: lambda a, _: bytes((a.value,)),
    TypeAttr: lambda a, numbers: varint(numbers.type(a.type)),
    StringAttr: lambda a, numbers: varint(numbers.string(a.value)),
    ArrayAttr: lambda a, numbers: varint(len(a.items)) + b"".join(write_tagged(i, numbers) for i in a.items),
    DenseAttr: lambda a, numbers: varint(numbers.type(a.type)) + varint(numbers.constant(a.data)),
    DictAttr: _dictionary,
    HintsAttr: _dictionary,
}
_PREDICATES: dict[type, Callable[[Any], bytes]] = {
    SameElementsAttr: lambda a: integers(a.shape, 8),
    DivByAttr: lambda a: varint(a.divisor) + _bounds(a.every, a.along),
    BoundedAttr: lambda a: _bounds(a.lower, a.upper),
}
