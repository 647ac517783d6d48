"""The buffer that the blocks of a launch print into: its layout, and how the host reads it after the launch.

The buffer holds 64-bit words. First comes the header: how many words the prints took, then the first failed assert (its
site plus one, the block, the element, the values). The records of the prints follow ``HEADER``: site, block, and the
elements of each value as bits.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.gpu_runtime import driver
from tilewright.ir.core import Function, Op
from tilewright.ir.errors import TileError
from tilewright.ir.formatting import failure, format_print
from tilewright.ir.ops.memory import Assert, Print
from tilewright.ir.types import PointerType, TileType

HEADER = 24
FAILED_SITE, FAILED_BLOCK, FAILED_ELEMENT, FAILED_VALUES = 1, 2, 5, 6
MOST_VALUES = HEADER - FAILED_VALUES
WORDS = 1 << 20
RECORD = 4  # words before the values: site and block


def sites(function: Function) -> list[Op]:
    """The ops that report, in the order of their numbers."""
    return [op for op in function.walk() if isinstance(op, (Print, Assert))]


def record_words(op: Op) -> int:
    """The length of the record of a print."""
    return RECORD + sum(v.tile.size for v in op.operands)


class Reports:
    """The buffer on the current device of one kernel, whose ops that report are ``reporting``."""

    def __init__(self, reporting: Sequence[Op]) -> None:
        self._sites = reporting
        address = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(8 * WORDS))
        driver.call("cuMemsetD8_v2", address, 0, ctypes.c_size_t(8 * HEADER))
        self.address = address.value

    def deliver(self, stream: int) -> None:
        """Wait for the launch; print what it printed. TileError when an assert failed.

        A launch that a graph records does not run, so that there is nothing to deliver.
        """
        if driver.is_capturing(stream):
            return
        driver.call("cuStreamSynchronize", ctypes.c_void_p(stream))
        header = self._read(0, HEADER)
        if not header.any():
            return
        used = min(int(header[0]), WORDS - HEADER)
        records = self._read(HEADER, used)
        driver.call("cuMemsetD8_v2", ctypes.c_uint64(self.address), 0, ctypes.c_size_t(8 * HEADER))
        self._print(records, lost=int(header[0]) > used)
        if header[FAILED_SITE]:
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
            words = record_words(op)
            if at + words > len(records):
                break
            sys.stdout.write(_text(op, records[at : at + words]))
            at += words
        if lost:
            sys.stderr.write("tilewright: a kernel printed more than its buffer of 8 MB holds; the rest is lost\n")

    def _failed(self, header: np.ndarray[Any, Any]) -> TileError:
        op = self._sites[int(header[FAILED_SITE]) - 1]
        assert isinstance(op, Assert)
        block = tuple(map(int, header[FAILED_BLOCK : FAILED_BLOCK + 3]))
        values = [int(v) for v in header[FAILED_VALUES:][: len(op.operands) - 1]]
        shape = op.condition.tile.shape
        text = failure(op.message, shape, int(header[FAILED_ELEMENT]), values)
        return TileError(f"{text}, in block {block}", op.loc)


def _text(op: Print, record: np.ndarray[Any, Any]) -> str:
    values, at = [], record_words(op) - sum(v.tile.size for v in op.operands)
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
