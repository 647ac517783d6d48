"""The String, Constant and Type sections."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Union

from tilewright.tileir.bytecode.primitives import Cursor, integers, varint
from tilewright.tileir.errors import TileIRError, VersionError
from tilewright.tileir.module import RepeatedConstant
from tilewright.tileir.optable import ENUMS
from tilewright.tileir.types import (
    DYNAMIC,
    MAX_POINTER_DEPTH,
    SCALARS,
    TOKEN,
    Element,
    Function,
    Pointer,
    Scalar,
    TensorView,
    Tile,
    TileView,
    Token,
    Type,
    problem,
)

PTR, TILE, TENSOR_VIEW, PARTITION_VIEW, FUNCTION, TOKEN_TAG = range(12, 18)  # tags of types
GATHER_SCATTER_VIEW, STRIDED_VIEW = 20, 21
_VIEWS = {"partition_view": PARTITION_VIEW, "gather_scatter_view": GATHER_SCATTER_VIEW, "strided_view": STRIDED_VIEW}
_SCALARS = {s.tag: s for s in SCALARS.values()}


def _spans(cursor: Cursor | None, width: int, what: str) -> list[tuple[int, int]]:
    """Where the entries of a table are."""
    if cursor is None:
        return []
    base = cursor.pos
    count = cursor.count(what, width)
    if not count:
        return []
    cursor.align(width, base)
    start = cursor.pos
    offsets = cursor.fixed(width, f"offsets of {what}", count)
    data = cursor.pos
    bounds = [*offsets, cursor.end - data]
    if any(a > b for a, b in itertools.pairwise(bounds)):
        raise cursor.error(f"offsets of {what} that do not decrease", start)
    return [(data + a, data + b) for a, b in itertools.pairwise(bounds)]


def read_strings(cursor: Cursor | None) -> list[bytes]:
    spans = _spans(cursor, 4, "strings")
    return [cursor.data[a:b] for a, b in spans] if cursor is not None else []


def read_constants(cursor: Cursor | None) -> list[bytes]:
    found: list[bytes] = []
    if cursor is None:
        return found
    known: set[bytes] = set()
    for a, b in _spans(cursor, 8, "constants"):
        entry = Cursor(cursor.data, a, b, cursor.file)
        constant = entry.take(entry.varint("the length of a constant"), "a constant")
        found.append(RepeatedConstant(constant) if constant in known else constant)
        known.add(constant)
    return found


def read_types(cursor: Cursor | None, minor: int) -> list[Type]:
    """Every type; each may name later ones."""
    if cursor is None:
        return []
    reader = _Types(cursor, _spans(cursor, 4, "types"), minor)
    return [reader.get(i, cursor) for i in range(len(reader.spans))]


class _Types:
    def __init__(self, cursor: Cursor, spans: list[tuple[int, int]], minor: int) -> None:
        self.source = cursor
        self.spans = spans
        self.minor = minor
        self.made: dict[int, Type | None] = {}
        self.depth = 0

    def get(self, number: int, asking: Cursor) -> Type:
        if number in self.made:
            found = self.made[number]
            if found is None:
                raise asking.error("types that do not contain themselves")
            return found
        if number >= len(self.spans):
            raise asking.error(f"a type below {len(self.spans)}, not {number}")
        if self.depth > MAX_POINTER_DEPTH:
            raise asking.error(f"types nested at most {MAX_POINTER_DEPTH} deep")
        self.made[number] = None
        self.depth += 1
        start, end = self.spans[number]
        made = self.read(Cursor(self.source.data, start, end, self.source.file))
        self.depth -= 1
        broken = problem(made)
        if broken is not None:
            raise asking.error(broken, start)
        self.made[number] = made
        return made

    def read(self, c: Cursor) -> Type:
        start = c.pos
        tag = c.varint("the tag of a type")
        scalar = _SCALARS.get(tag)
        since = scalar.since if scalar else 3 if tag in (GATHER_SCATTER_VIEW, STRIDED_VIEW) else 1
        if since > self.minor:
            raise c.error(f"a type of version 13.{self.minor}, not one of tag {tag}, which 13.{since} brought", start)
        if scalar is not None:
            return scalar
        if tag == TOKEN_TAG:
            return TOKEN
        if tag == PTR:
            flags = self.flags(c, 4)
            pointee = self.element(c)
            return Pointer(pointee, c.pick(self.pointer_attrs(), "a pointer attribute") if flags else None)
        if tag == TILE:
            return Tile(self.element(c), c.integers(8, "extents"))
        if tag == TENSOR_VIEW:
            return self.tensor_view(c)
        if tag == FUNCTION:
            params = tuple(self.part(c, FUNCTION_PARTS) for _ in range(c.count("parameters")))
            return Function(params, tuple(self.part(c, FUNCTION_PARTS) for _ in range(c.count("results"))))
        if tag in _VIEWS.values():
            return self.view(c, tag)
        raise c.error(f"the tag of a type, not {tag}", start)

    def part(self, c: Cursor, allowed: tuple[type, ...]) -> Any:
        """A type in a type, of one of the classes ``allowed``."""
        start = c.pos
        found = self.get(c.varint("a type in a type"), c)
        if not isinstance(found, allowed):
            raise c.error(f"another kind of type in a type than {found}", start)
        return found

    def element(self, c: Cursor) -> Element:
        found: Element = self.part(c, (Scalar, Pointer))
        return found

    def flags(self, c: Cursor, since: int) -> int:
        start = c.pos
        found = c.varint("the flags of a type") if self.minor >= since else 0
        if found > 1:
            raise c.error(f"flags of a type below 2, not {found}", start)
        return found

    def pointer_attrs(self) -> tuple[str, ...]:
        return ENUMS["PtrAttr"] if self.minor >= 5 else ENUMS["PtrAttr"][:1]

    def tensor_view(self, c: Cursor) -> TensorView:
        flags = self.flags(c, 4)
        element = self.part(c, (Scalar,))
        shape, strides = c.integers(8, "extents"), c.integers(8, "strides")
        attr = c.pick(self.pointer_attrs(), "a pointer attribute") if flags else None
        dynamic = [tuple(None if n == DYNAMIC else n for n in numbers) for numbers in (shape, strides)]
        return TensorView(element, dynamic[0], dynamic[1], attr)

    def view(self, c: Cursor, tag: int) -> Type:
        flags = self.flags(c, 3)
        shape = c.integers(4, "extents of a tile")
        steps = c.integers(4, "traversal strides") if tag == STRIDED_VIEW else None
        view: TensorView = self.part(c, (TensorView,))
        sparse = c.varint("a sparse dimension") if tag == GATHER_SCATTER_VIEW else None
        order = c.integers(4, "a dim_map") if tag != GATHER_SCATTER_VIEW else ()
        padded = flags == 1 if self.minor >= 3 else c.bool("whether there is padding")
        padding = c.pick(ENUMS["Padding"], "a padding value") if padded else None
        return TileView(shape, view, order, padding, steps, sparse)


FUNCTION_PARTS = (Scalar, Pointer, Tile, TensorView, TileView, Token)


class WrittenType:
    """A type that writers number, which is equal to no other. ``known`` are its parts by version."""

    def __init__(self, type: Type, all: WrittenTypes) -> None:
        self.type, self._all = type, all
        self.known: dict[int, tuple[bytes, list[tuple[WrittenType, bytes]]]] = {}

    def parts(self, minor: int) -> tuple[bytes, list[tuple[WrittenType, bytes]]]:
        """Its entry in the Type section: how it begins, types that stand for their numbers there, and what is behind
        each. VersionError when too new."""
        make = _PARTS.get(type(self.type))
        if make is None:
            raise TileIRError(f"{self.type!r} is no type of Tile IR")
        begin, parts = b"", list[tuple[WrittenType, bytes]]()
        for part in make(self.type, minor):
            if not isinstance(part, bytes):
                parts.append((self._all.get(part), b""))
            elif parts:
                parts[-1] = parts[-1][0], parts[-1][1] + part
            else:
                begin += part
        found = self.known[minor] = begin, parts
        return found


class WrittenTypes:
    """Types by what they are equal to. That is found once for an object: their hashes take long."""

    def __init__(self) -> None:
        self.objects: dict[int, WrittenType] = {}  # by the identity of the types in them
        self._equal: dict[Type, WrittenType] = {}
        self._entries: dict[tuple[WrittenType, ...], WrittenType] = {}  # types of functions by their parameters

    def get(self, type: Type) -> WrittenType:
        found = self.objects.get(id(type))
        if found is None:
            found = self._equal.get(type) or self._equal.setdefault(type, WrittenType(type, self))
            self.objects[id(found.type)] = found
        return found

    def entry(self, params: Sequence[Type]) -> WrittenType:
        """The type of an entry."""
        key = tuple(map(self.get, params))
        found = self._entries.get(key)
        if found is None:
            found = self._entries[key] = self.get(Function(tuple(params)))
        return found

    def __len__(self) -> int:
        return len(self._equal)


_Parts = Sequence[Union[bytes, Type]]


def _scalar_parts(t: Scalar, minor: int) -> _Parts:
    if t.since > minor:
        raise VersionError(f"the type {t} needs bytecode 13.{t.since}; it cannot be written as 13.{minor}")
    return (varint(t.tag),)


def _pointer_parts(t: Pointer, minor: int) -> _Parts:
    flags, attr = _pointer_attr(t, t.attr, minor)
    return varint(PTR) + flags, t.pointee, attr


def _tensor_view_parts(t: TensorView, minor: int) -> _Parts:
    flags, attr = _pointer_attr(t, t.attr, minor)
    extents = [tuple(DYNAMIC if n is None else n for n in numbers) for numbers in (t.shape, t.strides)]
    return varint(TENSOR_VIEW) + flags, t.element, integers(extents[0], 8) + integers(extents[1], 8) + attr


def _view_parts(t: TileView, minor: int) -> _Parts:
    if minor < 3 and t.kind != "partition_view":
        raise VersionError(f"the type {t} needs bytecode 13.3; it cannot be written as 13.{minor}")
    flags = varint(t.padding is not None)
    padding = b"" if t.padding is None else varint(ENUMS["Padding"].index(t.padding))
    head = varint(_VIEWS[t.kind]) + (flags if minor >= 3 else b"") + integers(t.tile_shape, 4)
    steps = b"" if t.steps is None else integers(t.steps, 4)
    axes = integers(t.dim_map, 4) if t.sparse_dim is None else varint(t.sparse_dim)
    return head + steps, t.view, axes + (padding if minor >= 3 else flags + padding)


def _function_parts(t: Function, minor: int) -> _Parts:
    return varint(FUNCTION) + varint(len(t.params)), *t.params, varint(len(t.results)), *t.results


_PARTS: dict[type, Callable[[Any, int], _Parts]] = {
    Scalar: _scalar_parts,
    Token: lambda t, minor: (varint(TOKEN_TAG),),
    Pointer: _pointer_parts,
    Tile: lambda t, minor: (varint(TILE), t.element, integers(t.shape, 8)),
    TensorView: _tensor_view_parts,
    TileView: _view_parts,
    Function: _function_parts,
}


def _pointer_attr(t: Type, attr: str | None, minor: int) -> tuple[bytes, bytes]:
    if attr is not None and minor < (4 if attr == "none" else 5):
        needed = 4 if attr == "none" else 5
        raise VersionError(f"the type {t} needs bytecode 13.{needed}; it cannot be written as 13.{minor}")
    if minor < 4:
        return b"", b""
    return varint(attr is not None), b"" if attr is None else varint(ENUMS["PtrAttr"].index(attr))
