"""What an expression of tile code can be at compile time.

A compile-time value is an ordinary Python object (a number, None, a string, a dtype, an enum member, a function, a
module, a class, a tuple of compile-time values, ...) or one of the classes below, which stand for run-time data.
Python numbers are the loosely typed constants of the data model; a ``Tile`` with ``constant`` set is a strictly
typed constant, such as ``ct.int32(2)``.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import PaddingMode
from tilewright.ir.types import ElementType
from tilewright.records import dataclass


@dataclass(frozen=True, eq=False)
class Tile:
    """A run-time tile (rank 0: a scalar). ``constant`` is its value when that is known and strictly typed."""

    value: Value
    constant: bool | int | float | None = None

    @property
    def element_type(self) -> ElementType:
        return self.value.tile.dtype

    @property
    def dtype(self) -> DType:
        """The dtype of a numeric tile."""
        return self.value.tile.element

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.tile.shape

    @property
    def ndim(self) -> int:
        return self.value.tile.rank


@dataclass(frozen=True, eq=False)
class Array:
    """An array in global memory.

    ``shape`` and ``strides`` (elements) hold what tile code sees: an int where the extent is a constant, a scalar
    Tile elsewhere. ``static_shape`` and ``static_strides`` hold what the code generator may rely on, None where an
    extent is dynamic. ``name`` is the kernel argument that the array came from.
    """

    dtype: DType
    base: Value
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    static_shape: tuple[int | None, ...]
    static_strides: tuple[int | None, ...]
    index_dtype: DType
    name: str

    @property
    def ndim(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, eq=False)
class TiledView:
    """The tile space of an array: see ``Array.tiled_view``. ``view`` is the partition view in the IR."""

    array: Array
    view: Value
    tile_shape: tuple[int, ...]
    traversal_steps: tuple[int, ...]
    padding_mode: PaddingMode

    @property
    def dtype(self) -> DType:
        return self.array.dtype


@dataclass(frozen=True, eq=False)
class ArrayList:
    """A list of arrays passed as one kernel argument: a table of int64 rows and its length."""

    table: Value
    length: Tile
    element: Any  # the frontend.signature.ArraySpec of every element
    name: str


@dataclass(frozen=True, eq=False)
class RawMemory:
    """``Array.get_raw_memory()``: the elements of an array addressed by offset from its base."""

    array: Array


@dataclass(frozen=True, eq=False)
class BoundMethod:
    """``obj.name`` where ``name`` is a method of a run-time value; ``stub`` is the function that declares it."""

    receiver: Any
    stub: Any


class PartlyFixed:
    """A value with a part that must be the same on all paths of control flow that meet."""

    def fixed(self) -> Any:
        """The part that must be the same."""
        raise NotImplementedError

    def described(self) -> str:
        """What this is, for messages."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class SliceIndex(PartlyFixed):
    """``ct.Slice(start, length)``: consecutive positions along one dimension."""

    start: Tile
    length: int

    def fixed(self) -> int:
        return self.length

    def described(self) -> str:
        return f"a ct.Slice of length {self.length}"


class Keywords(dict[str, Any]):
    """What ``**kwargs`` collects: the one kind of dictionary that tile code has. It never changes."""
