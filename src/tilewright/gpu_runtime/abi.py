"""How a launch hands numbers to a kernel: 8 bytes each, in the order of the parameters."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir.core import Function
from tilewright.ir.errors import TileError
from tilewright.ir.types import PointerType, TileType

# Short name of a float that machine code makes of one of 64 bits -> the words of a ``FLOAT`` but for its place: IEEE
# 754, and OCP's formats of 8 bits, of which those that have no infinity have a NaN there.
_FLOATS = {
    "f32": (24, -126, 0x7F800000, 1 << 31), "tf32": (24, -126, 0x7F800000, 1 << 31), "f16": (11, -14, 0x7C00, 1 << 15),
    "bf16": (8, -126, 0x7F80, 1 << 15), "f8e4m3fn": (4, -6, 0x7F, 1 << 7), "f8e5m2": (3, -14, 0x7C, 1 << 7),
    "f8e8m0fnu": (1, -126, 0xFF, 0),
}  # fmt: skip
_OTHERS = ("f64", "i1", *(f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)))


def formats_of(function: Function) -> tuple[str, ...]:
    """How each parameter is passed: the short name of its dtype, ``u64`` for pointers."""
    return tuple(_format(value.type) for value in function.body.args)


def _format(t: Any) -> str:
    assert isinstance(t, TileType)
    if isinstance(t.dtype, PointerType):
        return "u64"
    if t.dtype.short not in _FLOATS and t.dtype.short not in _OTHERS:
        raise TileError(f"the GPU backend cannot pass a {t.dtype} number to a kernel; pass an array of one element")
    return t.dtype.short


def packer(formats: Sequence[str]) -> Callable[..., bytes]:
    """What packs the numbers of a launch for machine code: floats in 64 bits. Memory is little-endian, and kernels read
    the bytes that they know, the lowest."""
    return struct.Struct("=" + "".join("Q" if f == "u64" else "d" if f[0] in "bft" else "q" for f in formats)).pack


def floats(formats: Sequence[str]) -> list[tuple[int, ...]]:
    """The ``FLOAT`` of each number that machine code rounds."""
    return [(8 * i, *_FLOATS[short]) for i, short in enumerate(formats) if short in _FLOATS]
