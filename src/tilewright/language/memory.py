"""Loads, stores, gathers, scatters and atomics on arrays."""

from __future__ import annotations

from typing import Any

from tilewright.ir.enums import MemoryOrder, MemoryScope, PaddingMode
from tilewright.language.array import ACQ_REL, DEVICE, Array, Index, Order, Padding, Scope, Shape, Tile, TileLike
from tilewright.language.functions import evaluate, operation_like, tile_operation
from tilewright.language.suggestions import explains_arguments

__all__ = [
    "Slice", "assume_divisible_by", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xchg", "atomic_xor", "bid", "gather", "grid_dependency_control_launch_dependents",
    "grid_dependency_control_wait", "load", "load_advanced_indexing", "num_blocks", "num_tiles", "scatter", "store",
    "store_advanced_indexing",
]  # fmt: skip

UNDETERMINED = PaddingMode.UNDETERMINED
WEAK, NONE = MemoryOrder.WEAK, MemoryScope.NONE


@explains_arguments
class Slice:
    """``length`` consecutive positions from ``start``: a dense index of the advanced indexing functions.

    ``start`` is a signed integer scalar, ``length`` a constant power of two.

    >>> rows = ct.arange(2, dtype=ct.int32)
    >>> ct.load_advanced_indexing(np.arange(10).reshape(2, 5), (rows, ct.Slice(3, 2)))
    Tile([[3, 4],
          [8, 9]], dtype=int64)
    """

    def __new__(cls, start: Any, length: int, /) -> Any:
        return evaluate(cls, (start, length), {}) if cls is Slice else super().__new__(cls)


@tile_operation
def bid(axis: int) -> Tile:
    """The index of this block along grid axis 0, 1 or 2, as int32.

    >>> ct.bid(0)  # the block that the REPL plays
    Tile(0, dtype=int32)
    """


@tile_operation
def num_blocks(axis: int) -> Tile:
    """The number of blocks along grid axis 0, 1 or 2, as int32.

    >>> ct.num_blocks(0)
    Tile(1, dtype=int32)
    """


@tile_operation
def num_tiles(array: Array, /, axis: int, shape: Shape, order: Any = "C") -> Tile:
    """How many tiles of ``shape`` cover ``array`` along ``axis``, as int32.

    >>> ct.num_tiles(np.zeros((10, 3)), 0, (4, 4))
    Tile(3, dtype=int32)
    """


@tile_operation
def load(
    array: Array,
    /,
    index: Index,
    shape: Shape,
    *,
    order: Any = "C",
    padding_mode: Padding = UNDETERMINED,
    check_bounds: bool = True,
    latency: Any = None,
    allow_tma: Any = None,
    memory_order: Order = WEAK,
    memory_scope: Scope = NONE,
) -> Tile:
    """The tile of ``shape`` at tile index ``index``: element x of axis k is array position index[k] * shape[k] + x.

    ``order`` "F" or a permutation lets tile axis k walk array axis order[k]. Elements outside the array take the
    padding; ``check_bounds=False`` promises that there are none. Index, shape and array have one rank.

    >>> a = np.arange(6.0)
    >>> ct.load(a, (1,), (2,))
    Tile([2., 3.], dtype=float64)
    >>> ct.load(a, (1,), (4,), padding_mode=ct.PaddingMode.ZERO)
    Tile([4., 5., 0., 0.], dtype=float64)
    """


@tile_operation
def store(
    array: Array,
    /,
    index: Index,
    tile: TileLike,
    *,
    order: Any = "C",
    check_bounds: bool = True,
    latency: Any = None,
    allow_tma: Any = None,
    memory_order: Order = WEAK,
    memory_scope: Scope = NONE,
) -> None:
    """Stores ``tile``, cast implicitly, at tile index ``index``; elements outside the array are dropped.

    >>> a = np.arange(6.0)
    >>> ct.store(a, (1,), ct.zeros((2,), ct.float64))
    >>> a
    array([0., 1., 0., 0., 4., 5.])
    """


@tile_operation
def gather(
    array: Array,
    indices: Any,
    /,
    *,
    mask: TileLike | None = None,
    padding_value: TileLike = 0,
    check_bounds: bool = True,
    latency: Any = None,
) -> Tile:
    """The elements at ``indices``: one integer tile per dimension, broadcast to the shape of the result.

    Where ``mask`` is false, or an index is outside the array, the result is ``padding_value``.

    >>> a = np.arange(6.0)
    >>> ct.gather(a, ct.arange(4, dtype=ct.int32, step=2))
    Tile([0., 2., 4., 0.], dtype=float64)
    """


@tile_operation
def scatter(
    array: Array,
    indices: Any,
    value: TileLike,
    /,
    *,
    mask: TileLike | None = None,
    check_bounds: bool = True,
    latency: Any = None,
) -> None:
    """Stores ``value`` at ``indices``; masked elements and those outside the array are dropped.

    >>> a = np.arange(6.0)
    >>> ct.scatter(a, ct.arange(2, dtype=ct.int32, step=5), 9.0)
    >>> a
    array([9., 1., 2., 3., 4., 9.])
    """


@tile_operation
def load_advanced_indexing(
    array: Array,
    indices: tuple[Any, ...],
    /,
    *,
    padding_mode: Padding = UNDETERMINED,
    latency: Any = None,
    allow_tma: Any = None,
) -> Tile:
    """Rows picked by one 1-D integer tile among ``indices``, whose other entries are ``Slice``s; in element units.

    >>> a = np.arange(8.0).reshape(4, 2)
    >>> ct.load_advanced_indexing(a, (ct.arange(2, dtype=ct.int32, step=3), ct.Slice(0, 2)))
    Tile([[0., 1.],
          [6., 7.]], dtype=float64)
    """


@tile_operation
def store_advanced_indexing(
    array: Array, indices: tuple[Any, ...], tile: TileLike, /, *, latency: Any = None, allow_tma: Any = None
) -> None:
    """Stores to the positions that ``load_advanced_indexing`` would read; the shape must match exactly.

    >>> a = np.zeros((4, 2))
    >>> rows = ct.arange(2, dtype=ct.int32, step=3)
    >>> ct.store_advanced_indexing(a, (rows, ct.Slice(0, 2)), ct.ones((2, 2), ct.float64))
    >>> a.sum(axis=1)
    array([2., 0., 0., 2.])
    """


@tile_operation
def atomic_cas(
    array: Array,
    indices: Any,
    expected: TileLike,
    desired: TileLike,
    /,
    *,
    check_bounds: bool = True,
    memory_order: Order = ACQ_REL,
    memory_scope: Scope = DEVICE,
) -> Tile:
    """Where an element at ``indices`` equals ``expected``, replaces it by ``desired``; returns the old elements.

    >>> a = np.array([1, 6], np.int32)
    >>> ct.atomic_cas(a, (1,), 6, 8)
    Tile(6, dtype=int32)
    >>> a
    array([1, 8], dtype=int32)
    """


@tile_operation
def atomic_xchg(
    array: Array,
    indices: Any,
    update: TileLike,
    /,
    *,
    check_bounds: bool = True,
    memory_order: Order = ACQ_REL,
    memory_scope: Scope = DEVICE,
) -> Tile:
    """Stores ``update`` in place of the elements at ``indices``, each atomically; gives the old ones.

    >>> a = np.array([1, 6], np.int32)
    >>> ct.atomic_xchg(a, (1,), 3)
    Tile(6, dtype=int32)
    >>> a
    array([1, 3], dtype=int32)
    """


@operation_like(atomic_xchg)
def atomic_add() -> None:
    """Adds ``update`` to the elements at ``indices``, each atomically; gives the old ones.

    >>> a = np.array([1, 6], np.int32)
    >>> ct.atomic_add(a, (1,), 3)
    Tile(6, dtype=int32)
    >>> a
    array([1, 9], dtype=int32)
    """


@operation_like(atomic_xchg)
def atomic_max() -> None:
    """Stores the larger of ``update`` and the old value in those at ``indices``, each atomically; gives the old ones.

    >>> a = np.array([1, 6], np.int32)
    >>> ct.atomic_max(a, (1,), 3)
    Tile(6, dtype=int32)
    >>> a
    array([1, 6], dtype=int32)
    """


@operation_like(atomic_xchg)
def atomic_min() -> None:
    """Stores the smaller of ``update`` and the old value in those at ``indices``, each atomically; gives the old ones.

    >>> a = np.array([1, 6], np.int32)
    >>> ct.atomic_min(a, (1,), 3)
    Tile(6, dtype=int32)
    >>> a
    array([1, 3], dtype=int32)
    """


@operation_like(atomic_xchg)
def atomic_and() -> None:
    """Combines ``update`` by bitwise and into the elements at ``indices``, each atomically; gives the old ones.

    >>> a = np.array([1, 6], np.int32)
    >>> ct.atomic_and(a, (1,), 3)
    Tile(6, dtype=int32)
    >>> a
    array([1, 2], dtype=int32)
    """


@operation_like(atomic_xchg)
def atomic_or() -> None:
    """Combines ``update`` by bitwise or into the elements at ``indices``, each atomically; gives the old ones.

    >>> a = np.array([1, 6], np.int32)
    >>> ct.atomic_or(a, (1,), 3)
    Tile(6, dtype=int32)
    >>> a
    array([1, 7], dtype=int32)
    """


@operation_like(atomic_xchg)
def atomic_xor() -> None:
    """Combines ``update`` by exclusive or into the elements at ``indices``, each atomically; gives the old ones.

    >>> a = np.array([1, 6], np.int32)
    >>> ct.atomic_xor(a, (1,), 3)
    Tile(6, dtype=int32)
    >>> a
    array([1, 5], dtype=int32)
    """


@tile_operation
def assume_divisible_by(x: TileLike, divisor: int) -> Tile:
    """``x``, promised to be a multiple of the constant ``divisor``. A false promise is undefined behaviour.

    >>> ct.assume_divisible_by(ct.int32(32), 16)
    Tile(32, dtype=int32)
    """


@tile_operation
def grid_dependency_control_wait() -> None:
    """Waits for the kernels that this one depends on; without programmatic launches it does nothing.

    >>> ct.grid_dependency_control_wait()
    """


@tile_operation
def grid_dependency_control_launch_dependents() -> None:
    """Lets dependent kernels start; without programmatic launches it does nothing.

    >>> ct.grid_dependency_control_launch_dependents()
    """
