"""Lines of the source for addresses of a program, from its debug information (DWARF 2 to 5)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tilewright.system.dwarf import Header, Reader, file_table
from tilewright.system.elf import sections
from tilewright.system.functions import functions

_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN, _NEGATE, _BLOCK, _CONST_ADD, _FIXED = range(1, 10)
_EXTENDED, _END_SEQUENCE, _SET_ADDRESS = 0, 1, 2


class SourceLine(NamedTuple):
    """A line, counted from 1, of a file."""

    file: str
    line: int


def source_lines(program: bytes, addresses: Sequence[int]) -> list[list[SourceLine]]:
    """The source lines of ``addresses`` in the ELF file ``program``: the line of each, then those of the calls that
    were inlined, the innermost first; where none of these is known, that of the function. ValueError for what is no ELF
    file."""
    contents = {section.name: section.content for section in sections(program)}
    found: dict[int, list[SourceLine]] = {address: [] for address in addresses}
    wanted = sorted(found)
    calls_of, tables = functions(contents, wanted)
    for header, rows in _units(contents, tables if ".debug_info" in contents else None):
        for sequence in _sequences(rows):
            if sequence[0][0] == 0:  # the linker left it out
                continue
            for address in wanted[bisect_left(wanted, sequence[0][0]) : bisect_left(wanted, sequence[-1][0])]:
                _, file, line = sequence[bisect_right(sequence, address, key=lambda row: row[0]) - 1]
                found[address] = [SourceLine(header.file(file), line)] if line else []
    for address, (*calls, declaration) in calls_of.items():
        known = [*calls, *([] if found[address] or calls else [declaration])]
        found[address] += [SourceLine(file, line) for file, line in known if line]
    return [found[address] for address in addresses]


def rows(contents: dict[str, bytes]) -> list[tuple[int, int]]:
    """Places in the code of an object file of one section of code, each with the line from there on, 0 for none;
    ``contents`` are the sections. Empty without debug information."""
    return [(row[0], row[2]) for _, unit in _units(contents) for row in unit if row is not None]


def _sequences(rows: Iterable[tuple[int, int, int] | None]) -> Iterator[list[tuple[int, int, int]]]:
    """Rows of contiguous code, by their addresses; the last one is where it ends."""
    sequence: list[tuple[int, int, int]] = []
    for row in rows:
        if row is not None:
            sequence.append(row)
            continue
        if sequence:
            yield sequence
        sequence = []


def _units(
    contents: Mapping[str, bytes], tables: Collection[int] | None = None
) -> Iterator[tuple[Header, Iterator[tuple[int, int, int] | None]]]:
    """The units that begin at one of ``tables``, or all of them."""
    reader = Reader(contents.get(".debug_line", b""))
    while reader.at < len(reader.data):
        start = reader.at
        end, offset_size = reader.unit_end()
        if tables is None or start in tables:
            header = file_table(reader, offset_size, contents)
            yield header, _rows(reader.data, reader.at, end, header)
        reader.at = end


def _rows(data: bytes, start: int, end: int, header: Header) -> Iterator[tuple[int, int, int] | None]:
    """Address, file and line of the rows of a unit; None behind the end of a sequence."""
    reader = Reader(data, start)
    first = len(header.lengths)
    address, file, line = 0, 1, 1
    while reader.at < end:
        opcode = reader.number(1)
        if opcode >= first:
            address += (opcode - first) // header.line_range * header.step
            line += header.line_base + (opcode - first) % header.line_range
            yield address, file, line
        elif opcode == _EXTENDED:
            size = reader.unsigned()
            after = reader.at + size
            kind = reader.number(1)
            if kind == _END_SEQUENCE:
                yield address, file, line
                yield None
                address, file, line = 0, 1, 1
            elif kind == _SET_ADDRESS:
                address = reader.number(size - 1)
            reader.at = after
        elif opcode == _COPY:
            yield address, file, line
        elif opcode == _ADVANCE_PC:
            address += reader.unsigned() * header.step
        elif opcode == _ADVANCE_LINE:
            line += reader.signed()
        elif opcode == _SET_FILE:
            file = reader.unsigned()
        elif opcode == _CONST_ADD:
            address += (255 - first) // header.line_range * header.step
        elif opcode == _FIXED:
            address += reader.number(2)
        else:
            for _ in range(header.lengths[opcode]):
                reader.unsigned()
