"""The print op: formats the values that a running kernel hands over."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.backends.cpu.codegen.buffers import element_bytes, element_type
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType
from tilewright.ir.types import PointerType, TileType

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)


def printer(sites: Sequence[Op]) -> Any:
    """A C function (site, table of addresses) that prints the values of the op at ``sites[site]``."""

    def print_site(site: int, table: int) -> None:
        op = sites[site]
        addresses = (ctypes.c_int64 * len(op.operands)).from_address(table)
        arrays = [_array(v.tile, a) for v, a in zip(op.operands, addresses)]
        sys.stdout.write(_format(op, arrays))

    return _SIGNATURE(print_site)


def _array(t: TileType, address: int) -> np.ndarray[Any, Any]:
    """A copy of a tile in scratch memory, in the storage dtype of its elements."""
    count = t.size * element_bytes(t.dtype)
    data = bytes((ctypes.c_char * count).from_address(address))
    if isinstance(t.dtype, PointerType):
        return np.frombuffer(data, np.uint64).reshape(t.shape)
    dtype: DType = t.dtype
    if not dtype.is_floating:
        return np.frombuffer(data, dtype.storage).reshape(t.shape)
    held = np.dtype(np.float64 if str(element_type(dtype)) == "double" else np.float32)
    return np.frombuffer(data, held).reshape(t.shape)


def _format(op: Op, arrays: Sequence[np.ndarray[Any, Any]]) -> str:
    values = iter(zip(arrays, op.attributes["formats"]))
    texts = []
    for part in op.attributes["parts"]:
        if part is not None:
            texts.append(part)
            continue
        array, code = next(values)
        texts.append(code % array.item() if code and array.ndim == 0 else str(array))
    return "".join(texts)
