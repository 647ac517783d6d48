"""How a launch hands numbers to a kernel: 8 bytes each, in the order of the parameters."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.ir.core import Function
from tilewright.ir.dtypes import dtype_from_short
from tilewright.ir.errors import TileError
from tilewright.ir.types import PointerType, TileType

# Short name of a dtype -> how struct packs a number of it into 8 bytes. Machine code reads all that have a sign as 64
# bits: strides may be negative. Kernels read the bytes that they know, the lowest.
_FORMATS = {
    "i1": "?7x", "i8": "q", "u8": "B7x", "i16": "q", "u16": "H6x", "i32": "q", "u32": "I4x", "i64": "q", "u64": "Q",
    "f16": "e6x", "bf16": "H6x", "f32": "f4x", "tf32": "f4x", "f64": "d",
    "f8e4m3fn": "B7x", "f8e5m2": "B7x", "f8e8m0fnu": "B7x",
}  # fmt: skip
_AS_BITS = ("bf16", "f8e4m3fn", "f8e5m2", "f8e8m0fnu")  # struct does not know these
_NARROW = {"f16": np.float16, "f32": np.float32, "tf32": np.float32}
_SINGLE = ("f32", "tf32")


def formats_of(function: Function) -> tuple[str, ...]:
    """How each parameter is passed: the short name of its dtype, ``u64`` for pointers."""
    return tuple(_format(value.type) for value in function.body.args)


def _format(t: Any) -> str:
    assert isinstance(t, TileType)
    if isinstance(t.dtype, PointerType):
        return "u64"
    if t.dtype.short not in _FORMATS:
        raise TileError(f"the GPU backend cannot pass a {t.dtype} number to a kernel; pass an array of one element")
    return t.dtype.short


class NumberPacker:
    """Packs the numbers of a launch whose parameters have these ``formats``."""

    def __init__(self, formats: Sequence[str]) -> None:
        self._formats = formats
        self._pack = struct.Struct("=" + "".join(_FORMATS[f] for f in formats)).pack
        self._as_bits = [(i, dtype_from_short(f)) for i, f in enumerate(formats) if f in _AS_BITS]

    def packed(self, values: Sequence[Any]) -> Any:
        """Memory with ``values``. Floats beyond the range of their type are infinite."""
        if self._as_bits:
            values = list(values)
            for i, dtype in self._as_bits:
                values[i] = int(np.float32(values[i]).astype(dtype.storage).view(f"u{dtype.bytes}"))
        try:
            found = self._pack(*values)
        except OverflowError:
            found = self._pack(*map(_in_range, values, self._formats))
        return ctypes.create_string_buffer(found)


def _in_range(value: Any, short: str) -> Any:
    if short not in _NARROW:
        return value
    with np.errstate(over="ignore"):
        return float(_NARROW[short](value))


def can_pack(formats: Sequence[str]) -> bool:
    """Whether machine code packs numbers of these formats, too: all but floats of 16 and of 8 bits."""
    return all(f.startswith(("i", "u")) or f in (*_SINGLE, "f64") for f in formats)


def singles(formats: Sequence[str]) -> list[int]:
    """Which numbers machine code, where all are 64 bits, makes floats of 32 bits. Of integers nothing has to move, as
    memory is little-endian."""
    return [i for i, short in enumerate(formats) if short in _SINGLE]
