"""Reads types of the text form."""

from __future__ import annotations

import re
from collections.abc import Callable

from tilewright.tileir import types
from tilewright.tileir.optable import ENUMS
from tilewright.tileir.text.scanner import Scanner

_EXTENT = re.compile(r"(\d+|\?)x")
# cutile-rs writes the names of small floats without capitals.
_BY_SPELLING = {name: s for s in types.SCALARS.values() for name in (s.name, s.name.lower())}
_SCALAR = re.compile(r"[a-z]+[0-9][A-Za-z0-9]*")


def parse_type(s: Scanner) -> types.Type:
    """A type, with or without the prefix of the dialect."""
    start = s.pos
    found = _alias(s) or _type(s)
    broken = types.problem(found)
    if broken is not None:
        s.fail(broken, start)
    return found


def _alias(s: Scanner) -> types.Type | None:
    """The type that an alias stands for; None where there is none."""
    if not s.peek("!") or s.peek("!cuda_tile."):
        return None
    start = s.pos
    s.expect("!")
    found = s.types.get(s.name())
    if found is None:
        s.fail("a type, or an alias of one that is defined before", start)
    return found


def _type(s: Scanner) -> types.Type:
    s.dialect("!")
    if s.accept("tile", "<"):
        shape = _extents(s)
        element = _element(s)
        s.expect(">")
        if None in shape:
            s.fail("static extents of a tile")
        return types.Tile(element, tuple(n for n in shape if n is not None))
    if s.accept("token"):
        return types.TOKEN
    for name, parse in _VIEWS.items():
        if s.accept(name, "<"):
            found = parse(s)
            s.expect(">")
            return found
    if s.accept("("):
        params = s.sequence(")", parse_type)
        s.expect("->", "(")
        return types.Function(params, s.sequence(")", parse_type))
    return _element(s)


def _extents(s: Scanner) -> tuple[int | None, ...]:
    found: list[int | None] = []
    while (match := s.match(_EXTENT)) is not None:
        found.append(None if match[1] == "?" else int(match[1]))
    return tuple(found)


def _element(s: Scanner, depth: int = 0) -> types.Element:
    s.dialect("!")
    if s.accept("ptr"):
        if depth == types.MAX_POINTER_DEPTH:
            s.fail(f"pointers to pointers at most {types.MAX_POINTER_DEPTH} deep")
        s.expect("<")
        pointee = _element(s, depth + 1)
        attr = None
        if s.accept(","):
            s.accept("#cuda_tile.ptr_attr")
            attr = parse_enum(s, "PtrAttr")
        s.expect(">")
        return types.Pointer(pointee, attr)
    return parse_scalar(s)


def parse_scalar(s: Scanner) -> types.Scalar:
    """A number type."""
    start = s.pos
    match = s.match(_SCALAR)
    found = None if match is None else _BY_SPELLING.get(match.group())
    if found is None:
        s.fail("a number type, such as f32", start)
    return found


def parse_enum(s: Scanner, name: str) -> str:
    """``<value>`` of the enumeration ``name``, which cutile-rs writes without the brackets."""
    closing = (">",) if s.accept("<") else ()
    value = enum_value(s, name, f"a value of {name}")
    s.expect(*closing)
    return value


def enum_value(s: Scanner, name: str, expected: str) -> str:
    """A value of the enumeration ``name``."""
    start = s.pos
    value = s.word(expected)
    if value not in ENUMS[name]:
        s.fail(f"one of {', '.join(ENUMS[name])}", start)
    return value


def _tensor_view(s: Scanner) -> types.TensorView:
    shape = _extents(s)
    element = parse_scalar(s)
    strides: tuple[int | None, ...] = ()
    attr = None
    while s.accept(","):
        if s.accept("strides", "=", "["):
            strides = s.sequence("]", _stride)
        else:
            s.expect("#cuda_tile.ptr_attr")
            attr = parse_enum(s, "PtrAttr")
    return types.TensorView(element, shape, strides, attr)


def _stride(s: Scanner) -> int | None:
    return None if s.accept("?") else s.integer()


def _tile_extents(s: Scanner) -> tuple[int, ...]:
    """``tile=(4x8)``."""
    s.expect("tile", "=", "(")
    shape = _extents(s)
    shape += (s.integer(),)
    s.expect(")")
    if None in shape:
        s.fail("static extents of a tile")
    return tuple(n for n in shape if n is not None)


def _integers(s: Scanner) -> tuple[int, ...]:
    s.expect("[")
    return s.sequence("]", Scanner.integer)


def _padding(s: Scanner) -> str | None:
    """``, padding_value = zero``, if it is there; reads the comma before the tensor view."""
    s.expect(",")
    if not s.accept("padding_value", "="):
        return None
    value = enum_value(s, "Padding", "a padding value")
    s.expect(",")
    return value


def _view(s: Scanner) -> types.TensorView:
    s.dialect("!")
    s.expect("tensor_view", "<")
    view = _tensor_view(s)
    s.expect(">")
    return view


def _tile_view(s: Scanner, kind: str) -> types.TileView:
    """What follows ``partition_view<``, or the name of another view of tiles."""
    shape, steps = _tile_extents(s), None
    if kind == "strided_view":
        s.expect(",", "traversal_strides", "=")
        steps = _integers(s)
    padding, view = _padding(s), _view(s)
    if kind == "gather_scatter_view":
        s.expect(",", "sparse_dim", "=")
        return types.TileView(shape, view, padding=padding, sparse_dim=s.integer())
    dim_map = _integers(s) if s.accept(",", "dim_map", "=") else tuple(range(len(view.shape)))
    return types.TileView(shape, view, dim_map, padding, steps)


_VIEWS: dict[str, Callable[[Scanner], types.Type]] = {
    "tensor_view": _tensor_view,
    "partition_view": lambda s: _tile_view(s, "partition_view"),
    "strided_view": lambda s: _tile_view(s, "strided_view"),
    "gather_scatter_view": lambda s: _tile_view(s, "gather_scatter_view"),
}
