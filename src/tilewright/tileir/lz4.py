"""Decompression of blocks of LZ4."""

from __future__ import annotations

_LONG = 15  # a length in a token that further bytes are added to
_LEAST_MATCH = 4


def decompress(data: bytes, size: int) -> bytes:
    """The contents of the block ``data``, ``size`` bytes when decompressed. ValueError for a damaged one."""
    out, position = bytearray(), 0
    try:
        while True:
            token, position = data[position], position + 1
            count, position = _length(data, position, token >> 4)
            out += data[position : position + count]
            position += count
            if position >= len(data) or len(out) > size:
                break
            back, position = int.from_bytes(data[position : position + 2], "little"), position + 2
            count, position = _length(data, position, token & _LONG)
            count += _LEAST_MATCH
            if not 0 < back <= len(out) or len(out) + count > size:
                raise ValueError("it is damaged")
            out += (out[-back:] * (count // back + 1))[:count]
    except IndexError:
        raise ValueError("it ends too early") from None
    if position != len(data) or len(out) != size:
        raise ValueError(f"it holds {len(out)} bytes instead of {size}")
    return bytes(out)


def _length(data: bytes, position: int, length: int) -> tuple[int, int]:
    """A length, and the position behind it."""
    if length == _LONG:
        while True:
            length, position = length + data[position], position + 1
            if data[position - 1] != 255:
                break
    return length, position
