"""The functions at an address of a program, from DWARF 4 and 5 (section ``.debug_info``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.system.dwarf import ADDRESS, IMPLICIT, Header, Reader, attribute, file_table

_INLINED, _SUBPROGRAM = 0x1D, 0x2E  # tags
_STMT_LIST, _LOW, _HIGH, _RANGES, _CALL_LINE, _CALL_FILE = 0x10, 0x11, 0x12, 0x55, 0x59, 0x58  # attributes
_DECL_FILE, _DECL_LINE = 0x3A, 0x3B
_ADDR_BASE, _RNGLISTS_BASE = 0x73, 0x74
_ADDRESS_INDEX = (0x1B, 0x29, 0x2A, 0x2B, 0x2C)  # forms
# Of lists of ranges.
_END, _BASEX, _STARTX_ENDX, _STARTX_LENGTH, _OFFSET_PAIR, _BASE, _START_END, _START_LENGTH = range(8)
_RNGLISTX = 0x23
Abbreviations = Mapping[int, tuple[int, bool, list[tuple[int, int, int]]]]


@dataclass
class _Unit:
    version: int
    offset_size: int
    contents: Mapping[str, bytes]
    base: int = 0  # the address that ranges count from
    address_base: int = 8
    ranges_base: int = 12

    def address(self, index: int) -> int:
        return Reader(self.contents.get(".debug_addr", b""), self.address_base + 8 * index).number(8)

    def ranges(self, value: int, form: int) -> Iterator[tuple[int, int]]:
        """The addresses in a list of ranges."""
        base = self.base
        if self.version < 5:
            reader = Reader(self.contents.get(".debug_ranges", b""), value)
            while (pair := (reader.number(8), reader.number(8))) != (0, 0):
                if pair[0] == (1 << 64) - 1:
                    base = pair[1]
                else:
                    yield base + pair[0], base + pair[1]
            return
        lists = self.contents.get(".debug_rnglists", b"")
        if form == _RNGLISTX:
            size = self.offset_size
            value = self.ranges_base + Reader(lists, self.ranges_base + size * value).number(size)
        reader = Reader(lists, value)
        while (kind := reader.number(1)) != _END:
            if kind in (_BASEX, _BASE):
                base = self.address(reader.unsigned()) if kind == _BASEX else reader.number(8)
                continue
            if kind == _OFFSET_PAIR:
                yield base + reader.unsigned(), base + reader.unsigned()
                continue
            start = reader.number(8) if kind in (_START_END, _START_LENGTH) else self.address(reader.unsigned())
            if kind == _START_END:
                yield start, reader.number(8)
            elif kind == _STARTX_ENDX:
                yield start, self.address(reader.unsigned())
            else:
                yield start, start + reader.unsigned()


def functions(
    contents: Mapping[str, bytes], addresses: Sequence[int]
) -> tuple[dict[int, list[tuple[str, int]]], set[int]]:
    """For each address in a function, files and lines: of the calls that were inlined, the innermost first, and of the
    declaration of the function. Then where the tables of lines of the units begin that have these addresses."""
    found: dict[int, list[tuple[str, int]]] = {}
    tables: set[int] = set()
    reader = Reader(contents.get(".debug_info", b""))
    while reader.at < len(reader.data):
        end, offset_size = reader.unit_end()
        unit = _Unit(reader.number(2), offset_size, contents)
        kind = reader.number(1) if unit.version >= 5 else 1
        if unit.version >= 5:
            reader.at += 1
        abbreviations = _abbreviations(contents.get(".debug_abbrev", b""), reader.number(offset_size))
        if unit.version < 5:
            reader.at += 1
        if kind == 1:
            _unit(reader, end, unit, abbreviations, addresses, found, tables)
        reader.at = end
    return found, tables


def _unit(
    reader: Reader,
    end: int,
    unit: _Unit,
    abbreviations: Abbreviations,
    addresses: Sequence[int],
    found: dict[int, list[tuple[str, int]]],
    tables: set[int],
) -> None:
    first, files = True, Header(0, 0, 0, 0, ())
    while reader.at < end:
        code = reader.unsigned()
        if not code:
            continue
        tag, _, attributes = abbreviations[code]
        wanted = first or tag in (_INLINED, _SUBPROGRAM)
        values: dict[int, tuple[int, int]] = {}
        for name, form, constant in attributes:
            value, form = attribute(reader, form, unit.offset_size, constant)
            if wanted:
                values[name] = value, form
        if not wanted:
            continue
        if first:
            unit.address_base = values.get(_ADDR_BASE, (8, 0))[0]
            unit.ranges_base = values.get(_RNGLISTS_BASE, (12, 0))[0]
        inside = _covered(values, unit, addresses, base=first)
        if first:
            if not inside or _STMT_LIST not in values:
                return
            tables.add(values[_STMT_LIST][0])
            lines = Reader(unit.contents.get(".debug_line", b""), values[_STMT_LIST][0])
            lines.at += 4 if unit.offset_size == 4 else 12
            files, first = file_table(lines, unit.offset_size, unit.contents), False
            continue
        where = (_CALL_FILE, _CALL_LINE) if tag == _INLINED else (_DECL_FILE, _DECL_LINE)
        file, line = (values.get(name, (0, 0))[0] for name in where)
        for address in inside:  # the outer calls come first
            found.setdefault(address, []).insert(0, (files.file(file), line))


def _covered(values: Mapping[int, tuple[int, int]], unit: _Unit, addresses: Sequence[int], *, base: bool) -> list[int]:
    """The ``addresses`` that an entry is about; ``base`` for that of the unit, which ranges count from, and which has
    all of them where it says nothing. What the linker left out is at 0."""
    low = 0
    if _LOW in values:
        value, form = values[_LOW]
        low = unit.address(value) if form in _ADDRESS_INDEX else value
        if base:
            unit.base = low
    if _HIGH in values:
        value, form = values[_HIGH]
        ranges = [(low, value if form == ADDRESS else low + value)]
    elif _RANGES in values:
        ranges = list(unit.ranges(*values[_RANGES]))
    else:
        return [*addresses] if base else []
    return [address for address in addresses if any(0 < start <= address < end for start, end in ranges)]


def _abbreviations(data: bytes, offset: int) -> Abbreviations:
    reader, found = Reader(data, offset), {}
    while code := reader.unsigned():
        tag, children = reader.unsigned(), reader.number(1) != 0
        attributes = []
        while True:
            name, form = reader.unsigned(), reader.unsigned()
            constant = reader.signed() if form == IMPLICIT else 0
            if not name and not form:
                break
            attributes.append((name, form, constant))
        found[code] = (tag, children, attributes)
    return found
