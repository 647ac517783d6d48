"""Creating and rearranging tiles, reductions, scans and matmuls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

from tilewright.ir.enums import RoundingMode
from tilewright.language.array import Index, Shape, Tile, TileLike
from tilewright.language.functions import operation_like, tile_operation

__all__ = [
    "arange", "argmax", "argmin", "assert_", "astile", "astype", "bitcast", "broadcast_to", "cat", "cumprod",
    "cumsum", "expand_dims", "extract", "full", "insert", "matmul", "max", "min", "mma", "mma_scaled", "ones",
    "pack_to_bytes", "permute", "print", "printf", "prod", "reduce", "reshape", "scan", "sum", "transpose",
    "unpack_from_bytes", "zeros",
]  # fmt: skip

Axis = Union[int, tuple[int, ...], None]


@tile_operation
def arange(size: int, /, *, dtype: Any, start: TileLike = 0, step: TileLike = 1) -> Tile:
    """The 1-D tile start, start + step, ... of ``size`` elements, a power of two.

    >>> ct.arange(4, dtype=ct.int32)
    Tile([0, 1, 2, 3], dtype=int32)
    >>> ct.arange(4, dtype=ct.float32, start=1, step=0.5)
    Tile([1. , 1.5, 2. , 2.5], dtype=float32)
    """


@tile_operation
def full(shape: Shape, fill_value: TileLike, dtype: Any) -> Tile:
    """A tile of ``shape`` filled with a scalar, cast to ``dtype``.

    >>> ct.full((2, 2), 7, ct.int32)
    Tile([[7, 7],
          [7, 7]], dtype=int32)
    """


@tile_operation
def ones(shape: Shape, dtype: Any) -> Tile:
    """A tile of ones.

    >>> ct.ones((2,), ct.float32)
    Tile([1., 1.], dtype=float32)
    """


@tile_operation
def zeros(shape: Shape, dtype: Any) -> Tile:
    """A tile of zeros.

    >>> ct.zeros((2, 2), ct.int8)
    Tile([[0, 0],
          [0, 0]], dtype=int8)
    """


@tile_operation
def astile(value: Any, /, *, dtype: Any) -> Tile:
    """A scalar, or a nested tuple of scalars with power-of-two lengths, as a tile.

    >>> ct.astile(((1, 2), (3, 4)), dtype=ct.float32)
    Tile([[1., 2.],
          [3., 4.]], dtype=float32)
    """


@tile_operation
def reshape(x: TileLike, /, shape: tuple[int, ...]) -> Tile:
    """A tile of these elements in row-major order; one entry of ``shape`` may be -1.

    >>> ct.reshape(ct.arange(8, dtype=ct.int32), (2, -1))
    Tile([[0, 1, 2, 3],
          [4, 5, 6, 7]], dtype=int32)
    """


@tile_operation
def broadcast_to(x: TileLike, /, shape: tuple[int, ...]) -> Tile:
    """x repeated to ``shape`` by NumPy's broadcasting rules.

    >>> ct.broadcast_to(ct.arange(2, dtype=ct.int32), (2, 2))
    Tile([[0, 1],
          [0, 1]], dtype=int32)
    """


@tile_operation
def expand_dims(x: TileLike, /, axis: int) -> Tile:
    """x with an axis of length 1 inserted at ``axis``.

    >>> ct.expand_dims(ct.arange(4, dtype=ct.int32), 0)
    Tile([[0, 1, 2, 3]], dtype=int32)
    """


@tile_operation
def permute(x: TileLike, /, axes: tuple[int, ...]) -> Tile:
    """Axis k of the result is axis ``axes[k]`` of x.

    >>> ct.permute(ct.arange(8, dtype=ct.int32).reshape((1, 2, 4)), (1, 2, 0)).shape
    (2, 4, 1)
    """


@tile_operation
def transpose(x: TileLike, /, axis0: int | None = None, axis1: int | None = None) -> Tile:
    """x with two axes swapped; both must be named when the rank is above 2.

    >>> ct.transpose(ct.arange(4, dtype=ct.int32).reshape((2, 2)))
    Tile([[0, 2],
          [1, 3]], dtype=int32)
    """


@tile_operation
def cat(tiles: tuple[Tile, ...], /, axis: int) -> Tile:
    """One or two tiles of one dtype joined along ``axis``.

    >>> ct.cat((ct.arange(2, dtype=ct.int32), ct.zeros((2,), ct.int32)), 0)
    Tile([0, 1, 0, 0], dtype=int32)
    """


@tile_operation
def extract(x: TileLike, /, index: Index, shape: Shape) -> Tile:
    """The subtile at grid position ``index`` of x cut into tiles of ``shape``.

    >>> ct.extract(ct.arange(8, dtype=ct.int32), (1,), (4,))
    Tile([4, 5, 6, 7], dtype=int32)
    """


@tile_operation
def insert(x: TileLike, /, index: Index, value: TileLike) -> Tile:
    """x with the subtile at grid position ``index`` replaced by ``value``.

    >>> ct.insert(ct.arange(4, dtype=ct.int32), (1,), ct.full((2,), 9, ct.int32))
    Tile([0, 1, 9, 9], dtype=int32)
    """


@tile_operation
def astype(x: TileLike, dtype: Any, /, *, rounding_mode: RoundingMode | str | None = None) -> Tile:
    """x converted to ``dtype``. Integers wrap, float to integer truncates, to bool tests for non-zero.

    >>> ct.astype(ct.arange(4, dtype=ct.float32, step=0.6), ct.int32)
    Tile([0, 0, 1, 1], dtype=int32)
    >>> ct.astype(ct.float32(0.1), ct.float16, rounding_mode=ct.RoundingMode.RN)
    Tile(0.09997559, dtype=float16)
    """


@tile_operation
def bitcast(x: TileLike, /, dtype: Any) -> Tile:
    """The bits of x read as ``dtype``, which has the same width.

    >>> ct.bitcast(ct.ones((2,), ct.float32), ct.int32)
    Tile([1065353216, 1065353216], dtype=int32)
    """


@tile_operation
def pack_to_bytes(x: TileLike, /) -> Tile:
    """The bytes of x, row-major and little-endian, as a 1-D uint8 tile.

    >>> ct.pack_to_bytes(ct.arange(2, dtype=ct.int16, start=1))
    Tile([1, 0, 2, 0], dtype=uint8)
    """


@tile_operation
def unpack_from_bytes(x: TileLike, /, dtype: Any) -> Tile:
    """The inverse of ``pack_to_bytes``.

    >>> ct.unpack_from_bytes(ct.arange(4, dtype=ct.uint8), ct.int16)
    Tile([256, 770], dtype=int16)
    """


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
    """The sum along ``axis`` (None: of all elements). bool becomes int32, other dtypes are kept.

    >>> ct.sum(ct.arange(4, dtype=ct.int32, start=1))
    Tile(10, dtype=int32)
    >>> ct.sum(ct.arange(4, dtype=ct.int32, start=1).reshape((2, 2)), axis=1)
    Tile([3, 7], dtype=int32)
    """


@operation_like(sum)
def prod() -> None:
    """The product along ``axis``.

    >>> ct.prod(ct.arange(4, dtype=ct.int32, start=1))
    Tile(24, dtype=int32)
    >>> ct.prod(ct.arange(4, dtype=ct.int32, start=1).reshape((2, 2)), axis=1)
    Tile([ 2, 12], dtype=int32)
    """


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
    """The largest element along ``axis``. NaN is skipped unless ``propagate_nan``.

    >>> ct.max(ct.arange(4, dtype=ct.int32, start=1))
    Tile(4, dtype=int32)
    >>> ct.max(ct.arange(4, dtype=ct.int32, start=1).reshape((2, 2)), axis=1)
    Tile([2, 4], dtype=int32)
    """


@operation_like(max)
def min() -> None:
    """The smallest element along ``axis``. NaN is skipped unless ``propagate_nan``.

    >>> ct.min(ct.arange(4, dtype=ct.int32, start=1))
    Tile(1, dtype=int32)
    >>> ct.min(ct.arange(4, dtype=ct.int32, start=1).reshape((2, 2)), axis=1)
    Tile([1, 3], dtype=int32)
    """


@tile_operation
def argmax(x: TileLike, /, axis: int | None = None, *, keepdims: bool = False, propagate_nan: bool = False) -> Tile:
    """The index of the largest element along ``axis`` (None: in the flattened tile), as int32; the first of equals.

    >>> ct.argmax(ct.arange(4, dtype=ct.int32))
    Tile(3, dtype=int32)
    """


@tile_operation
def argmin(x: TileLike, /, axis: int | None = None, *, keepdims: bool = False, propagate_nan: bool = False) -> Tile:
    """The index of the smallest element along ``axis`` (None: in the flattened tile), as int32; the first of equals.

    >>> ct.argmin(ct.arange(4, dtype=ct.int32).reshape((2, 2)), axis=1)
    Tile([0, 0], dtype=int32)
    """


@tile_operation
def reduce(x: Any, /, axis: int, func: Callable[..., Any], identity: Any, *, keepdims: bool = False) -> Any:
    """Folds a tile, or a tuple of tiles, along ``axis`` with ``func(left..., right...)`` on scalars.

    >>> ct.reduce(ct.arange(4, dtype=ct.int32), 0, lambda a, b: a | b, 0)
    Tile(3, dtype=int32)
    """


@tile_operation
def scan(x: Any, /, axis: int, func: Callable[..., Any], identity: Any, *, reverse: bool = False) -> Any:
    """Inclusive scan of a tile, or a tuple of tiles, along ``axis`` with ``func(left..., right...)`` on scalars.

    >>> ct.scan(ct.arange(4, dtype=ct.int32), 0, lambda a, b: a | b, 0)
    Tile([0, 1, 3, 3], dtype=int32)
    """


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
    """The running sum along ``axis``.

    >>> ct.cumsum(ct.arange(4, dtype=ct.int32))
    Tile([0, 1, 3, 6], dtype=int32)
    >>> ct.cumsum(ct.arange(4, dtype=ct.int32), reverse=True)
    Tile([6, 6, 5, 3], dtype=int32)
    """


@operation_like(cumsum)
def cumprod() -> None:
    """The running product along ``axis``.

    >>> ct.cumprod(ct.arange(4, dtype=ct.int32, start=1))
    Tile([ 1,  2,  6, 24], dtype=int32)
    """


@tile_operation
def mma(x: Tile, y: Tile, /, acc: Tile, *, use_fast_acc: bool = False) -> Tile:
    """x @ y + acc, of the dtype of ``acc``. Ranks of 2 and above; batch dimensions broadcast.

    >>> ct.mma(ct.ones((2, 4), ct.float16), ct.ones((4, 2), ct.float16), ct.zeros((2, 2), ct.float32))
    Tile([[4., 4.],
          [4., 4.]], dtype=float32)
    """


@tile_operation
def matmul(x: Tile, y: Tile, /) -> Tile:
    """x @ y, promoted to a common dtype; ranks 1 and above as in NumPy.

    >>> ct.matmul(ct.arange(4, dtype=ct.float32).reshape((2, 2)), ct.ones((2, 2), ct.float32))
    Tile([[1., 1.],
          [5., 5.]], dtype=float32)
    """


@tile_operation
def mma_scaled(x: Tile, x_scale: Tile, y: Tile, y_scale: Tile, /, acc: Tile) -> Tile:
    """(x * x_scale) @ (y * y_scale) + acc with one scale for a run of elements along K; ``acc`` is float32.

    >>> one = ct.full((1, 1), 2.0, ct.float8_e8m0fnu)
    >>> x = ct.ones((1, 32), ct.float8_e4m3fn)
    >>> ct.mma_scaled(x, one, x.reshape((32, 1)), one, ct.zeros((1, 1), ct.float32))
    Tile([[128.]], dtype=float32)
    """


@tile_operation
def printf(format: str, *args: Any) -> None:
    """Prints tiles by a C format string with conversions from ``diuoxXeEfFgGaA``.

    >>> ct.printf('%d of %.1f\\n', ct.int32(3), ct.float32(4))
    3 of 4.0
    """


@tile_operation
def print(*args: Any, sep: str = " ", end: str = "\n") -> None:
    """Prints strings, f-strings, tiles, tuples and dataclasses; tiles as nested brackets.

    >>> ct.print('x =', ct.arange(4, dtype=ct.int32))
    x = [0, 1, 2, 3]
    """


@tile_operation
def assert_(cond: TileLike, /, message: str | None = None) -> None:
    """Stops the kernel with ``message`` unless every element of the bool tile ``cond`` is true.

    >>> ct.assert_(ct.arange(4, dtype=ct.int32) < 4, 'small')
    """
