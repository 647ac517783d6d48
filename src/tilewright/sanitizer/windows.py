"""Parts of an array's elements: strided windows, and elements by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from tilewright.records import dataclass

Array = np.ndarray[Any, Any]
Box = tuple[int, tuple[int, ...], tuple[int, ...]]  # the first position, extents and strides


@dataclass(frozen=True)
class Window:
    """A strided part of an array's elements."""

    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, field: Array) -> Array:
        """The part of ``field``, in place."""
        size = field.itemsize
        return np.ndarray(self.shape, field.dtype, field, self.first * size, tuple(s * size for s in self.strides))

    def fill(self, field: Array, value: Any) -> None:
        """Overwrite the part of ``field``."""
        self.of(field)[...] = value

    def elements(self) -> Array:
        """The positions of the elements, in the order of ``of``."""
        return elements_of(self.first, self.shape, self.strides).reshape(self.shape)

    def box(self) -> Box | None:
        """How the positions are strided; None for those that are not."""
        return self.first, self.shape, self.strides


@dataclass(frozen=True)
class Lanes:
    """Elements by position."""

    positions: Array

    def of(self, field: Array) -> Array:
        return field[self.positions]

    def fill(self, field: Array, value: Any) -> None:
        field[self.positions] = value

    def elements(self) -> Array:
        return self.positions

    def box(self) -> Box | None:
        return None


Touched = Union[Window, Lanes]


def elements_of(first: int, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """The positions of a strided range, flat and in row-major order."""
    positions = np.array([first], np.int64)
    for n, stride in zip(shape, strides):
        positions = (positions[:, None] + np.arange(n, dtype=np.int64) * stride).reshape(-1)
    return positions
