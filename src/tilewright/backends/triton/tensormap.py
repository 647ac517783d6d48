"""Tensor maps: what the TMA unit knows of an array, 128 bytes that a launch passes by value."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.analysis.gpu.lowering_plan import MAP_ALIGNMENT, MAP_BYTES, Descriptor
from tilewright.backends.triton import driver

# TTIR element type -> CUtensorMapDataType. Small floats travel as bytes.
_TYPES = {"i8": 0, "i16": 1, "i32": 2, "i64": 4, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
_TFLOAT32 = 11  # float32 in memory
NO_INTERLEAVING, PROMOTION_TO_128_BYTES, ZEROS_OUTSIDE = 0, 2, 0


_STEPS, _MOST_ELEMENTS = 1 << 40, 1 << 32  # along an axis: bytes from one to the next, and how many


class Unmapped(Exception):
    """There is no tensor map of an array: rows in reversed order, or farther from each other than a map can say."""


def element_type(d: Descriptor) -> int:
    return _TFLOAT32 if d.rounds else _TYPES.get(d.element, 0)


@functools.cache
def _nothing(device: int) -> int:
    """The address of zeros on ``device``, for arrays without elements: a map needs some memory."""
    address = ctypes.c_uint64()
    with driver.device(device).current():
        driver.call("cuMemAlloc_v2", ctypes.byref(address), 4096)
        driver.call("cuMemsetD8_v2", address, 0, 4096)
    return address.value


class TensorMap:
    """Room for an encoded map, at ``address``."""

    __slots__ = ("_memory", "address")

    def __init__(self) -> None:
        self._memory = (ctypes.c_uint8 * (MAP_BYTES + MAP_ALIGNMENT))()
        start = ctypes.addressof(self._memory)
        self.address = start + -start % MAP_ALIGNMENT


def encode(
    place: int,
    d: Descriptor,
    meta: Mapping[str, Any],
    base: int,
    shape: Sequence[int],
    strides: Sequence[int],
    device: int,
) -> None:
    """Write the map of an array to ``place``. Unmapped where there is none."""
    rank = len(d.axes)
    extents = [shape[a] for a in reversed(d.axes)]
    steps = [strides[a] * meta["elem_size"] for a in reversed(d.axes)]
    if 0 in extents:
        base, extents, steps = _nothing(device), [1] * rank, [meta["elem_size"]] + [16] * (rank - 1)
    outer = _outer_steps(steps, extents)
    if not all(0 <= step < _STEPS for step in outer) or max(extents) > _MOST_ELEMENTS:
        raise Unmapped
    driver.call(
        "cuTensorMapEncodeTiled",
        ctypes.c_void_p(place),
        element_type(d),
        rank,
        ctypes.c_uint64(base),
        (ctypes.c_uint64 * rank)(*extents),
        (ctypes.c_uint64 * max(rank - 1, 1))(*outer),
        (ctypes.c_uint32 * rank)(*reversed(meta["block_size"])),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        NO_INTERLEAVING,
        meta["swizzle"],
        PROMOTION_TO_128_BYTES,  # of what is fetched into the L2 cache
        ZEROS_OUTSIDE,
    )


def _outer_steps(steps: Sequence[int], extents: Sequence[int]) -> list[int]:
    """The strides of all axes but the innermost, in bytes. An axis of one element may have any."""
    return [max(step, 16) if n == 1 else step for step, n in zip(steps[1:], extents[1:])]
