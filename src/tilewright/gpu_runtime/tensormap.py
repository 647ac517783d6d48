"""Tensor maps: what the TMA unit knows of an array, 128 bytes that a launch passes by value."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Mapping
from typing import Any

from tilewright.gpu_runtime import driver, words
from tilewright.gpu_runtime.launch_functions import function
from tilewright.gpu_runtime.realign import WORTH_TRANSPOSING, Kind
from tilewright.gpu_runtime.words import table
from tilewright.ir.gpu_parameters import WRAP, Descriptor

# TTIR element type -> CUtensorMapDataType. Small floats travel as bytes.
_TYPES = {"i8": 0, "i16": 1, "i32": 2, "i64": 4, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
_TFLOAT32 = 11  # float32 in memory
_NO_INTERLEAVING, _PROMOTION_TO_128_BYTES, _ZEROS_OUTSIDE = 0, 2, 0


class Unmapped(Exception):
    """There is no tensor map of an array: rows in reversed order, or farther from each other than a map can say."""


@functools.cache
def memory_for_nothing(device: int) -> int:
    """The address of zeros on ``device``, for arrays without elements: a map needs some memory."""
    address = ctypes.c_uint64()
    with driver.device(device).current():
        driver.call("cuMemAlloc_v2", ctypes.byref(address), 4096)
        driver.call("cuMemsetD8_v2", address, 0, 4096)
    return address.value


class MapEncoder:
    """How machine code writes the tensor maps of arrays that ``d`` describes.

    ``box`` tells what one copy moves: its extents, the swizzle of shared memory, and the bytes of an element.
    """

    def __init__(self, d: Descriptor, box: Mapping[str, Any]) -> None:
        rank, item = len(d.axes), box["elem_size"]
        numbers = ctypes.c_uint32 * rank
        self._box, self._steps = numbers(*reversed(box["block_size"])), numbers(*[1] * rank)
        self.copied = words.TRANSPOSED if d.transposed else words.UNALIGNED if d.needs_realign else words.NEVER
        self.kind = Kind(item, d.transposed)  # of a copy, but for how that is aligned
        axes = [[*_number(d.shape[a], 1), *_number(d.strides[a], item)] for a in d.axes[::-1]]
        described = words.MAP.packed(
            element=_TFLOAT32 if d.rounds else _TYPES.get(d.element, 0),
            rank=rank,
            base=0 if d.listed else 8 * d.base,
            box=ctypes.addressof(self._box),
            ones=ctypes.addressof(self._steps),
            interleave=_NO_INTERLEAVING,
            swizzle=box["swizzle"],
            promotion=_PROMOTION_TO_128_BYTES,
            outside=_ZEROS_OUTSIDE,
            copied=self.copied,
            item=item,
            tile=d.block[0],
            worth=WORTH_TRANSPOSING.get(item, 0),
            copier=0,
            aligned=0,
        )
        self.words = [*described, *itertools.chain(*axes), *[0] * len(words.AXIS) * (words.MOST_AXES - rank)]

    def encode(self, address: int, row: int, device: int) -> None:
        """Write the map of a listed array, whose ``row`` is at an address. Unmapped where there is none."""
        described, nothing = table([self.words]), 0
        while True:
            at = ctypes.addressof(described) + 8
            code = function("map")(driver.address("cuTensorMapEncodeTiled"), at, row, address, nothing)
            if code != words.EMPTY:
                break
            nothing = memory_for_nothing(device)
        if code == words.UNMAPPED:
            raise Unmapped
        if code:
            raise driver.failure(code % words.ENCODING, "cuTensorMapEncodeTiled")


def _number(of: tuple[str, int, int], times: int) -> tuple[int, int, int]:
    """An extent or stride of a descriptor, ``times`` a number: an offset, a factor, and what is added."""
    kind, n, factor = of
    if kind == "c":
        return 0, 0, n * factor * times
    return 8 * n, factor * times, WRAP * times if kind == "w" else 0
