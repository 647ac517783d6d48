"""From object files of LLVM (ELF, x86-64, position-independent) to an image: what a linker does."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tilewright.backends.native.image import Image
from tilewright.ir.errors import TileCompilerExecutionError
from tilewright.system.elf import NO_BITS, Section, Symbol, sections, symbols

_RELOCATION = struct.Struct("<QQq")
_RELOCATIONS = 4  # the type of sections
_OCCUPIES_MEMORY = 2  # a flag of sections
_GLOBAL_OFFSETS = (9, 41, 42)  # relocations: the distance to a word that holds the address
_DISTANCES = (2, 4)  # the distance to the symbol, in 32 bits
_ADDRESS = 1
_JUMP = b"\xff\x25"  # jmp to the address at a distance, in 32 bits, from the end of the instruction


class _Object:
    """An object file, whose sections lie in the image from ``offsets`` on."""

    def __init__(self, data: bytes) -> None:
        self.sections = sections(data)
        self.symbols = symbols(self.sections)
        self.offsets: dict[int, int] = {}  # by the number of the section

    def offset(self, symbol: Symbol) -> int | None:
        """Where in the image ``symbol`` lies; None when it is outside of this object."""
        return self.offsets[symbol.section] + symbol.value if symbol.section in self.offsets else None


class _Linker:
    def __init__(self, objects: Sequence[_Object]) -> None:
        self.objects = objects
        self.content = bytearray()
        self.relative: list[int] = []
        self.imports: list[tuple[int, str]] = []
        self._words: dict[tuple[str, int], int] = {}  # offsets of words that hold addresses
        self._jumps: dict[str, int] = {}
        for each in objects:
            for number, section in enumerate(each.sections):
                # Nothing unwinds through kernels, so that the tables for this stay behind.
                if section.flags & _OCCUPIES_MEMORY and section.name != ".eh_frame":
                    each.offsets[number] = self._append(_content(section), section.alignment)
        self.known = {s.name: at for each in objects for s in each.symbols if (at := each.offset(s)) is not None}

    def link(self, wanted: Sequence[str]) -> Image:
        for each in self.objects:
            for section in each.sections:
                if section.kind == _RELOCATIONS and section.info in each.offsets:
                    start = each.offsets[section.info]
                    for offset, info, addend in _RELOCATION.iter_unpack(_content(section)):
                        symbol = each.symbols[info >> 32]
                        target = each.offset(symbol)
                        target = self.known.get(symbol.name) if target is None else target
                        self._relocate(start + offset, info & 0xFFFFFFFF, symbol.name, target, addend)
        found = {n: self.known[n] for n in wanted if n in self.known}
        return Image(bytes(self.content), found, tuple(self.relative), tuple(self.imports))

    def _relocate(self, at: int, kind: int, name: str, target: int | None, addend: int) -> None:
        if kind in _GLOBAL_OFFSETS:
            self._write_distance(at, self._word(name, target) + addend)
        elif kind in _DISTANCES:
            self._write_distance(at, (self._jump(name) if target is None else target) + addend)
        elif kind == _ADDRESS and target is not None:
            struct.pack_into("<Q", self.content, at, target + addend)
            self.relative.append(at)
        else:
            raise TileCompilerExecutionError(f"the generated code refers to {name!r} in an unknown way ({kind})")

    def _write_distance(self, at: int, target: int) -> None:
        struct.pack_into("<i", self.content, at, target - at)

    def _word(self, name: str, target: int | None) -> int:
        """The offset of a word that will hold the address of a symbol."""
        key = (name, -1 if target is None else target)
        if key not in self._words:
            self._words[key] = at = self._append(struct.pack("<Q", target or 0), 8)
            if target is None:
                self.imports.append((at, name))
            else:
                self.relative.append(at)
        return self._words[key]

    def _jump(self, name: str) -> int:
        """The offset of a jump to a function outside, which may be too far away for a direct call."""
        if name not in self._jumps:
            word = self._word(name, None)
            self._jumps[name] = at = self._append(_JUMP + bytes(4), 8)
            self._write_distance(at + 2, word - 4)
        return self._jumps[name]

    def _append(self, content: bytes, alignment: int) -> int:
        at = -(-len(self.content) // max(alignment, 1)) * max(alignment, 1)
        self.content.extend(bytes(at - len(self.content)) + content)
        return at


def _content(section: Section) -> bytes:
    return bytes(section.size) if section.kind == NO_BITS else section.content


def link(objects: Sequence[bytes], wanted: Sequence[str]) -> Image:
    """The image of object files, whose functions ``wanted`` are to be called, as far as they have them."""
    return _Linker([*map(_Object, objects)]).link(wanted)
