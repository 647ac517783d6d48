"""What IR values are at run time.

A numeric tile is an ndarray in the storage form of its dtype; the other types are the classes below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.types import PartitionViewType, TensorViewType
from tilewright.records import dataclass

Array = np.ndarray[Any, Any]

UNKNOWN_ALLOCATION = -1


@dataclass(frozen=True)
class Pointers:
    """A tile of pointers: for each, the allocation that it was derived from and the address, both int64.

    A pointer that leaves its allocation still belongs to it, so that an access through it is an error even where
    another array happens to lie there. Pointers made from integers belong to UNKNOWN_ALLOCATION.
    """

    allocation: Array
    address: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.address.shape


@dataclass(frozen=True)
class TensorView:
    """A strided array; shape and strides count elements."""

    type: TensorViewType
    base: Pointers
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class PartitionView:
    """A tensor view with the way it is cut into tiles."""

    type: PartitionViewType
    view: TensorView


def rearrange(function: Callable[..., Array], *tiles: Any) -> Any:
    """``function`` of tiles that all hold numbers or all hold pointers; it moves elements without looking at them."""
    if not isinstance(tiles[0], Pointers):
        return function(*tiles)
    return Pointers(function(*(t.allocation for t in tiles)), function(*(t.address for t in tiles)))
