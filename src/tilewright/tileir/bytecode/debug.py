"""The Debug section: lists of locations, one for each op of a function, and the attributes that they name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tilewright.tileir.bytecode.attributes import Tables
from tilewright.tileir.bytecode.primitives import VARINTS, Cursor
from tilewright.tileir.debug import FIELDS, SUBPROGRAM, Location


@dataclass
class DebugTable:
    """Lists of locations, and every location in the order of the file."""

    lists: list[list[Location | None]] = field(default_factory=list)
    attributes: tuple[Location, ...] = ()


def _offsets(cursor: Cursor, base: int, width: int, what: str) -> tuple[int, ...]:
    count = cursor.count(what, width)
    cursor.align(width, base)
    return cursor.fixed(width, what, count)


def read_debug(cursor: Cursor, tables: Tables, minor: int) -> DebugTable:
    """The Debug section that ``cursor`` stands at."""
    base = cursor.pos
    first = _offsets(cursor, base, 4, "location lists")
    indices = _offsets(cursor, base, 8, "locations")
    start = cursor.pos
    offsets = _offsets(cursor, base, 4, "debug attributes")
    data = cursor.pos
    bounds = [*offsets, cursor.end - data]
    if any(a > b for a, b in itertools.pairwise(bounds)):
        raise cursor.error("offsets of debug attributes that do not decrease", start)
    table = _Attributes(cursor, data, bounds, tables, minor)
    attributes = tuple(table.get(i, 0, cursor) for i in range(len(offsets)))
    known: list[Location | None] = [None, *attributes]
    lists: list[list[Location | None]] = []
    for begin, end in zip(first, [*first[1:], len(indices)]):
        if not begin <= end <= len(indices):
            raise cursor.error(f"location lists within the {len(indices)} locations", base)
        part = indices[begin:end]
        if max(part, default=0) > len(attributes):
            wrong = next(i for i in part if i > len(attributes))
            raise cursor.error(f"a debug attribute up to {len(attributes)}, not {wrong}", base)
        lists.append([known[i] for i in part])
    return DebugTable(lists, attributes)


_MAX_DEPTH = 200  # of scopes in scopes and calls in calls


class _Attributes:
    """Attributes by number, made when first asked for, as they may refer to later ones."""

    def __init__(self, cursor: Cursor, data: int, bounds: Sequence[int], tables: Tables, minor: int) -> None:
        self.cursor = cursor
        self.data = data
        self.bounds = bounds
        self.tables = tables
        self.minor = minor
        self.made: dict[int, Location | None] = {}

    def get(self, number: int, depth: int, asking: Cursor) -> Location:
        if number in self.made:
            found = self.made[number]
            if found is None:
                raise asking.error("debug attributes that do not contain themselves")
            return found
        if number >= len(self.bounds) - 1:
            raise asking.error(f"a debug attribute up to {len(self.bounds) - 1}, not {number + 1}")
        if depth > _MAX_DEPTH:
            raise asking.error(f"debug attributes nested at most {_MAX_DEPTH} deep")
        self.made[number] = None
        start, end = self.data + self.bounds[number], self.data + self.bounds[number + 1]
        cursor = Cursor(self.cursor.data, start, end, self.cursor.file)
        made = self.read(cursor, depth)
        self.made[number] = made
        return made

    def read(self, cursor: Cursor, depth: int) -> Location:
        start = cursor.pos
        tag = cursor.varint("the tag of a debug attribute")
        if tag not in FIELDS:
            raise cursor.error(f"the tag of a debug attribute, 0 to {max(FIELDS)}, not {tag}", start)
        cls, kinds = FIELDS[tag]
        values: list[Any] = []
        for kind in kinds:
            if kind == "s":
                values.append(self.tables.string(cursor, "a debug attribute"))
            elif kind == "n":
                values.append(cursor.varint("a debug attribute"))
            else:
                number = cursor.varint("a debug attribute")
                values.append(self.get(number - 1, depth + 1, cursor) if number else None)
        if tag == SUBPROGRAM and self.minor >= 5:
            values.append(cursor.varint("the flags of a subprogram"))
        made: Location = cls(*values)
        return made


def _writer(tag: int, cls: type, kinds: str) -> Callable[[Any, Any], bytes]:
    """The function that writes a location with the numbers that a writer gives, and its tag."""
    written = {"n": "{}", "s": "w.string({})", "r": "w.location({})"}
    parts = [f" + varints[{written[kind].format(f'x.{f.name}')}]" for kind, f in zip(kinds, fields(cls))]
    made: Callable[[Any, Any], bytes] = eval(f"lambda w, x: {VARINTS[tag]!r}{''.join(parts)}", {"varints": VARINTS})
    return made


WRITERS = {cls: _writer(tag, cls, kinds) for tag, (cls, kinds) in FIELDS.items()}
