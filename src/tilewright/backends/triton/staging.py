"""Aligned copies of arrays that the copy engine cannot read where they are."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tilewright.backends.triton import driver
from tilewright.backends.triton.ttir.state import Descriptor

_UNIT = 16  # bytes
_WORTH_PER_BLOCK = 1 << 16  # bytes of an array per block of the grid up to which a copy pays
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


class Staged:
    """An aligned copy, made on ``stream`` in its order; ``base`` and ``strides`` describe it."""

    def __init__(
        self, d: Descriptor, item: int, base: int, shape: Sequence[int], strides: Sequence[int], stream: int
    ) -> None:
        outer, inner = d.axes
        width, height = shape[inner] * item, shape[outer]
        pitch = -(-width // _UNIT) * _UNIT
        self._stream = ctypes.c_void_p(stream)
        self._address = ctypes.c_uint64()
        size = ctypes.c_size_t(max(pitch * height, _UNIT))
        driver.call("cuMemAllocAsync", ctypes.byref(self._address), size, self._stream)
        self.base = self._address.value
        self.strides = [1, 1]
        self.strides[outer] = pitch // item
        if width and height:
            copy: Any = _Copy2D(
                src_type=_DEVICE_MEMORY,
                src_device=base,
                src_pitch=strides[outer] * item,
                dst_type=_DEVICE_MEMORY,
                dst_device=self.base,
                dst_pitch=pitch,
                width=width,
                height=height,
            )
            driver.call("cuMemcpy2DAsync_v2", ctypes.byref(copy), self._stream)

    def free(self) -> None:
        """Give the memory back once the stream gets here."""
        driver.call("cuMemFreeAsync", self._address, self._stream)
