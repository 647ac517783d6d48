"""Aligned copies of arrays that the copy engine cannot read where they are."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tilewright.backends.triton import driver
from tilewright.backends.triton.ttir.state import Descriptor

_UNIT = 16  # bytes
_LINE = 128  # bytes of a line of the L2 cache: rows that start on one are read faster
_WORTH_PER_BLOCK = 1 << 21  # bytes of an array per block of the grid up to which a copy pays
_DEVICE_MEMORY = 2


class _Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = (
        *tuple(
            field
            for side in ("src", "dst")
            for field in (
                (f"{side}_x", ctypes.c_size_t),
                (f"{side}_y", ctypes.c_size_t),
                (f"{side}_type", ctypes.c_int),
                (f"{side}_host", ctypes.c_void_p),
                (f"{side}_device", ctypes.c_uint64),
                (f"{side}_array", ctypes.c_void_p),
                (f"{side}_pitch", ctypes.c_size_t),
            )
        ),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


def needs_copy(d: Descriptor, item: int, base: int, strides: Sequence[int]) -> bool:
    """Whether the array is where the copy engine cannot read it."""
    return base % _UNIT != 0 or any(strides[axis] * item % _UNIT for axis in d.axes[:-1])


def pays(d: Descriptor, item: int, shape: Sequence[int], strides: Sequence[int], blocks: int) -> bool:
    """Whether an array is simple enough to be copied, and read often enough by ``blocks`` blocks."""
    outer, inner = d.axes
    return shape[inner] <= strides[outer] and shape[outer] * shape[inner] * item <= blocks * _WORTH_PER_BLOCK


def room(d: Descriptor, item: int, shape: Sequence[int]) -> tuple[int, int]:
    """The pitch of an aligned copy in bytes, and its size."""
    outer, inner = d.axes
    pitch = -(-shape[inner] * item // _LINE) * _LINE
    return pitch, max(pitch * shape[outer], _LINE)


def strides(d: Descriptor, item: int, pitch: int) -> tuple[int, ...]:
    """The strides of an aligned copy."""
    outer, _ = d.axes
    return tuple(pitch // item if axis == outer else 1 for axis in range(2))


def copy(
    d: Descriptor,
    item: int,
    source: int,
    target: int,
    shape: Sequence[int],
    strides: Sequence[int],
    pitch: int,
    stream: int,
) -> None:
    """Queue the copy to ``target``."""
    outer, inner = d.axes
    width, height = shape[inner] * item, shape[outer]
    if not width or not height:
        return
    what: Any = _Copy2D(
        src_type=_DEVICE_MEMORY,
        src_device=source,
        src_pitch=strides[outer] * item,
        dst_type=_DEVICE_MEMORY,
        dst_device=target,
        dst_pitch=pitch,
        width=width,
        height=height,
    )
    driver.call("cuMemcpy2DAsync_v2", ctypes.byref(what), ctypes.c_void_p(stream))
