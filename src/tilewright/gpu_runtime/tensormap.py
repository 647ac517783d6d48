"""Tensor maps: what the TMA unit knows of an array, 128 bytes that a launch passes by value."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.launch_functions import AXIS, MOST_AXES, MOST_ELEMENTS, STEPS
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
    """Writes the tensor maps of arrays that ``d`` describes, from Python or in machine code.

    ``box`` tells what one copy moves: its extents, the swizzle of shared memory, and the bytes of an element.
    """

    def __init__(self, d: Descriptor, box: Mapping[str, Any]) -> None:
        self._d, self._item = d, box["elem_size"]
        self._rank, words = len(d.axes), ctypes.c_uint32 * len(d.axes)
        self._axes = d.axes[::-1]  # the innermost first, as the driver has them
        self._element = _TFLOAT32 if d.rounds else _TYPES.get(d.element, 0)
        self._box, self._steps = words(*reversed(box["block_size"])), words(*[1] * self._rank)
        # interleaving, swizzling, what is fetched into the L2 cache, elements outside
        self._modes = _NO_INTERLEAVING, box["swizzle"], _PROMOTION_TO_128_BYTES, _ZEROS_OUTSIDE

    def encode(self, address: int, base: int, shape: Sequence[int], strides: Sequence[int], device: int) -> None:
        """Write the map of an array to ``address``. Unmapped where there is none."""
        rank, item = self._rank, self._item
        extents, steps = [shape[a] for a in self._axes], [strides[a] * item for a in self._axes]
        if 0 in extents:
            base, extents, steps = memory_for_nothing(device), [1] * rank, [item] + [16] * (rank - 1)
        outer = [max(step, 16) if n == 1 else step for step, n in zip(steps[1:], extents[1:])]  # of one row: any
        if not all(0 <= step < STEPS for step in outer) or max(extents) > MOST_ELEMENTS:
            raise Unmapped
        driver.call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(address),
            self._element,
            rank,
            ctypes.c_uint64(base),
            (ctypes.c_uint64 * rank)(*extents),
            (ctypes.c_uint64 * max(rank - 1, 1))(*outer),
            self._box,
            self._steps,
            *self._modes,
        )

    def described(self) -> list[int]:
        """How machine code writes the map, of an array among the numbers of a launch."""
        d, places = self._d, map(ctypes.addressof, (self._box, self._steps))
        axes = [[*_number(d.shape[a], 1), *_number(d.strides[a], self._item)] for a in self._axes]
        axes[0][3:] = (0, 0, 16)  # which no map has
        axes += [[0] * len(AXIS)] * (MOST_AXES - self._rank)
        return [self._element, self._rank, 8 * d.base, *places, *self._modes, *itertools.chain(*axes)]


def _number(of: tuple[str, int, int], times: int) -> tuple[int, int, int]:
    """An extent or stride of a descriptor, ``times`` a number: an offset, a factor, and what is added."""
    kind, n, factor = of
    if kind in ("p", "w"):
        return 8 * n, factor * times, WRAP * times if kind == "w" else 0
    return 0, 0, n * factor * times
