"""Finding arguments that share memory; written ones must not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from tilewright.runtime.arguments import Region
from tilewright.runtime.layout import ArgumentRef

# After so many steps of the exact search, arrays whose ranges of bytes overlap count as overlapping.
_EFFORT: Any = 100_000


def check_overlap(kernel: str, regions: Sequence[Region], numbers: list[Any], written: Sequence[bool]) -> None:
    """ValueError when an array that the kernel writes has an element in common with another array."""
    arrays = [_as_numpy(region, numbers) for region in regions]
    for i, j in itertools.combinations(range(len(regions)), 2):
        if (written[i] or written[j]) and share_memory(arrays[i], arrays[j]):
            first, second = (j, i) if written[j] else (i, j)
            raise ValueError(
                f"{ArgumentRef(kernel, regions[first].name)} is written but overlaps "
                f"'{regions[second].name}'; blocks run in any order, so the result would depend on "
                "it. Write to an array of its own"
            )


def share_memory(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether the arrays have a byte in common."""
    try:
        return np.shares_memory(a, b, max_work=_EFFORT)
    except np.exceptions.TooHardError:
        return np.may_share_memory(a, b)


def elements_overlap(shape: Sequence[int], strides: Sequence[int], size: int = 1) -> bool:
    """Whether two elements have memory in common, as those of an expanded array and of sliding windows do.

    Strides are in the unit of ``size``, that of an element.
    """
    if 0 in shape:
        return False
    axes = sorted((abs(stride), n) for stride, n in zip(strides, shape) if n != 1)
    reach = [0, *itertools.accumulate(stride * (n - 1) for stride, n in axes)]
    if all(stride >= before + size for (stride, _), before in zip(axes, reach)):
        return False
    if math.prod(shape) * size > reach[-1] + size:
        return True
    offsets = np.sort(reduce(np.add.outer, [np.arange(n) * stride for stride, n in axes]), axis=None)
    return bool((np.diff(offsets) < size).any())


class _Exposed:
    """Memory at an address, for ``np.asarray``."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def _as_numpy(region: Region, numbers: list[Any]) -> np.ndarray[Any, Any]:
    layout, size = region.layout, region.layout.dtype.bytes
    return exposed(region.address(numbers), layout.shape, [s * size for s in layout.strides], size)


def exposed(address: int, shape: Sequence[int], strides: Sequence[int], size: int) -> np.ndarray[Any, Any]:
    """An array of elements of ``size`` bytes at an address, which NumPy does not read; ``strides`` are in bytes."""
    interface = {"version": 3, "data": (address, True), "shape": tuple(shape), "strides": tuple(strides)}
    return np.asarray(_Exposed({**interface, "typestr": f"|V{size}"}))
