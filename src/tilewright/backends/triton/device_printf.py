"""Reads what the blocks of a launch printed, and which assert failed."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from tilewright.backends.triton import driver
from tilewright.backends.triton.ttir import device_printf
from tilewright.ir.core import Function
from tilewright.ir.errors import TileError
from tilewright.ir.formatting import failure, format_print
from tilewright.ir.ops.memory import Assert, Print
from tilewright.ir.types import PointerType, TileType
from tilewright.transforms.pipelines import optimize


class Reports:
    """The buffer of one kernel on the current device."""

    def __init__(self, function: Function) -> None:
        self._sites = device_printf.sites(optimize(function))
        address = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(8 * device_printf.WORDS))
        driver.call("cuMemsetD8_v2", address, 0, ctypes.c_size_t(8 * device_printf.HEADER))
        self.address = address.value

    def deliver(self, stream: int) -> None:
        """Wait for the launch; print what it printed. TileError when an assert failed.

        A launch that a graph records does not run, so that there is nothing to deliver.
        """
        if driver.is_capturing(stream):
            return
        driver.call("cuStreamSynchronize", ctypes.c_void_p(stream))
        header = self._read(0, device_printf.HEADER)
        if not header.any():
            return
        used = min(int(header[0]), device_printf.WORDS - device_printf.HEADER)
        records = self._read(device_printf.HEADER, used)
        driver.call("cuMemsetD8_v2", ctypes.c_uint64(self.address), 0, ctypes.c_size_t(8 * device_printf.HEADER))
        self._print(records, lost=int(header[0]) > used)
        if header[device_printf.FAILED_SITE]:
            raise self._failed(header)

    def _read(self, start: int, words: int) -> np.ndarray[Any, Any]:
        found = np.empty(words, np.int64)
        if words:
            source = ctypes.c_uint64(self.address + 8 * start)
            driver.call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.ctypes.data), source, ctypes.c_size_t(8 * words))
        return found

    def _print(self, records: np.ndarray[Any, Any], *, lost: bool) -> None:
        at = 0
        while at < len(records):
            op = self._sites[int(records[at])]
            assert isinstance(op, Print)
            words = device_printf.record_words(op)
            if at + words > len(records):
                break
            sys.stdout.write(_text(op, records[at : at + words]))
            at += words
        if lost:
            sys.stderr.write("tilewright: a kernel printed more than its buffer of 8 MB holds; the rest is lost\n")

    def _failed(self, header: np.ndarray[Any, Any]) -> TileError:
        op = self._sites[int(header[device_printf.FAILED_SITE]) - 1]
        assert isinstance(op, Assert)
        block = tuple(map(int, header[device_printf.FAILED_BLOCK : device_printf.FAILED_BLOCK + 3]))
        values = [int(v) for v in header[device_printf.FAILED_VALUES :][: len(op.operands) - 1]]
        shape = op.condition.tile.shape
        text = failure(op.message, shape, int(header[device_printf.FAILED_ELEMENT]), values)
        return TileError(f"{text}, in block {block}", op.loc)


def _text(op: Print, record: np.ndarray[Any, Any]) -> str:
    values, at = [], device_printf.record_words(op) - sum(v.tile.size for v in op.operands)
    for v in op.operands:
        values.append((_array(v.tile, record[at : at + v.tile.size]), v.tile.dtype))
        at += v.tile.size
    return format_print(op.parts, op.formats, values)


def _array(t: TileType, bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A tile, in the storage form of its elements, from their bits."""
    if isinstance(t.dtype, PointerType):
        return bits.reshape(t.shape)
    narrow = bits.astype(f"i{t.dtype.storage.itemsize}")
    found = narrow != 0 if t.dtype.is_bool else narrow.view(t.dtype.storage)
    return found.reshape(t.shape)
