"""Creating and rearranging tiles, reductions, scans and matrix products (fact sheet 1.11, 1.12, 1.14, 1.15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

from tilewright.ir.enums import RoundingMode
from tilewright.language.array import Index, Shape, Tile, TileLike
from tilewright.language.functions import tile_operation

Axis = Union[int, tuple[int, ...], None]


@tile_operation
def arange(size: int, /, *, dtype: Any, start: TileLike = 0, step: TileLike = 1) -> Tile:
    """The 1-D tile start, start + step, ... of ``size`` elements, a power of two."""


@tile_operation
def full(shape: Shape, fill_value: TileLike, dtype: Any) -> Tile:
    """A tile of ``shape`` filled with a scalar, cast to ``dtype``."""


@tile_operation
def ones(shape: Shape, dtype: Any) -> Tile:
    """A tile of ones."""


@tile_operation
def zeros(shape: Shape, dtype: Any) -> Tile:
    """A tile of zeros."""


@tile_operation
def astile(value: Any, /, *, dtype: Any) -> Tile:
    """A scalar, or a nested tuple of scalars with power-of-two lengths, as a tile."""


@tile_operation
def reshape(x: TileLike, /, shape: tuple[int, ...]) -> Tile:
    """The same elements in row-major order; one entry of ``shape`` may be -1."""


@tile_operation
def broadcast_to(x: TileLike, /, shape: tuple[int, ...]) -> Tile:
    """x repeated to ``shape`` by NumPy's broadcasting rules."""


@tile_operation
def expand_dims(x: TileLike, /, axis: int) -> Tile:
    """x with an axis of length 1 inserted at ``axis``."""


@tile_operation
def permute(x: TileLike, /, axes: tuple[int, ...]) -> Tile:
    """Axis k of the result is axis ``axes[k]`` of x."""


@tile_operation
def transpose(x: TileLike, /, axis0: int | None = None, axis1: int | None = None) -> Tile:
    """x with two axes swapped; both must be named when the rank is above 2."""


@tile_operation
def cat(tiles: tuple[Tile, ...], /, axis: int) -> Tile:
    """One or two tiles of one dtype joined along ``axis``."""


@tile_operation
def extract(x: TileLike, /, index: Index, shape: Shape) -> Tile:
    """The subtile at grid position ``index`` of x cut into tiles of ``shape``."""


@tile_operation
def insert(x: TileLike, /, index: Index, value: TileLike) -> Tile:
    """x with the subtile at grid position ``index`` replaced by ``value``."""


@tile_operation
def astype(x: TileLike, dtype: Any, /, *, rounding_mode: RoundingMode | str | None = None) -> Tile:
    """x converted to ``dtype``. Integers wrap, float to integer truncates, to bool tests for non-zero."""


@tile_operation
def bitcast(x: TileLike, /, dtype: Any) -> Tile:
    """The bits of x read as ``dtype``, which has the same width."""


@tile_operation
def pack_to_bytes(x: TileLike, /) -> Tile:
    """The bytes of x, row-major and little-endian, as a 1-D uint8 tile."""


@tile_operation
def unpack_from_bytes(x: TileLike, /, dtype: Any) -> Tile:
    """The inverse of ``pack_to_bytes``."""


@tile_operation
def sum(
    x: TileLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    rounding_mode: RoundingMode | str | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """The sum along ``axis`` (None: of all elements). bool becomes int32, other dtypes are kept."""


@tile_operation
def prod(
    x: TileLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    rounding_mode: RoundingMode | str | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """The product along ``axis``."""


@tile_operation
def max(
    x: TileLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    flush_to_zero: bool = False,
    propagate_nan: bool = False,
) -> Tile:
    """The largest element along ``axis``. NaN is skipped unless ``propagate_nan``."""


@tile_operation
def min(
    x: TileLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    flush_to_zero: bool = False,
    propagate_nan: bool = False,
) -> Tile:
    """The smallest element along ``axis``. NaN is skipped unless ``propagate_nan``."""


@tile_operation
def argmax(x: TileLike, /, axis: int | None = None, *, keepdims: bool = False, propagate_nan: bool = False) -> Tile:
    """The index of the largest element along ``axis`` (None: in the flattened tile), as int32; the first of equals."""


@tile_operation
def argmin(x: TileLike, /, axis: int | None = None, *, keepdims: bool = False, propagate_nan: bool = False) -> Tile:
    """The index of the smallest element along ``axis`` (None: in the flattened tile), as int32; the first of equals."""


@tile_operation
def reduce(x: Any, /, axis: int, func: Callable[..., Any], identity: Any, *, keepdims: bool = False) -> Any:
    """Folds a tile, or a tuple of tiles, along ``axis`` with ``func(left..., right...)`` on scalars."""


@tile_operation
def scan(x: Any, /, axis: int, func: Callable[..., Any], identity: Any, *, reverse: bool = False) -> Any:
    """Inclusive scan of a tile, or a tuple of tiles, along ``axis`` with ``func(left..., right...)`` on scalars."""


@tile_operation
def cumsum(
    x: TileLike,
    /,
    axis: int = 0,
    *,
    reverse: bool = False,
    rounding_mode: RoundingMode | str | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """The running sum along ``axis``."""


@tile_operation
def cumprod(
    x: TileLike,
    /,
    axis: int = 0,
    *,
    reverse: bool = False,
    rounding_mode: RoundingMode | str | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """The running product along ``axis``."""


@tile_operation
def mma(x: Tile, y: Tile, /, acc: Tile, *, use_fast_acc: bool = False) -> Tile:
    """x @ y + acc, of the dtype of ``acc``. Ranks of 2 and above; batch dimensions broadcast."""


@tile_operation
def matmul(x: Tile, y: Tile, /) -> Tile:
    """x @ y, promoted to a common dtype; ranks 1 and above as in NumPy."""


@tile_operation
def mma_scaled(x: Tile, x_scale: Tile, y: Tile, y_scale: Tile, /, acc: Tile) -> Tile:
    """(x * x_scale) @ (y * y_scale) + acc with one scale for a run of elements along K; ``acc`` is float32."""


@tile_operation
def printf(format: str, *args: Any) -> None:
    """Prints tiles by a C format string with conversions from ``diuoxXeEfFgGaA``."""


@tile_operation
def print(*args: Any, sep: str = " ", end: str = "\n") -> None:
    """Prints strings, f-strings, tiles, tuples and dataclasses; tiles as nested brackets."""


@tile_operation
def assert_(cond: TileLike, /, message: str | None = None) -> None:
    """Stops the kernel with ``message`` unless every element of the bool tile ``cond`` is true."""


@tile_operation
def foreign_pointer_dtype(pointee_dtype: Any) -> Any:
    """The dtype of opaque pointers to ``pointee_dtype``."""
