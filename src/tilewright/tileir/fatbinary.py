"""CUDA Tile IR in fat binaries, and in the objects of nvcc that hold one in their section ``.nv_fatbin``."""

from __future__ import annotations

import struct

from tilewright.system.elf import MAGIC, sections
from tilewright.tileir import lz4, zstd
from tilewright.tileir.bytecode.primitives import long_varint
from tilewright.tileir.errors import BytecodeError

_FATBIN = b"\x50\xed\x55\xba"
_SECTION = ".nv_fatbin"
_TILE_IR = 128
_COMPRESSED = {0x8000: ("a zstd frame", zstd.decompress), 0x2000: ("a block of LZ4", lz4.decompress)}  # by the flag
_HEADER = 16
_LEAST_ENTRY = 64
_MOST_PLAIN = 1 << 28  # bytes of one image
_END = b"\x7fTileIR\0"


def is_fat_binary(data: bytes) -> bool:
    """Whether ``data`` is a fat binary or an ELF file."""
    return data.startswith((_FATBIN, MAGIC))


def bytecode_images(data: bytes, file: str = "") -> list[bytes]:
    """The bytecode in a fat binary or an object. BytecodeError for a damaged one."""
    found: list[bytes] = []
    for part in _parts(data, file):
        position, end = 0, len(part)
        while position + _HEADER <= end:
            if part[position : position + 4] != _FATBIN:
                position += 8  # fat binaries of several translation units follow each other, padded
                continue
            size = int.from_bytes(part[position + 8 : position + 16], "little")
            last = position + _HEADER + size
            if last > end:
                raise BytecodeError(position + 8, f"a fat binary of at most {end - position} bytes", file)
            found += _images(part, position + _HEADER, last, file)
            position = last
    return found


def _parts(data: bytes, file: str) -> list[bytes]:
    """What holds fat binaries: sections of an object, or all."""
    if not data.startswith(MAGIC):
        return [data]
    try:
        return [section.content for section in sections(data) if section.name == _SECTION]
    except ValueError as e:
        raise BytecodeError(4, f"an object that is whole: {e}", file) from None


def _images(data: bytes, position: int, end: int, file: str) -> list[bytes]:
    """The bytecode among the entries of one fat binary."""
    found = []
    while position < end:
        if position + _LEAST_ENTRY > end:
            raise BytecodeError(position, "an entry of a fat binary", file)
        kind, _, header, size = struct.unpack_from("<HHIQ", data, position)
        flags, plain = (
            struct.unpack_from("<Q", data, position + 40)[0],
            struct.unpack_from("<Q", data, position + 56)[0],
        )
        (compressed,) = struct.unpack_from("<I", data, position + 16)
        if header < _LEAST_ENTRY or position + header + size > end:
            raise BytecodeError(position + 4, "an entry of a fat binary that ends with it", file)
        start = position + header
        if kind == _TILE_IR:
            payload = data[start : start + (compressed or size)]
            for flag, (what, decompress) in _COMPRESSED.items():
                if not flags & flag:
                    continue
                if plain > _MOST_PLAIN:
                    raise BytecodeError(start, f"an image of at most {_MOST_PLAIN} bytes", file)
                try:
                    payload = decompress(payload, plain)
                except ValueError as e:
                    raise BytecodeError(start, f"{what}: {e}", file) from None
            found.append(_without_padding(payload))
        position = start + size
    return found


def _without_padding(image: bytes) -> bytes:
    """Bytecode up to its end byte, behind which a fat binary may pad."""
    position = 12  # behind the header
    try:
        while image.startswith(_END) and image[position]:
            aligned = image[position] & 0x80
            length, position = long_varint(image, position + 1)
            if aligned:
                alignment, position = long_varint(image, position)
                position += -position % max(alignment, 1)
            position += length
    except (IndexError, BytecodeError):  # which reading it explains
        return image
    return image[: position + 1] if image.startswith(_END) else image
