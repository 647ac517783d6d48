"""Reads constants and attributes of the text form."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tilewright.tileir import module as tir
from tilewright.tileir import numbers
from tilewright.tileir.text.parse_types import parse_scalar, parse_type
from tilewright.tileir.text.scanner import PREFIX, Scanner
from tilewright.tileir.types import I1, I32, I64, SCALARS, Scalar, Tile, Type

_BYTES = re.compile(r'"0x([0-9A-Fa-f]*)"')
_MOST_DEPTH = 64


def bits_of(s: Scanner, type: Scalar) -> int:
    """One number of ``type``, as its bits."""
    start = s.pos
    if type.bits == 1 and (s.peek("true") or s.peek("false")):
        return int(s.boolean())
    text = s.number()
    if not type.is_integer:
        found = numbers.parse(type.name, text)
        if found is None:
            s.fail(f"a number of {type}", start)
        return found
    if not text.startswith("0x") and not text.removeprefix("-").isdecimal():
        s.fail(f"an integer of {type}", start)
    value = int(text, 0) if text.startswith("0x") else int(text)
    if not -(1 << (type.bits - 1)) <= value < 1 << type.bits:
        s.fail(f"a number that fits {type}", start)
    return value & (1 << type.bits) - 1


def constant(s: Scanner) -> tuple[Tile, bytes]:
    """``<f32: 1.0> : tile<f32>``, or ``dense<1.0> : tile<f32>``: the type and how it is stored."""
    if s.peek("dense"):
        return _dense(s)
    start = s.pos
    s.expect("<")
    element = parse_scalar(s)
    s.expect(":")
    contents = _contents(s, element)
    s.expect(">")
    s.discardable()
    s.expect(":")
    type = _tile(s)
    if type.element != element:
        s.fail(f"elements of {type.element}", start)
    return type, _data(s, type, contents, start)


def _dense(s: Scanner) -> tuple[Tile, bytes]:
    start = s.pos
    s.expect("dense", "<")
    inner = s.pos
    s.skip_to(">")
    s.expect(">", ":")
    type = _tile(s)
    end, s.pos = s.pos, inner
    assert isinstance(type.element, Scalar)
    contents = _contents(s, type.element)
    s.expect(">")
    s.pos = end
    return type, _data(s, type, contents, start)


def _tile(s: Scanner) -> Tile:
    """The type of a tile of numbers."""
    start = s.pos
    type = parse_type(s)
    if not isinstance(type, Tile) or not isinstance(type.element, Scalar):
        s.fail("a tile type", start)
    return type


def _contents(s: Scanner, element: Scalar) -> tuple[list[int] | bytes, tuple[int, ...]]:
    """Bytes, or numbers and their shape."""
    raw = s.match(_BYTES)
    return _elements(s, element, 0) if raw is None else (bytes.fromhex(raw[1] + "0" * (len(raw[1]) % 2)), ())


def _data(s: Scanner, type: Tile, contents: tuple[list[int] | bytes, tuple[int, ...]], start: int) -> bytes:
    listed, shape = contents
    assert isinstance(type.element, Scalar)
    if isinstance(listed, bytes):
        return _from_bytes(s, type, listed, start)
    if shape not in ((), type.shape):
        s.fail(f"elements for {type}", start)
    return _stored(type.element, listed, splat=not shape or type.size == 1)


def _elements(s: Scanner, type: Scalar, depth: int) -> tuple[list[int], tuple[int, ...]]:
    """Nested lists of numbers, and their shape."""
    if not s.accept("["):
        return [bits_of(s, type)], ()
    if depth == _MOST_DEPTH:
        s.fail(f"lists nested at most {_MOST_DEPTH} deep")
    found: list[int] = []
    inner: tuple[int, ...] | None = None
    count = 0
    while s.more(not count, "]"):
        start = s.pos
        part, shape = _elements(s, type, depth + 1)
        if inner not in (None, shape):
            s.fail("lists of one length", start)
        inner, count = shape, count + 1
        found += part
    return found, (count, *(inner or ()))


def _stored(element: Scalar, bits: list[int], *, splat: bool) -> bytes:
    if element.bits > 1:
        return b"".join(b.to_bytes(element.bytes, "little") for b in bits)
    if splat or len(set(bits)) == 1:
        return b"\xff" if bits[0] else b"\0"
    packed = bytearray(-(-len(bits) // 8))
    for i, bit in enumerate(bits):
        packed[i // 8] |= bit << i % 8
    return bytes(packed)


def _from_bytes(s: Scanner, type: Tile, data: bytes, start: int) -> bytes:
    element = type.element
    assert isinstance(element, Scalar)
    if len(data) != type.size * element.bytes:
        s.fail(f"{type.size * element.bytes} bytes for {type}", start)
    return _stored(element, list(data), splat=False) if element.bits == 1 else data


def attribute(
    s: Scanner,
    integers: Scalar = I64,
    booleans: Callable[[bool], tir.Attribute] = tir.BoolAttr,
    floats: Scalar = SCALARS["f64"],
) -> tir.Attribute:
    """A tagged attribute. Numbers without a type have that of ``integers`` or ``floats``; ``booleans`` makes truth
    values."""
    if s.peek("true") or s.peek("false"):
        return booleans(s.boolean())
    if s.peek('"'):
        return tir.StringAttr(s.string())
    if s.accept("{"):
        return tir.DictAttr(s.sequence("}", _entry))
    start = s.pos
    text = s.number()
    type: Scalar | None = None
    if s.accept(":"):
        found = parse_type(s)
        if not isinstance(found, Scalar):
            s.fail("a number type", start)
        type = found
    end, s.pos = s.pos, start
    floating = not text.startswith("0x") and not text.removeprefix("-").isdecimal()
    type = type or (floats if floating else integers)
    bits = bits_of(s, type)
    s.pos = end
    return tir.IntegerAttr(type, bits) if type.is_integer else tir.FloatAttr(type, bits)


def _identity(s: Scanner, *untyped: Scalar) -> tir.Attribute:
    """The identity of a reduction, of which truth values are numbers of i1; one without a type is ``untyped``."""
    integers, floats = untyped * 2 or (I64, SCALARS["f64"])
    return attribute(s, integers, lambda value: tir.IntegerAttr(I1, int(value)), floats)


def identities(s: Scanner, operands: Sequence[Type] = ()) -> tir.ArrayAttr:
    """The identities of a reduction of ``operands``, whose elements those without a type are like."""
    untyped = [t.element for t in operands if isinstance(t, Tile) and isinstance(t.element, Scalar)]
    found: list[tir.Attribute] = []
    s.expect("[")
    while s.more(not found, "]"):
        found.append(_identity(s, *untyped[len(found) :][:1]))
    return tir.ArrayAttr(tuple(found))


def _entry(s: Scanner) -> tuple[str, tir.Attribute]:
    key = s.string() if s.peek('"') else s.name()
    return key, attribute(s, integers=I32) if s.accept("=") else tir.BoolAttr(True)


def hints(s: Scanner) -> tir.HintsAttr:
    """``<sm_100 = {latency = 3}>``, or an alias of such."""
    return s.aliased(_hints)


def _hints(s: Scanner) -> tir.HintsAttr:
    s.accept(f"#{PREFIX}optimization_hints")
    s.expect("<")
    return tir.HintsAttr(s.sequence(">", _entry))


def predicate(s: Scanner) -> tir.Attribute:
    """What an ``assume`` promises, or an alias of that."""
    return s.aliased(_predicate)


def _predicate(s: Scanner) -> tir.Attribute:
    s.dialect("#")
    if s.accept("div_by", "<"):
        divisor, every, along = s.integer(), None, None
        if s.accept(",", "every"):
            every = s.integer()
        if s.accept("along"):
            along = s.integer()
        s.expect(">")
        return tir.DivByAttr(divisor, every, along)
    if s.accept("same_elements", "<", "["):
        found = tir.SameElementsAttr(s.sequence("]", Scanner.integer))
        s.expect(">")
        return found
    s.expect("bounded", "<")
    lower = None if s.accept("?") else s.integer()
    s.expect(",")
    upper = None if s.accept("?") else s.integer()
    s.expect(">")
    return tir.BoundedAttr(lower, upper)
