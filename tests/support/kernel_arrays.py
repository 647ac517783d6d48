"""Array arguments of random kernels: views of larger arrays, with odd extents, gaps between rows, addresses that are not
aligned and axes in any order."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from support.kernel_tiles import INTEGERS, Shape

NumpyArray = np.ndarray[Any, Any]

_TIDY = {"plain": 2, "aligned rows": 5}  # what the TMA unit of a GPU may take
_LAYOUTS = {
    "plain": 5,
    "aligned rows": 5,
    "gaps": 2,
    "offset": 2,
    "transposed": 2,
    "strided": 1,
    "aligned transposed": 1,
}
_OTHERS = {name: np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")}


@dataclass
class Array:
    """An argument whose elements always lie between ``low`` and ``high``."""

    text: str
    dtype: str
    low: int
    high: int
    views: list[NumpyArray]  # several for a list of arrays

    @property
    def shape(self) -> Shape:
        """That of each array, or of none, as the arrays of a list may differ."""
        return self.views[0].shape

    @property
    def rank(self) -> int:
        return self.views[0].ndim

    def description(self) -> str:
        return "; ".join(
            f"{v.dtype} {v.shape}, strides {v.strides}, address {v.ctypes.data % 256} mod 256" for v in self.views
        )


def storage(dtype: str) -> np.dtype[Any]:
    return _OTHERS.get(dtype) or np.dtype(dtype)


def extents(random: random.Random, tile: Shape, most: int = 3) -> Shape:
    """Extents that hold up to ``most`` tiles along each axis, the last of which may be partial."""
    found = []
    for n in tile:
        whole, rest = random.randint(0, most - 1) * n, random.choice((n, n, random.randint(1, n), max(n - 8, 1)))
        found.append(whole + rest)
    return tuple(found)


def view(
    random: random.Random,
    numbers: np.random.Generator,
    dtype: str,
    shape: Shape,
    low: int,
    high: int,
    *,
    tidy: bool = False,
) -> NumpyArray:
    """An array of this shape, of random numbers of this range, as a view of memory of its own."""
    layouts = _TIDY if tidy else _LAYOUTS
    layout = random.choices(list(layouts), list(layouts.values()))[0]
    item = storage(dtype).itemsize
    unit = 16 // item
    turned = layout.endswith("transposed") and len(shape) > 1
    inner = list(shape)
    axes = list(range(len(shape)))
    if turned:
        axes = random.sample(axes, len(axes)) if len(axes) > 2 else axes[::-1]
        inner = [shape[a] for a in axes]
    pitched = list(inner)
    steps = [1] * len(inner)
    offset = 0
    if layout in ("aligned rows", "aligned transposed") and inner:
        pitched[-1] = -(-inner[-1] // unit) * unit + random.choice((0, 0, unit))
    elif layout == "gaps" and inner:
        pitched = [n + random.choice((0, 1, 3)) for n in inner]
    elif layout == "offset":
        offset = random.randint(1, max(unit - 1, 1))
    elif layout == "strided" and inner:
        axis = random.randrange(len(inner))
        steps[axis], pitched[axis] = 2, 2 * inner[axis]
    memory = _memory(numbers, dtype, offset + math.prod(pitched) + unit, low, high)
    whole = memory[offset : offset + math.prod(pitched)].reshape(pitched)
    part = whole[tuple(slice(0, n * s, s) for n, s in zip(inner, steps))]
    return part.transpose(np.argsort(axes)) if turned else part


def _memory(numbers: np.random.Generator, dtype: str, count: int, low: int, high: int) -> NumpyArray:
    """RuntimeValues memory; numbers of less than the whole range of an integer are mostly small."""
    if dtype in INTEGERS:
        return numbers.integers(low, high, count, storage(dtype), endpoint=True)
    return numbers.integers(low, high, count, endpoint=True).astype(storage(dtype))
