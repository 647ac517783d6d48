"""Numbers as bytecode has them, and a cursor that reads them with checks."""

from __future__ import annotations

import functools
import struct

from tilewright.tileir.errors import BytecodeError

MASK64 = (1 << 64) - 1
MAX_DEPTH = 64  # of attributes in attributes
FORMATS = {2: "H", 4: "I", 8: "Q"}  # of unsigned integers by their bytes, as ``struct`` has them


class _Varints(dict[int, bytes]):
    """Unsigned LEB128 by the number; that of small ones is made once."""

    def __missing__(self, value: int) -> bytes:
        out, rest = bytearray(), value
        while rest > 127:
            out.append(rest & 127 | 128)
            rest >>= 7
        out.append(rest)
        made = bytes(out)
        if value < _KEPT:
            self[value] = made
        return made


_KEPT = 1 << 14
VARINTS = _Varints()
varint = VARINTS.__getitem__


def svarint(value: int) -> bytes:
    """A signed 64-bit ``value`` in zigzag form."""
    return varint((value << 1 ^ value >> 63) & MASK64)


def signed(bits: int, width: int = 64) -> int:
    """The two's complement number with these ``bits``."""
    return bits - (1 << width) if bits >> (width - 1) else bits


def apint(bits: int, width: int) -> bytes:
    """An integer of ``width`` bits."""
    if width <= 8:
        return bytes((bits,))
    return svarint(signed(bits, 64))


@functools.lru_cache(maxsize=1024)
def integers(values: tuple[int, ...], width: int) -> bytes:
    """A count and little-endian integers of ``width`` bytes."""
    return varint(len(values)) + b"".join(v.to_bytes(width, "little", signed=True) for v in values)


def long_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A varint of several bytes at ``pos``, and the position behind it. Bits above 63 are dropped."""
    value = shift = 0
    start = pos
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & MASK64, pos
        shift += 7
        if shift >= 70:
            raise BytecodeError(start, "a varint of at most 10 bytes")


class Cursor:
    """Reads from ``data`` between ``pos`` and ``end``; every method checks that the bytes are there."""

    __slots__ = ("data", "end", "file", "pos")

    def __init__(self, data: bytes, pos: int, end: int, file: str = "") -> None:
        self.data = data
        self.pos = pos
        self.end = end
        self.file = file

    def error(self, expected: str, offset: int | None = None) -> BytecodeError:
        return BytecodeError(self.pos if offset is None else offset, expected, self.file)

    def take(self, count: int, what: str) -> bytes:
        if count > self.end - self.pos:
            raise self.error(f"{count} bytes of {what}, where {self.end - self.pos} are left")
        found = self.data[self.pos : self.pos + count]
        self.pos += count
        return found

    def byte(self, what: str) -> int:
        if self.pos >= self.end:
            raise self.error(f"a byte of {what}, where the data end")
        self.pos += 1
        return self.data[self.pos - 1]

    def varint(self, what: str) -> int:
        start, value, shift = self.pos, 0, 0
        while True:
            byte = self.byte(what)
            value |= (byte & 127) << shift
            if byte < 128:
                return value & MASK64
            shift += 7
            if shift >= 70:
                raise self.error(f"a varint of at most 10 bytes for {what}", start)

    def svarint(self, what: str) -> int:
        value = self.varint(what)
        return value >> 1 ^ -(value & 1)

    def bool(self, what: str) -> bool:
        value = self.byte(what)
        if value > 1:
            raise self.error(f"0 or 1 for {what}, not {value}", self.pos - 1)
        return value == 1

    def count(self, what: str, size: int = 1) -> int:
        """A count of things that take at least ``size`` bytes each."""
        start = self.pos
        value = self.varint(f"the number of {what}")
        if value * size > self.end - self.pos:
            raise self.error(f"at most {(self.end - self.pos) // size} {what}, as the data end, not {value}", start)
        return value

    def fixed(self, width: int, what: str, count: int = 1) -> tuple[int, ...]:
        """``count`` unsigned little-endian integers of ``width`` bytes."""
        return struct.unpack(f"<{count}{FORMATS[width]}", self.take(count * width, what))

    def integers(self, width: int, what: str) -> tuple[int, ...]:
        """A count and as many signed integers of ``width`` bytes."""
        count = self.count(what, width)
        raw = self.take(count * width, what)
        return tuple(int.from_bytes(raw[i : i + width], "little", signed=True) for i in range(0, len(raw), width))

    def pick(self, table: tuple[str, ...], what: str) -> str:
        """The entry of ``table`` that a varint numbers."""
        start = self.pos
        number = self.varint(what)
        if number >= len(table):
            raise self.error(f"a number below {len(table)} for {what}, not {number}", start)
        return table[number]

    def align(self, width: int, base: int) -> None:
        """Skip padding up to a multiple of ``width`` bytes behind ``base``."""
        padding = -(self.pos - base) % width
        self.take(padding, "padding")
