"""The elements of constants: raw arrays in files, of which equal elements may be stored once."""

from __future__ import annotations

from tilewright.tileir.errors import TileIRError
from tilewright.tileir.types import Scalar, Tile


def _element(type: Tile) -> Scalar:
    if not isinstance(type.element, Scalar):
        raise TileIRError(f"a constant of type {type}; constants are numbers")
    return type.element


def problem(type: Tile, data: bytes) -> str | None:
    """What is wrong with the length of ``data``, or None."""
    element = _element(type)
    whole = -(-type.size // 8) if element.bits == 1 else type.size * element.bytes
    if len(data) not in (element.bytes, whole):
        return f"{element.bytes} or {whole} bytes for a constant of type {type}, not {len(data)}"
    return None


def is_splat(type: Tile, data: bytes) -> bool:
    """Whether all elements are equal."""
    element = _element(type)
    if element.bits == 1:
        found = _bits(type.size, data)
        return all(b == found[0] for b in found)
    return data == data[: element.bytes] * (len(data) // element.bytes)


def _bits(size: int, data: bytes) -> list[int]:
    """The elements of an i1 constant. Of one byte for more than 8 elements, bit 0 is all of them."""
    if len(data) == 1 and (data[0] in (0, 255) or size > 8):
        return [data[0] & 1] * min(size, 8)
    return [data[i // 8] >> i % 8 & 1 for i in range(size)]


def elements(type: Tile, data: bytes, first: bool = False) -> list[int]:
    """The bits of every element in row-major order, or of the first one only.

    TileIRError for data of a wrong length.
    """
    broken = None if first else problem(type, data)
    if broken is not None:
        raise TileIRError(f"expected {broken}")
    element = _element(type)
    if element.bits == 1:
        found = _bits(type.size, data)
        return found[:1] if first else found if len(found) == type.size else found[:1] * type.size
    mask = (1 << element.bits) - 1
    n = element.bytes
    if first:
        return [int.from_bytes(data[:n], "little") & mask]
    found = [int.from_bytes(data[i : i + n], "little") & mask for i in range(0, len(data), n)]
    return found if len(found) == type.size else found * type.size
