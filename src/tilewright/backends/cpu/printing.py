"""The print op: formats the values that a running kernel hands over."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.backends.cpu.scratch import element_bytes
from tilewright.ir.dtypes import float32
from tilewright.ir.formatting import format_print
from tilewright.ir.semantics import evaluate
from tilewright.ir.types import PointerType, TileType

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)


def printer(sites: Sequence[Any]) -> Any:
    """A C function (site, table of addresses) that prints the values of ``sites[site]``.

    It writes the text of one call at once, so that blocks do not mix within it.
    """

    def print_site(number: int, table: int) -> None:
        op = sites[number]
        addresses = (ctypes.c_int64 * len(op.values)).from_address(table)
        values = [(_array(v.tile, address), v.tile.dtype) for v, address in zip(op.values, addresses)]
        sys.stdout.write(format_print(op.parts, op.formats, values))

    return _SIGNATURE(print_site)


def _array(t: TileType, address: int) -> np.ndarray[Any, Any]:
    """A copy of a tile in scratch memory, in the storage form of its elements."""
    count = t.size * element_bytes(t.dtype)
    data = bytes((ctypes.c_char * count).from_address(address))
    if isinstance(t.dtype, PointerType):
        return np.frombuffer(data, np.int64).reshape(t.shape)
    if not t.dtype.is_floating or t.dtype.bitwidth >= 32:
        return np.frombuffer(data, t.dtype.storage).reshape(t.shape)
    held = np.frombuffer(data, np.float32).reshape(t.shape)  # narrow floats are float32 in registers
    return evaluate("cast", float32, {"dtype": t.dtype}, [held])
