"""DWARF, what its sections have in common: numbers, texts, and the header of a table of lines, which lists files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_PATH, _DIRECTORY = 1, 2  # what entries of a header of version 5 hold
ADDRESS, IMPLICIT = 0x01, 0x21  # forms
_INDIRECT, _STRING, _LINE_STRP, _STRP = 0x16, 0x08, 0x1F, 0x0E
# The forms of so many bytes, those of the size of offsets, and those of numbers of any size without and with a sign.
_FIXED = {
    form: size
    for size, forms in {
        0: (0x19,),
        1: (0x0B, 0x0C, 0x11, 0x25, 0x29),
        2: (0x05, 0x12, 0x26, 0x2A),
        3: (0x27, 0x2B),
        4: (0x06, 0x13, 0x28, 0x2C),
        8: (ADDRESS, 0x07, 0x14, 0x20),
        16: (0x1E,),
    }.items()
    for form in forms
}
_OFFSETS = (_STRP, 0x10, 0x17, 0x1C, _LINE_STRP)
_UNSIGNED, _SIGNED = (0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23), 0x0D
_BLOCKS = {0x0A: 1, 0x03: 2, 0x04: 4}  # with the bytes of their length, and those whose length is of any size
_LONG_BLOCKS = (0x09, 0x18)


@dataclass
class Reader:
    """Reads numbers and texts from ``at`` on."""

    data: bytes
    at: int = 0

    def number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def unit_end(self) -> tuple[int, int]:
        """The end of a unit, whose length comes now, and the size of offsets in it."""
        length, size = self.number(4), 4
        if length == 0xFFFFFFFF:
            length, size = self.number(8), 8
        return self.at + length, size

    def unsigned(self) -> int:
        found = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7

    def signed(self) -> int:
        start = self.at
        found = self.unsigned()
        bits = 7 * (self.at - start)
        return found - (1 << bits) if found >> (bits - 1) else found

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        found = self.data[self.at : end].decode(errors="replace")
        self.at = end + 1
        return found


@dataclass
class Header:
    """The header of a unit of the table of lines."""

    version: int
    step: int  # of addresses
    line_base: int
    line_range: int
    lengths: tuple[int, ...]  # operands of the opcodes
    folders: list[str] = field(default_factory=list)
    files: list[tuple[str, int]] = field(default_factory=list)

    def file(self, number: int) -> str:
        """A file, by its number in the table."""
        index = number if self.version >= 5 else number - 1
        if not 0 <= index < len(self.files):
            return "?"
        name, folder = self.files[index]
        if self.version < 5:
            folder -= 1
        if name.startswith("/") or not 0 <= folder < len(self.folders) or (self.version >= 5 and not folder):
            return name
        return f"{self.folders[folder]}/{name}"


def file_table(reader: Reader, offset_size: int, contents: Mapping[str, bytes]) -> Header:
    """The header of a unit, behind which its rows begin."""
    version = reader.number(2)
    if version >= 5:
        reader.at += 2
    length = reader.number(offset_size)
    program = reader.at + length
    step = reader.number(1)
    reader.at += 2 if version >= 4 else 1
    base = reader.number(1)
    header = Header(version, step, base - 256 if base > 127 else base, reader.number(1), ())
    header.lengths = (0, *(reader.number(1) for _ in range(reader.number(1) - 1)))
    if version < 5:
        while name := reader.text():
            header.folders.append(name)
        while name := reader.text():
            header.files.append((name, reader.unsigned()))
            reader.unsigned(), reader.unsigned()
    else:
        header.folders += [name for name, _ in _entries(reader, offset_size, contents)]
        header.files += _entries(reader, offset_size, contents)
    reader.at = program
    return header


def _entries(reader: Reader, offset_size: int, contents: Mapping[str, bytes]) -> list[tuple[str, int]]:
    """A list of paths, each with the number of its folder, of a header of version 5."""
    formats = [(reader.unsigned(), reader.unsigned()) for _ in range(reader.number(1))]
    found = []
    for _ in range(reader.unsigned()):
        name, folder = "", 0
        for what, form in formats:
            value = _value(reader, form, offset_size, contents)
            if what == _PATH and isinstance(value, str):
                name = value
            elif what == _DIRECTORY and isinstance(value, int):
                folder = value
        found.append((name, folder))
    return found


def _value(reader: Reader, form: int, offset_size: int, contents: Mapping[str, bytes]) -> str | int:
    if form == _STRING:
        return reader.text()
    value, form = attribute(reader, form, offset_size)
    if form not in (_LINE_STRP, _STRP):
        return value
    return Reader(contents.get(".debug_line_str" if form == _LINE_STRP else ".debug_str", b""), value).text()


def attribute(reader: Reader, form: int, offset_size: int, constant: int = 0) -> tuple[int, int]:
    """The value of an attribute, as a number where it is one, and its form; ``constant`` is that of implicit ones."""
    if form == _INDIRECT:
        return attribute(reader, reader.unsigned(), offset_size, constant)
    size = offset_size if form in _OFFSETS else _FIXED.get(form)
    if size is not None:
        return reader.number(size), form
    if form in _UNSIGNED:
        return reader.unsigned(), form
    if form == _SIGNED:
        return reader.signed(), form
    if form == IMPLICIT:
        return constant, form
    if form == _STRING:
        reader.text()
    elif form in _BLOCKS or form in _LONG_BLOCKS:
        length = reader.number(_BLOCKS[form]) if form in _BLOCKS else reader.unsigned()
        reader.at += length
    else:
        raise ValueError(f"debug information of the form {form:#x}")
    return 0, form
