"""Types of IR values: tiles, pointer tiles, tensor views and partition views, and tiles in shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeVar, Union

from tilewright.ir.dtypes import DType, bool_, int32
from tilewright.ir.enums import PaddingMode
from tilewright.ir.layouts import OFFSET, LinearLayout
from tilewright.records import dataclass

MAX_TILE_ELEMENTS = 1 << 24
T = TypeVar("T")


@dataclass(frozen=True)
class PointerType:
    """The address of an element of ``pointee`` type; ``None`` is an untyped (``void``) pointer."""

    pointee: DType | None

    @property
    def short(self) -> str:
        return f"ptr<{self.pointee.short if self.pointee else 'void'}>"

    def __repr__(self) -> str:
        return self.short


ElementType = Union[DType, PointerType]


@dataclass(frozen=True)
class TileType:
    """An immutable array of ``dtype`` elements whose static ``shape`` has powers of two; rank 0 is a scalar.

    On GPUs a tile that is distributed over the threads of a CTA has a ``layout``, which says who holds which element.
    """

    dtype: ElementType
    shape: tuple[int, ...] = ()
    layout: LinearLayout | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The memory that all elements take."""
        return self.size * (8 if isinstance(self.dtype, PointerType) else self.dtype.bytes)

    @property
    def is_pointer(self) -> bool:
        return isinstance(self.dtype, PointerType)

    @property
    def element(self) -> DType:
        """The dtype of a numeric tile; TypeError for a pointer tile."""
        if isinstance(self.dtype, PointerType):
            raise TypeError(f"{self} holds pointers")
        return self.dtype

    @property
    def pointee(self) -> DType:
        """What a pointer tile points to; TypeError for numeric tiles and for ``void`` pointers."""
        if not isinstance(self.dtype, PointerType) or self.dtype.pointee is None:
            raise TypeError(f"{self} does not hold typed pointers")
        return self.dtype.pointee

    def with_dtype(self, dtype: ElementType) -> TileType:
        return TileType(dtype, self.shape, self.layout)

    def with_shape(self, shape: tuple[int, ...]) -> TileType:
        """The type of other tiles of the same elements, without a layout."""
        return TileType(self.dtype, shape)

    def with_layout(self, layout: LinearLayout | None) -> TileType:
        """With the shape of ``layout``, if there is one; otherwise the same tile, not distributed."""
        return TileType(self.dtype, self.shape if layout is None else layout.shape, layout)

    def __repr__(self) -> str:
        dims = f"[{','.join(map(str, self.shape))}]" if self.shape else ""
        return f"{self.dtype.short}{dims}{'' if self.layout is None else self.layout}"


def _dims(extents: tuple[int | None, ...]) -> str:
    return ",".join("?" if e is None else str(e) for e in extents)


@dataclass(frozen=True)
class TensorViewType:
    """A strided array in memory. ``None`` marks an extent or stride that is known only at run time.

    Strides count elements. ``index_dtype`` is the integer type of the dynamic extents and strides.
    """

    dtype: DType
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    index_dtype: DType = int32

    @property
    def rank(self) -> int:
        return len(self.shape)

    def filled(self, shape: Iterable[T], strides: Iterable[T]) -> tuple[tuple[T | int, ...], tuple[T | int, ...]]:
        """Extents and strides: what is known, and those of ``shape`` and ``strides``, in order, where they are open."""
        extents, steps = iter(shape), iter(strides)
        known = tuple(next(extents) if n is None else n for n in self.shape)
        return known, tuple(next(steps) if n is None else n for n in self.strides)

    def __repr__(self) -> str:
        return f"view<{self.dtype.short},[{_dims(self.shape)}],[{_dims(self.strides)}],{self.index_dtype.short}>"


@dataclass(frozen=True)
class PartitionViewType:
    """A tensor view cut into tiles.

    Axis ``k`` of the tile walks axis ``order[k]`` of the array. The tile with index ``i`` starts at element
    ``i[k] * steps[k]`` along that axis; ``steps == tile_shape`` gives adjacent tiles.
    """

    view: TensorViewType
    tile_shape: tuple[int, ...]
    order: tuple[int, ...]
    padding: PaddingMode = PaddingMode.UNDETERMINED
    steps: tuple[int, ...] = ()

    @property
    def tile(self) -> TileType:
        return TileType(self.view.dtype, self.tile_shape)

    def __repr__(self) -> str:
        return (
            f"partition<{self.view!r},[{_dims(self.tile_shape)}],[{_dims(self.order)}],"
            f"{self.padding.value},[{_dims(self.steps)}]>"
        )


@dataclass(frozen=True)
class SharedType:
    """A tile in the shared memory of a CTA: ``layout`` says which element lies at each ``offset`` (in elements).

    There are ``copies`` such tiles, one after the other.
    """

    dtype: DType
    layout: LinearLayout
    copies: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def tile(self) -> TileType:
        """What one copy holds, not distributed."""
        return TileType(self.dtype, self.shape)

    @property
    def bytes(self) -> int:
        """The size of all copies."""
        return self.copies * self.layout.size(OFFSET) * self.dtype.bytes

    def __repr__(self) -> str:
        copies = "" if self.copies == 1 else f",{self.copies}"
        return f"shared<{self.dtype.short}[{_dims(self.shape)}]{self.layout}{copies}>"


Type = Union[TileType, TensorViewType, PartitionViewType, SharedType]


def tensor_view(type: Type) -> TensorViewType:
    """``type``, or the tensor view that it cuts into tiles; TypeError when it is no view."""
    if isinstance(type, PartitionViewType):
        return type.view
    if not isinstance(type, TensorViewType):
        raise TypeError(f"{type} is not a view")
    return type


BOOL = TileType(bool_)
I32 = TileType(int32)


def is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def check_tile_shape(shape: tuple[int, ...]) -> str | None:
    """Why ``shape`` is no tile shape, or None when it is one."""
    for axis, n in enumerate(shape):
        if not is_power_of_two(n):
            return f"dimension {axis} of the tile shape {shape} is {n}, which is not a positive power of two"
    if math.prod(shape) > MAX_TILE_ELEMENTS:
        return f"a tile of shape {shape} has {math.prod(shape)} elements, more than the limit of {MAX_TILE_ELEMENTS}"
    return None
