"""The sections of ELF files of 64 bits: objects of compilers, and machine code of GPUs."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tilewright.records import NamedTuple

MAGIC = b"\x7fELF"
NO_BITS = 8  # the type of a section without contents, such as zeros
_LITTLE_64 = b"\x02\x01"  # what follows: 64 bits, little-endian
_FILE_HEADER = 64  # bytes
_TABLE = struct.Struct("<Q10xHHH")  # from byte 40 on: where section headers are, their size, number, that of names
_SYMBOL = struct.Struct("<IBBHQQ")
_HEADER = struct.Struct("<IIQQQQIIQQ")


class Section(NamedTuple):
    """A section: its type (``kind``) and other numbers as the format has them, and its ``content``."""

    name: str
    kind: int
    flags: int
    size: int
    link: int
    info: int
    alignment: int
    content: bytes


class Symbol(NamedTuple):
    """A name with the number of its section, and its offset and size there; ``kind`` as the format has it."""

    name: str
    kind: int
    section: int
    value: int
    size: int


def symbols(parts: Sequence[Section]) -> list[Symbol]:
    """The symbols of an object file with these sections."""
    table = next(part for part in parts if part.name == ".symtab")
    names = parts[table.link].content
    return [
        Symbol(names[label : names.index(0, label)].decode(), info & 15, section, value, size)
        for label, info, _, section, value, size in _SYMBOL.iter_unpack(table.content)
    ]


def sections(data: bytes) -> list[Section]:
    """The sections of an ELF file. ValueError for what is none, or a damaged one."""
    if data[:6] != MAGIC + _LITTLE_64 or len(data) < _FILE_HEADER:
        raise ValueError("this is no ELF file of 64 bits, little-endian")
    table, size, count, names = _TABLE.unpack_from(data, 40)
    if not count:
        return []
    if size < _HEADER.size or table + size * count > len(data) or names >= count:
        raise ValueError("the table of sections is not within the file")
    heads = [_HEADER.unpack_from(data, table + i * size) for i in range(count)]
    strings = heads[names][4]
    found = []
    for label, kind, flags, _, offset, length, link, info, alignment, _ in heads:
        if kind != NO_BITS and offset + length > len(data):
            raise ValueError("a section is not within the file")
        name, _, _ = data[strings + label : strings + label + 256].partition(b"\0")
        content = b"" if kind == NO_BITS else data[offset : offset + length]
        found.append(Section(name.decode(errors="replace"), kind, flags, length, link, info, alignment, content))
    return found
