"""What the blocks of a launch printed and asserted, read after it from the buffer of ``ir.report_buffer``."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.gpu_runtime import driver
from tilewright.ir import report_buffer
from tilewright.ir.core import Op
from tilewright.ir.errors import TileError
from tilewright.ir.formatting import failure, format_print
from tilewright.ir.ops.memory import Assert, Print
from tilewright.ir.types import PointerType, TileType

Array = np.ndarray[Any, Any]


class Reports:
    """The buffer on the current device of one kernel, whose ops that report are ``reporting``."""

    def __init__(self, reporting: Sequence[Op]) -> None:
        self._sites = reporting
        address = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(8 * report_buffer.WORDS))
        driver.call("cuMemsetD8_v2", address, 0, ctypes.c_size_t(8 * report_buffer.HEADER))
        self.address = address.value

    def deliver(self, stream: int) -> None:
        """Wait for the launch; print what it printed. TileError when an assert failed.

        A launch that a graph records does not run, so that there is nothing to deliver.
        """
        if driver.is_capturing(stream):
            return
        driver.call("cuStreamSynchronize", ctypes.c_void_p(stream))
        header = self._read(0, report_buffer.HEADER)
        if not header.any():
            return
        records = self._read(report_buffer.HEADER, min(int(header[0]), report_buffer.WORDS - report_buffer.HEADER))
        driver.call("cuMemsetD8_v2", ctypes.c_uint64(self.address), 0, ctypes.c_size_t(8 * report_buffer.HEADER))
        deliver(self._sites, header, records)

    def _read(self, start: int, words: int) -> Array:
        found = np.empty(words, np.int64)
        if words:
            source = ctypes.c_uint64(self.address + 8 * start)
            driver.call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.ctypes.data), source, ctypes.c_size_t(8 * words))
        return found


def deliver(sites: Sequence[Op], header: Array, records: Array) -> None:
    """Print the ``records`` of a buffer with this ``header``. TileError when an assert failed."""
    _print(sites, records, lost=int(header[0]) > len(records))
    if header[report_buffer.FAILED_SITE]:
        raise _failed(sites, header)


def _print(sites: Sequence[Op], records: Array, *, lost: bool) -> None:
    at = 0
    while at < len(records):
        op = sites[int(records[at])]
        assert isinstance(op, Print)
        words = report_buffer.record_words(op)
        if at + words > len(records):
            break
        sys.stdout.write(_text(op, records[at : at + words]))
        at += words
    if lost:
        sys.stderr.write("tilewright: a kernel printed more than its buffer of 8 MB holds; the rest is lost\n")


def _failed(sites: Sequence[Op], header: Array) -> TileError:
    op = sites[int(header[report_buffer.FAILED_SITE]) - 1]
    assert isinstance(op, Assert)
    block = tuple(map(int, header[report_buffer.FAILED_BLOCK : report_buffer.FAILED_BLOCK + 3]))
    values = [int(v) for v in header[report_buffer.FAILED_VALUES :][: len(op.operands) - 1]]
    shape = op.condition.tile.shape
    text = failure(op.message, shape, int(header[report_buffer.FAILED_ELEMENT]), values)
    return TileError(f"{text}, in block {block}", op.loc)


def _text(op: Print, record: Array) -> str:
    values, at = [], report_buffer.record_words(op) - sum(v.tile.size for v in op.operands)
    for v in op.operands:
        values.append((_array(v.tile, record[at : at + v.tile.size]), v.tile.dtype))
        at += v.tile.size
    return format_print(op.parts, op.formats, values)


def _array(t: TileType, bits: Array) -> Array:
    """A tile, in the storage form of its elements, from their bits."""
    if isinstance(t.dtype, PointerType):
        return bits.reshape(t.shape)
    narrow = bits.astype(f"i{t.dtype.storage.itemsize}")
    found = narrow != 0 if t.dtype.is_bool else narrow.view(t.dtype.storage)
    return found.reshape(t.shape)
