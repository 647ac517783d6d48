"""Writes bytecode: what ``reader`` read comes out byte by byte as it was, in its order."""

from __future__ import annotations

import itertools
import sys
from array import array
from collections.abc import Hashable, Sequence, Sized
from typing import Any

from tilewright.system import collector
from tilewright.tileir.bytecode.attributes import HINTS_TAG, write_payload, write_tagged
from tilewright.tileir.bytecode.debug import WRITERS
from tilewright.tileir.bytecode.encode import BodyWriter, WrittenLocation
from tilewright.tileir.bytecode.primitives import FORMATS, VARINTS, varint
from tilewright.tileir.bytecode.reader import (
    ALIGNMENTS,
    CONSTANT,
    DEBUG,
    FUNC,
    GLOBAL,
    HINTS,
    KERNEL,
    MAGIC,
    PRIVATE,
    PRODUCER,
    STRING,
    TYPE,
)
from tilewright.tileir.bytecode.tables import WrittenTypes
from tilewright.tileir.debug import FileLoc, Location, Subprogram
from tilewright.tileir.errors import VersionError
from tilewright.tileir.module import ArrayAttr, Entry, FileLayout, HintsAttr, Module, RepeatedConstant
from tilewright.tileir.optable import ENUMS, NEWEST
from tilewright.tileir.types import Type

ORDER = (FUNC, GLOBAL, CONSTANT, DEBUG, TYPE, PRODUCER, STRING)
_PADDING = b"\xcb"
_FILE_LOC = bytes((4,))  # the tag of locations in files


def write(module: Module, minor: int | None = None) -> bytes:
    """``module`` as bytecode of version 13.``minor``, by default its own.

    VersionError for what that version cannot express.
    """
    version = module.minor if minor is None else minor
    if not 1 <= version <= NEWEST:
        raise VersionError(f"there is no bytecode version 13.{version}; they are 13.1 to 13.{NEWEST}")
    with collector.paused(leaves=False):
        writer = ModuleWriter(module, version)
        for entry in module.entries:
            body = writer.begin(entry)
            body.ops(entry.body)
            writer.end(entry, body)
        return writer.file()


def _table(entries: Sequence[bytes | bytearray], width: int) -> bytes:
    """A count, the offsets of the entries and the entries."""
    return b"".join([_padded(varint(len(entries)), width), _packed(_offsets(entries), width), *entries])


def _offsets(entries: Sequence[Sized]) -> list[int]:
    """Where each entry begins, after those before it."""
    return [0, *itertools.accumulate(map(len, entries[:-1]))] if entries else []


def _packed(numbers: Sequence[int], width: int) -> bytes:
    """Little-endian integers of ``width`` bytes."""
    made = array(FORMATS[width], numbers)
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


def _padded(data: bytes, width: int) -> bytes:
    return data + _PADDING * (-len(data) % width)


_types = WrittenTypes()  # of files that were written before
_MOST_TYPES = 4096


def _known_types() -> WrittenTypes:
    """The types that a writer begins with, and adds to."""
    global _types
    if len(_types) > _MOST_TYPES:
        _types = WrittenTypes()
    return _types


class _Numbers(dict[Hashable, int]):
    """Numbers of things by first use, beginning with those that a file had."""

    def __init__(self, known: Sequence[Hashable]) -> None:
        self.all: list[Any] = list(known)
        for i, item in enumerate(known):
            self.setdefault(item, i)

    def __missing__(self, item: Hashable) -> int:
        number = self[item] = len(self.all)
        self.all.append(item)
        return number


class ModuleWriter:
    """Writes ``module`` as a file of version 13.``minor``, after its entries: ``begin`` and ``end`` are around what
    appends the ops of one."""

    def __init__(self, module: Module, minor: int) -> None:
        self.module = module
        self.minor = minor
        layout = module.layout or FileLayout()
        self.layout = layout
        self.strings = _Numbers(layout.strings)
        self.texts: dict[str, int] = {}  # the numbers of strings
        self.known = _known_types()
        self.types = _Numbers([self.known.get(t) for t in layout.types])
        self.constants = _Numbers(layout.constants)
        self.repeated = {id(c): i for i, c in enumerate(layout.constants) if type(c) is RepeatedConstant}
        self.locations: dict[WrittenLocation | None, int] = {None: 0}  # the numbers of those that are written
        self.written: list[bytes] = []
        self.lists: list[list[WrittenLocation | None]] = []
        self.heads: dict[tuple[Location | None, str], bytes] = {}
        self.entries: list[bytes] = []
        self.begun = b"", b""  # what is before and behind the number of the location list of an entry

    # Numbers of what ops and attributes name.

    def string(self, text: str) -> int:
        number = self.texts.get(text)
        if number is None:
            number = self.texts[text] = self.strings[text.encode("utf-8", "surrogateescape")]
        return number

    def type(self, type: Type) -> int:
        return self.types[self.known.objects.get(id(type)) or self.known.get(type)]

    def constant(self, data: bytes) -> int:
        if type(data) is RepeatedConstant and id(data) in self.repeated:
            return self.repeated[id(data)]
        return self.constants[data]

    def location(self, location: WrittenLocation | None) -> int:
        """The number of a location, which is written after all that it refers to; 0 for none."""
        number = self.locations.get(location)
        if number is None and location is not None:
            made = self.debug_attribute(location)
            self.written.append(made)
            number = self.locations[location] = len(self.written)
        return number or 0

    # Sections.

    def file(self) -> bytes:
        # Tables are made last, in this order, as what comes before adds to them.
        payloads = {
            FUNC: self.functions(),
            GLOBAL: self.globals(),
            CONSTANT: self.constant_table(),
            DEBUG: self.debug(),
            TYPE: self.type_table(),
            PRODUCER: self.producer(),
            STRING: self.string_table(),
        }
        out = bytearray(MAGIC + bytes((13, self.minor, 0, 0)))
        for section in dict.fromkeys((*filter(payloads.__contains__, self.layout.sections), *ORDER)):
            payload = payloads[section]
            if payload is not None:
                self.section(out, section, payload)
        return bytes(out) + b"\0"

    def section(self, out: bytearray, number: int, payload: bytes) -> None:
        alignment = ALIGNMENTS[number]
        if alignment == 1:
            out += bytes((number,)) + varint(len(payload)) + payload
            return
        out += bytes((number | 128,)) + varint(len(payload)) + varint(alignment)
        out += _PADDING * (-len(out) % alignment)
        out += payload

    def functions(self) -> bytes:
        payload = b"".join([varint(len(self.entries)), *self.entries])
        return _padded(payload, 8) if self.layout.padded else payload

    def begin(self, entry: Entry) -> BodyWriter:
        """What writes the ops of ``entry``, whose name, parameters and hints are known."""
        head = varint(self.string(entry.name))
        head += varint(self.types[self.known.entry([a.type for a in entry.body.args])])
        flags = KERNEL | (PRIVATE if entry.private else 0)
        if self.minor < 5 and entry.hints is not None:
            flags |= HINTS
        self.begun = head + bytes((flags,)), self.entry_attributes(entry)
        return BodyWriter(self.minor, self, entry.body.args)

    def end(self, entry: Entry, writer: BodyWriter) -> None:
        head, attributes = self.begun
        body, where = b"".join(writer.out), self.list_number(entry, writer.locations)
        self.entries.append(head + varint(where) + attributes + varint(len(body)) + body)

    def entry_attributes(self, entry: Entry) -> bytes:
        hints = entry.hints
        if hints is not None and self.minor < 3 and any(key == "default" for key, _ in hints.entries):
            raise VersionError(f"hints for 'default' need bytecode 13.3; they cannot be written as 13.{self.minor}")
        if self.minor < 5:
            if entry.arg_attrs is not None and entry.arg_attrs.items:
                raise VersionError(f"argument attributes need bytecode 13.5; they cannot be written as 13.{self.minor}")
            return b"" if hints is None else varint(HINTS_TAG) + write_payload(hints, self)
        always = varint(HINTS_TAG) + write_payload(hints or HintsAttr(), self)
        return always + write_tagged(entry.arg_attrs or ArrayAttr(), self)

    def list_number(self, entry: Entry, locations: list[WrittenLocation | None]) -> int:
        """The number of the location list of an entry, which it adds; 0 when nothing has a location."""
        had, position = self.layout.function_lists, len(self.entries)
        known = position < len(had) and had[position] != 0
        if entry.loc is None and not any(locations) and not known:
            return 0
        self.lists.append([entry.loc, *locations])
        return len(self.lists)

    def globals(self) -> bytes | None:
        if not self.module.globals and GLOBAL not in self.layout.sections:
            return None
        out = [varint(len(self.module.globals))]
        for g in self.module.globals:
            out += [varint(self.string(g.name)), varint(self.type(g.type)), varint(self.constant(g.value))]
            out.append(varint(g.alignment))
            if self.minor >= 3:
                out += [varint(ENUMS["Visibility"].index(g.visibility)), varint(g.constant)]
            elif g.visibility != "public" or g.constant:
                raise VersionError(
                    f"the global {g.name} is private or constant, which needs bytecode 13.3; it cannot be written as "
                    f"13.{self.minor}"
                )
        return b"".join(out)

    def constant_table(self) -> bytes | None:
        if not self.constants and CONSTANT not in self.layout.sections:
            return None
        return _table([varint(len(c)) + c for c in self.constants.all], 8)

    def debug(self) -> bytes | None:
        if not self.lists and DEBUG not in self.layout.sections:
            return None
        known = self.layout.locations  # which may refer to later ones
        self.locations |= {loc: number for number, loc in enumerate(known, 1)}
        self.written = [self.debug_attribute(loc) for loc in known]
        numbers, written, scope, file, head = self.locations, self.written, None, None, b""
        for loc in dict.fromkeys(itertools.chain(*self.lists)):
            if loc in numbers:
                continue
            if type(loc) is tuple:
                in_scope, in_file, line, column = loc
            elif type(loc) is FileLoc:
                in_scope, in_file, line, column = loc.scope, loc.file, loc.line, loc.column
            else:
                self.location(loc)
                continue
            if in_scope is not scope or in_file is not file or not head:
                scope, file = in_scope, in_file
                head = self.heads.get((scope, file)) or self.head(scope, file)
            written.append(head + VARINTS[line] + VARINTS[column])
            numbers[loc] = len(written)
        indices = list(map(numbers.__getitem__, itertools.chain(*self.lists)))
        first = _offsets(self.lists)
        payload = _padded(varint(len(first)), 4) + _packed(first, 4)
        payload = _padded(payload + varint(len(indices)), 8) + _packed(indices, 8)
        payload = _padded(payload + varint(len(self.written)), 4) + _packed(_offsets(self.written), 4)
        return b"".join([payload, *self.written])

    def head(self, scope: Location | None, file: str) -> bytes:
        """What all locations in one scope and file begin with."""
        made = self.heads[scope, file] = _FILE_LOC + varint(self.location(scope)) + varint(self.string(file))
        return made

    def debug_attribute(self, location: WrittenLocation) -> bytes:
        if type(location) is FileLoc:  # most are
            location = location.scope, location.file, location.line, location.column
        if type(location) is tuple:
            scope, file, line, column = location
            return (self.heads.get((scope, file)) or self.head(scope, file)) + VARINTS[line] + VARINTS[column]
        written = WRITERS[type(location)](self, location)
        return written + varint(location.flags) if type(location) is Subprogram and self.minor >= 5 else written

    def type_table(self) -> bytes | None:
        minor, numbers, entries = self.minor, self.types, list[bytes]()
        for t in numbers.all:  # which grow, by the parts of types, meanwhile
            entry, parts = t.known.get(minor) or t.parts(minor)
            for part, rest in parts:
                entry += VARINTS[numbers[part]] + rest
            entries.append(entry)
        return _table(entries, 4) if entries or TYPE in self.layout.sections else None

    def producer(self) -> bytes | None:
        if self.module.producer is None or (self.minor < 3 and PRODUCER not in self.layout.sections):
            return None
        return varint(self.string(self.module.producer))

    def string_table(self) -> bytes:
        return _table(self.strings.all, 4)
