"""The objects of tile code: arrays, tiles, tiled views. They exist only while a kernel is compiled.

The classes declare what kernels can do with them; their methods are tile operations.
"""

from __future__ import annotations

from typing import Any, Union

from tilewright.ir.dtypes import DType
from tilewright.ir.enums import MemoryOrder, MemoryScope, PaddingMode, RoundingMode
from tilewright.language.functions import operation_like, tile_operation
from tilewright.language.operators import Operators

__all__ = ["Array", "RawArrayMemory", "Tile", "TiledView"]

Padding = Union[PaddingMode, str]
Order = Union[MemoryOrder, str]
Scope = Union[MemoryScope, str]
Index = Any  # an integer scalar, or a tuple of them
Shape = Union[int, tuple[int, ...]]

ACQ_REL, DEVICE = MemoryOrder.ACQ_REL, MemoryScope.DEVICE


class Tile(Operators):
    """An immutable array of static shape, each dimension a power of two; rank 0 is a scalar. Source: data model.

    >>> x = ct.arange(4, dtype=ct.int32)
    >>> x.shape, x.dtype, x.ndim
    ((4,), int32, 1)
    >>> (x[:, None] * 10 + x).reshape((2, 8)).astype(ct.int64).extract((1, 0), (1, 4))
    Tile([[20, 21, 22, 23]], dtype=int64)
    """

    dtype: DType
    shape: tuple[int, ...]
    ndim: int

    @tile_operation
    def item(self) -> Tile:
        """The only element, as a scalar."""

    @tile_operation
    def extract(self, index: Index, shape: Shape) -> Tile:
        """See ``extract``."""

    @tile_operation
    def insert(self, index: Index, value: TileLike) -> Tile:
        """See ``insert``."""

    @tile_operation
    def reshape(self, shape: tuple[int, ...]) -> Tile:
        """See ``reshape``."""

    @tile_operation
    def permute(self, axes: tuple[int, ...]) -> Tile:
        """See ``permute``."""

    @tile_operation
    def transpose(self, axis0: int | None = None, axis1: int | None = None) -> Tile:
        """See ``transpose``."""

    @tile_operation
    def astype(self, dtype: Any, *, rounding_mode: RoundingMode | str | None = None) -> Tile:
        """See ``astype``."""


TileLike = Union[Tile, bool, int, float]


class TiledView:
    """The tile space of an array. Source: data model, "Tiled Views".

    >>> @ct.kernel
    ... def row_sums(x, out):
    ...     view = x.tiled_view((1, 4), padding_mode=ct.PaddingMode.ZERO)
    ...     total = ct.zeros((1, 4), ct.float64)
    ...     for k in range(view.num_tiles(1)):
    ...         total += view.load((ct.bid(0), k))
    ...     ct.store(out, (ct.bid(0),), ct.sum(total))
    >>> x, out = np.ones((3, 10)), np.zeros(3)
    >>> ct.launch(None, (3,), row_sums, (x, out))
    >>> out
    array([10., 10., 10.])
    """

    dtype: DType
    tile_shape: tuple[int, ...]
    traversal_steps: tuple[int, ...]

    @tile_operation
    def num_tiles(self, axis: int) -> Tile:
        """The number of tiles along ``axis``, as int32."""

    @tile_operation
    def load(self, index: Index, *, check_bounds: bool = True, latency: Any = None, allow_tma: Any = None) -> Tile:
        """The tile at ``index``; elements outside the array take the padding of the view."""

    @tile_operation
    def store(
        self, index: Index, tile: TileLike, *, check_bounds: bool = True, latency: Any = None, allow_tma: Any = None
    ) -> None:
        """Stores ``tile``, broadcast and cast implicitly, at ``index``; elements outside the array are dropped."""

    @tile_operation
    def atomic_store_add(self, index: Index, update: TileLike, /) -> None:
        """Adds ``update`` to the tile at ``index``, each element atomically (relaxed, device scope)."""

    @tile_operation
    def atomic_store_max(self, index: Index, update: TileLike, /) -> None:
        """Like ``atomic_store_add``, with the larger value."""

    @tile_operation
    def atomic_store_min(self, index: Index, update: TileLike, /) -> None:
        """Like ``atomic_store_add``, with the smaller value."""

    @tile_operation
    def atomic_store_and(self, index: Index, update: TileLike, /) -> None:
        """Like ``atomic_store_add``, with bitwise and."""

    @tile_operation
    def atomic_store_or(self, index: Index, update: TileLike, /) -> None:
        """Like ``atomic_store_add``, with bitwise or."""

    @tile_operation
    def atomic_store_xor(self, index: Index, update: TileLike, /) -> None:
        """Like ``atomic_store_add``, with bitwise exclusive or."""

    # The guide's names.
    atomic_add, atomic_max, atomic_min = atomic_store_add, atomic_store_max, atomic_store_min
    atomic_and, atomic_or, atomic_xor = atomic_store_and, atomic_store_or, atomic_store_xor


class RawArrayMemory:
    """The memory of an array, addressed by element offset from its base and without bounds checks.

    >>> @ct.kernel
    ... def reverse(x, out, N: ct.Constant[int]):
    ...     offsets = ct.arange(N, dtype=ct.int32)
    ...     ct.store(out, (0,), x.get_raw_memory().load_offset(N - 1 - offsets))
    >>> x, out = np.arange(4.0), np.zeros(4)
    >>> ct.launch(None, (1,), reverse, (x, out, 4))
    >>> out
    array([3., 2., 1., 0.])
    """

    dtype: DType

    @tile_operation
    def load_offset(
        self,
        offset: TileLike,
        /,
        *,
        mask: TileLike | None = None,
        padding_value: TileLike | None = 0,
        latency: Any = None,
    ) -> Tile:
        """The elements at ``offset``; ``padding_value`` where ``mask`` is false."""

    @tile_operation
    def store_offset(
        self, offset: TileLike, value: TileLike, /, *, mask: TileLike | None = None, latency: Any = None
    ) -> None:
        """Stores ``value`` at ``offset`` where ``mask`` is true."""

    @tile_operation
    def atomic_cas_offset(
        self,
        offset: TileLike,
        expected: TileLike,
        desired: TileLike,
        /,
        *,
        mask: TileLike | None = None,
        memory_order: Order = ACQ_REL,
        memory_scope: Scope = DEVICE,
    ) -> Tile:
        """Compare-and-swap; returns the old values, and ``expected`` where ``mask`` is false."""

    @tile_operation
    def atomic_xchg_offset(
        self,
        offset: TileLike,
        update: TileLike,
        /,
        *,
        mask: TileLike | None = None,
        memory_order: Order = ACQ_REL,
        memory_scope: Scope = DEVICE,
    ) -> Tile:
        """Exchange; returns the old values."""

    @operation_like(atomic_xchg_offset)
    def atomic_add_offset() -> None:
        """Atomic addition at ``offset`` where ``mask`` is true; returns the old values."""

    @operation_like(atomic_xchg_offset)
    def atomic_max_offset() -> None:
        """Atomic maximum at ``offset`` where ``mask`` is true; returns the old values."""

    @operation_like(atomic_xchg_offset)
    def atomic_min_offset() -> None:
        """Atomic minimum at ``offset`` where ``mask`` is true; returns the old values."""

    @operation_like(atomic_xchg_offset)
    def atomic_and_offset() -> None:
        """Atomic bitwise and at ``offset`` where ``mask`` is true; returns the old values."""

    @operation_like(atomic_xchg_offset)
    def atomic_or_offset() -> None:
        """Atomic bitwise or at ``offset`` where ``mask`` is true; returns the old values."""

    @operation_like(atomic_xchg_offset)
    def atomic_xor_offset() -> None:
        """Atomic bitwise exclusive or at ``offset`` where ``mask`` is true; returns the old values."""


class Array:
    """An array in global memory, passed to a kernel. Source: data model, "Global Arrays".

    >>> @ct.kernel
    ... def middle(x, out):
    ...     rows = x.slice(0, 1, 3)
    ...     ct.store(out, (0, 0), ct.load(rows, (0, 0), (2, 4)))
    >>> x, out = np.arange(16.0).reshape(4, 4), np.zeros((2, 4))
    >>> ct.launch(None, (1,), middle, (x, out))
    >>> out
    array([[ 4.,  5.,  6.,  7.],
           [ 8.,  9., 10., 11.]])
    """

    dtype: DType
    ndim: int
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    foreign_pointer: Tile

    @tile_operation
    def slice(self, axis: int, start: TileLike, stop: TileLike) -> Array:
        """The part of this array with ``start <= index < stop`` along ``axis``: a view, nothing is copied."""

    @tile_operation
    def tiled_view(
        self,
        tile_shape: Shape,
        *,
        padding_mode: Padding = PaddingMode.UNDETERMINED,
        traversal_steps: tuple[int, ...] | None = None,
    ) -> TiledView:
        """The array cut into tiles of ``tile_shape``; tile ``i`` starts at element ``i * traversal_steps``."""

    @tile_operation
    def get_raw_memory(self) -> RawArrayMemory:
        """The memory of this array, addressed by offset."""

    @staticmethod
    @tile_operation
    def from_foreign(pointer: Tile, shape: tuple[TileLike, ...], strides: tuple[TileLike, ...]) -> Array:
        """An array over a foreign pointer; int64 indices if any entry is int64."""
