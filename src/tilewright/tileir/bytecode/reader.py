"""Reads bytecode. Damaged files raise BytecodeError, in time and memory that grow with the file only."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TypeVar

from tilewright.system import collector
from tilewright.tileir import rules
from tilewright.tileir.bytecode.attributes import HINTS_TAG, read_hints, read_tagged
from tilewright.tileir.bytecode.debug import DebugTable, read_debug
from tilewright.tileir.bytecode.decoders import Decoder, decoder
from tilewright.tileir.bytecode.primitives import Cursor
from tilewright.tileir.bytecode.tables import read_constants, read_strings, read_types
from tilewright.tileir.constants import problem
from tilewright.tileir.debug import Location
from tilewright.tileir.errors import BytecodeError
from tilewright.tileir.module import ArrayAttr, Block, Entry, FileLayout, Global, HintsAttr, Module, Value
from tilewright.tileir.optable import BY_OPCODE, ENUMS, NEWEST
from tilewright.tileir.types import Function, Scalar, Tile, Type

T = TypeVar("T")
MAGIC = b"\x7fTileIR\x00"
END, STRING, FUNC, DEBUG, CONSTANT, TYPE, GLOBAL, PRODUCER = range(8)
# section -> the alignment that its own must be a multiple of
ALIGNMENTS = {STRING: 4, FUNC: 8, DEBUG: 8, CONSTANT: 8, TYPE: 4, GLOBAL: 1, PRODUCER: 1}
NAMES = {STRING: "String", FUNC: "Func", DEBUG: "Debug", CONSTANT: "Constant", TYPE: "Type", GLOBAL: "Global"}
MAX_REGIONS = 100  # regions in regions
KERNEL, HINTS, PRIVATE = 2, 4, 1  # bits of the flags of a function


def read(data: bytes, file: str = "") -> Module:
    """The module in ``data``. BytecodeError, with the byte, for what is no bytecode of a known version."""
    with collector.paused(leaves=False):
        return _Reader(bytes(data), file).module()


def sections(data: bytes, file: str = "") -> tuple[int, list[tuple[int, int, int]], int]:
    """The minor version of ``data``, its sections (number, start and end of the payload), and where the file ends."""
    cursor = Cursor(data, 0, len(data), file)
    if cursor.take(min(8, len(data)), "the magic") != MAGIC:
        raise cursor.error("7F 54 69 6C 65 49 52 00, the magic of Tile IR bytecode", 0)
    major, minor = cursor.byte("the major version"), cursor.byte("the minor version")
    if major != 13 or not 1 <= minor <= NEWEST:
        raise cursor.error(f"version 13.1 to 13.{NEWEST}, not {major}.{minor}", 8)
    (tag,) = cursor.fixed(2, "the version tag")
    if tag == 1:
        raise cursor.error("no preview features, which tools of one release only understand", 10)
    if tag:
        raise cursor.error(f"a version tag of 0, not {tag}", 10)
    found: list[tuple[int, int, int]] = []
    while True:
        start = cursor.pos
        head = cursor.byte("the head of a section")
        number = head & 127
        if number == END:
            if head:
                raise cursor.error("the end byte 00", start)
            return minor, found, cursor.pos
        if number not in ALIGNMENTS:
            raise cursor.error(f"a section below {len(ALIGNMENTS) + 1}, not {number}", start)
        length = cursor.varint("the length of a section")
        if head & 128:
            _align(cursor, number)
        payload = cursor.pos
        cursor.take(length, f"section {number}")
        found.append((number, payload, cursor.pos))


def _align(cursor: Cursor, number: int) -> None:
    start = cursor.pos
    alignment = cursor.varint("an alignment")
    if alignment == 0 or alignment & (alignment - 1) or alignment % ALIGNMENTS[number]:
        raise cursor.error(f"an alignment that is a multiple of {ALIGNMENTS[number]}, not {alignment}", start)
    cursor.take(-cursor.pos % alignment, "padding")


class _Reader:
    def __init__(self, data: bytes, file: str) -> None:
        self.data = data
        self.file = file
        self.minor, found, end = sections(data, file)
        if end != len(data):
            raise BytecodeError(end, "the end of the file after the end byte", file)
        self.order = tuple(number for number, _, _ in found)
        self.ranges = {number: (start, end) for number, start, end in found}
        for number in (STRING, FUNC):
            if number not in self.ranges:
                raise BytecodeError(end, f"a {NAMES[number]} section", file)
        self.end = len(data)
        self.strings: list[str] = []
        self.constants: list[bytes] = []
        self.types: list[Type] = []
        self.locations: list[Location | None] | None = None
        self.next_location = 0
        self.depth = 0
        self._cursor = Cursor(data, 0, len(data), file)
        self.decoders: dict[int, tuple[Decoder, tuple[str, ...]]] = {
            opcode: decoder(opcode, self.minor) for opcode, spec in BY_OPCODE.items() if spec.since <= self.minor
        }

    def section(self, number: int) -> Cursor | None:
        range_ = self.ranges.get(number)
        return None if range_ is None else Cursor(self.data, *range_, self.file)

    def module(self) -> Module:
        raw = read_strings(self.section(STRING))
        self.strings = [s.decode("utf-8", "surrogateescape") for s in raw]
        self.types = read_types(self.section(TYPE), self.minor)
        self.constants = read_constants(self.section(CONSTANT))
        debug_section = self.section(DEBUG)
        debug = DebugTable() if debug_section is None else read_debug(debug_section, self, self.minor)
        module = Module(self.minor, file=self.file)
        module.globals = self.globals()
        producer = self.section(PRODUCER)
        if producer is not None:
            module.producer = self.string(producer, "the producer")
        functions = self.section(FUNC)
        assert functions is not None
        first_lists: list[int] = []
        for _ in range(functions.count("functions", 6)):
            module.entries.append(self.entry(functions, debug, first_lists))
        padded = functions.pos < functions.end
        module.layout = FileLayout(
            self.order,
            tuple(raw),
            tuple(self.types),
            tuple(self.constants),
            debug.attributes,
            padded,
            tuple(first_lists),
        )
        return module

    # Entries of tables, by a number in the file.

    def string(self, cursor: Cursor, what: str) -> str:
        return self.numbered(cursor, self.strings, "string", what)

    def type(self, cursor: Cursor, what: str) -> Type:
        return self.numbered(cursor, self.types, "type", what)

    def constant(self, cursor: Cursor) -> bytes:
        return self.numbered(cursor, self.constants, "constant", "the value of a constant")

    def numbered(self, cursor: Cursor, table: Sequence[T], kind: str, what: str) -> T:
        start = cursor.pos
        number = cursor.varint(what)
        if number >= len(table):
            raise cursor.error(f"a {kind} below {len(table)} as {what}, not {number}", start)
        return table[number]

    def check_constant(self, type: Type, data: bytes, pos: int) -> None:
        """Raise for a constant ``data``, named before ``pos``, that is no array of ``type``."""
        if not isinstance(type, Tile) or not isinstance(type.element, Scalar):
            raise BytecodeError(pos, f"a constant that is a tile of numbers, not of type {type}", self.file)
        broken = problem(type, data)
        if broken is not None:
            raise BytecodeError(pos, broken, self.file)

    def globals(self) -> list[Global]:
        cursor = self.section(GLOBAL)
        found: list[Global] = []
        if cursor is None:
            return found
        for _ in range(cursor.count("globals", 4)):
            name = self.string(cursor, "the name of a global")
            start = cursor.pos
            type = self.type(cursor, "the type of a global")
            if not isinstance(type, Tile) or len(type.shape) != 1:
                raise cursor.error(f"a tile type of rank 1, not {type}", start)
            made = Global(name, type, self.constant(cursor), cursor.varint("an alignment"))
            if self.minor >= 3:
                made.visibility = cursor.pick(ENUMS["Visibility"], "the visibility of a global")
                made.constant = cursor.pick(("", "constant"), "constant or not") != ""
            self.check_constant(type, made.value, cursor.pos)
            found.append(made)
        return found

    # Functions and their bodies.

    def entry(self, cursor: Cursor, debug: DebugTable, first_lists: list[int]) -> Entry:
        name = self.string(cursor, "the name of a function")
        start = cursor.pos
        signature = self.type(cursor, "the signature of a function")
        if not isinstance(signature, Function) or signature.results:
            raise cursor.error(f"a function type without results, not {signature}", start)
        for parameter in signature.params:
            if not isinstance(parameter, Tile) or parameter.shape:
                raise cursor.error(f"parameters that are tiles of rank 0, not {parameter}", start)
        start = cursor.pos
        flags = cursor.byte("the flags of a function")
        if not flags & KERNEL:
            raise cursor.error("a kernel entry: other functions are a preview feature", start)
        if flags & ~(PRIVATE | KERNEL | (HINTS if self.minor < 5 else 0)):
            raise cursor.error(f"known flags of a function, not {flags:#x}", start)
        start = cursor.pos
        location = cursor.varint("a location")
        if location > len(debug.lists):
            raise cursor.error(f"a list of locations, at most {len(debug.lists)}, not {location}", start)
        first_lists.append(location)
        hints, arg_attrs = self.function_attributes(cursor, flags)
        length = cursor.count("bytes of a body")
        locations = debug.lists[location - 1] if location else []
        self.locations = locations[1:] or None
        self.next_location = 0
        values = [Value(t) for t in signature.params]
        body = Block(list(values))
        end = cursor.pos + length
        self.body(body, cursor.pos, end, values)
        cursor.pos = end
        return Entry(name, body, hints, arg_attrs, locations[0] if locations else None, bool(flags & PRIVATE))

    def function_attributes(self, cursor: Cursor, flags: int) -> tuple[HintsAttr | None, ArrayAttr | None]:
        hints, arg_attrs = None, None
        if self.minor >= 5 or flags & HINTS:
            start = cursor.pos
            if cursor.varint("the tag of hints") != HINTS_TAG:
                raise cursor.error(f"optimization hints, tag {HINTS_TAG}", start)
            hints = read_hints(cursor, self)
        if self.minor >= 5:
            start = cursor.pos
            found = read_tagged(cursor, self)
            if not isinstance(found, ArrayAttr):
                raise cursor.error("an array of argument attributes", start)
            arg_attrs = found
        return hints, arg_attrs

    def body(self, block: Block, pos: int, end: int, values: list[Value]) -> None:
        """Read the ops of an entry, which fill the bytes up to ``end``."""
        pos = self.ops(block, pos, end, end - pos, values)
        if pos != end:
            raise BytecodeError(end, "ops that end with their function", self.file)
        if not block.ops or block.ops[-1].name != "return":
            raise BytecodeError(end, "a return as the last op of a function", self.file)

    def ops(self, block: Block, pos: int, end: int, count: int, values: list[Value]) -> int:
        """Read ops into ``block``, at most ``count`` that begin before ``end``; returns the position behind them."""
        data, types, decoders, append = self.data, self.types, self.decoders, block.ops.append
        locations = self.locations
        for _ in range(count):
            if pos >= end:
                break
            start, opcode = pos, data[pos]
            found = decoders.get(opcode)
            if found is None:
                raise self.unknown_op(pos, opcode)
            at = self.next_location
            self.next_location = at + 1
            try:
                op, pos = found[0](self, data, pos + 1, values, types)
            except IndexError:
                _, _, trace = sys.exc_info()
                raise self.located(trace, start, found[1]) from None
            if op.regions:
                broken = rules.region_problem(op)
                if broken is not None:
                    raise BytecodeError(start, broken, self.file)
            if locations is not None and at < len(locations):
                op.loc = locations[at]
            append(op)
        return pos

    def unknown_op(self, pos: int, opcode: int) -> BytecodeError:
        spec = BY_OPCODE.get(opcode)
        if spec is None:
            return BytecodeError(pos, f"the opcode of an op, not {opcode}", self.file)
        return BytecodeError(
            pos, f"an op of version 13.{self.minor}, not {spec.name}, which 13.{spec.since} brought", self.file
        )

    def located(self, trace: TracebackType | None, start: int, expected: tuple[str, ...]) -> BytecodeError:
        """The error for the line of a decoder that failed."""
        while trace is not None and trace.tb_next is not None and "pos" not in trace.tb_frame.f_locals:
            trace = trace.tb_next
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<decoder"):
            trace = trace.tb_next
        assert trace is not None
        pos = trace.tb_frame.f_locals.get("pos", start)
        what = expected[trace.tb_lineno - 1]
        if pos >= self.end:
            return BytecodeError(self.end, f"{what}, where the data end", self.file)
        return BytecodeError(pos - 1, what, self.file)

    # What decoders call.

    @property
    def position(self) -> int:
        return self._cursor.pos

    def cursor(self, pos: int) -> Cursor:
        self._cursor.pos = pos
        return self._cursor

    def bools(self, pos: int) -> tuple[bool, ...]:
        """For decoders, whose text is generated."""
        cursor = self.cursor(pos)
        return tuple(cursor.bool("a flag") for _ in range(cursor.count("flags")))

    def regions(self, pos: int, number: int, values: list[Value]) -> tuple[list[Block | None], int]:
        self.depth += 1
        if self.depth > MAX_REGIONS:
            raise BytecodeError(pos, f"regions nested at most {MAX_REGIONS} deep", self.file)
        found: list[Block | None] = []
        for _ in range(number):
            cursor = self.cursor(pos)
            blocks = cursor.varint("the number of blocks of a region")
            if blocks > 1:
                raise cursor.error(f"one block in a region, not {blocks}", pos)
            if blocks == 0:
                found.append(None)
                pos = cursor.pos
                continue
            arguments = [Value(self.type(cursor, "an argument")) for _ in range(cursor.count("block arguments"))]
            count = cursor.count("ops of a block")
            block = Block(arguments)
            outside = len(values)
            values += arguments
            pos = self.ops(block, cursor.pos, self.end, count, values)
            if len(block.ops) < count:
                raise BytecodeError(pos, "an op, where the data end", self.file)
            self.check_terminator(block, pos)
            del values[outside:]
            found.append(block)
        self.depth -= 1
        return found, pos

    def check_terminator(self, block: Block, pos: int) -> None:
        if not block.ops or block.ops[-1].name not in rules.TERMINATORS:
            known = ", ".join(rules.TERMINATORS)
            raise BytecodeError(pos, f"a terminator ({known}) as the last op of a block", self.file)
