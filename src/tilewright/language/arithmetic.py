"""Elementwise arithmetic, comparison, bitwise and math operations.

Operands are tiles, scalars or numbers; they broadcast to a common shape and are promoted to a common dtype. In the
signatures ``Tile`` stands for all of these. Wrong dtypes or modes raise TileTypeError.
"""

from __future__ import annotations

from typing import Any, Union, overload

from tilewright.ir.enums import RoundingMode
from tilewright.language.array import Tile, TileLike
from tilewright.language.functions import evaluate, tile_operation

__all__ = [
    "abs", "add", "atan2", "bitwise_and", "bitwise_lshift", "bitwise_not", "bitwise_or", "bitwise_rshift",
    "bitwise_xor", "cdiv", "ceil", "cos", "cosh", "divmod", "equal", "exp", "exp2", "floor", "floordiv", "greater",
    "greater_equal", "isnan", "less", "less_equal", "log", "log2", "maximum", "minimum", "mod", "mul", "negative",
    "not_equal", "pow", "rsqrt", "sin", "sinh", "sqrt", "sub", "tan", "tanh", "truediv", "where",
]  # fmt: skip

Mode = Union[RoundingMode, str, None]


@tile_operation
def add(x: TileLike, y: TileLike, /, *, rounding_mode: Mode = None, flush_to_zero: bool = False) -> Tile:
    """x + y. Floats round by ``rounding_mode`` (RN, RZ, RM or RP); ``flush_to_zero`` is for float32. Integers wrap.

    >>> ct.add(ct.arange(4, dtype=ct.int32), 10)
    Tile([10, 11, 12, 13], dtype=int32)
    >>> ct.full((2,), 1, ct.float32) + ct.full((2,), 1e-10, ct.float64)
    Tile([1., 1.], dtype=float64)
    """


@tile_operation
def sub(x: TileLike, y: TileLike, /, *, rounding_mode: Mode = None, flush_to_zero: bool = False) -> Tile:
    """x - y, with the modes of ``add``.

    >>> ct.sub(10, ct.arange(4, dtype=ct.int32))
    Tile([10,  9,  8,  7], dtype=int32)
    """


@tile_operation
def mul(x: TileLike, y: TileLike, /, *, rounding_mode: Mode = None, flush_to_zero: bool = False) -> Tile:
    """x * y, with the modes of ``add``.

    >>> ct.mul(ct.arange(4, dtype=ct.int8), 100)
    Tile([  0, 100, -56,  44], dtype=int8)
    """


@tile_operation
def truediv(x: TileLike, y: TileLike, /, *, rounding_mode: Mode = None, flush_to_zero: bool = False) -> Tile:
    """x / y; integers give float32. The modes of ``add``, and FULL and APPROX for float32.

    >>> ct.truediv(ct.arange(4, dtype=ct.int32), 2)
    Tile([0. , 0.5, 1. , 1.5], dtype=float32)
    >>> ct.truediv(ct.float32(1), 3, rounding_mode=ct.RoundingMode.RZ)
    Tile(0.3333333, dtype=float32)
    """


@tile_operation
def floordiv(x: TileLike, y: TileLike, /) -> Tile:
    """x / y rounded towards negative infinity, for integers and floats.

    >>> ct.floordiv(ct.arange(4, dtype=ct.int32, start=-2), 2)
    Tile([-1, -1,  0,  0], dtype=int32)
    """


@tile_operation
def mod(x: TileLike, y: TileLike, /) -> Tile:
    """x - y * floor(x / y): the result has the sign of the divisor.

    >>> ct.mod(ct.arange(4, dtype=ct.int32, start=-2), 3)
    Tile([1, 2, 0, 1], dtype=int32)
    """


@tile_operation
def pow(x: TileLike, y: TileLike, /) -> Tile:
    """x ** y for floats. A float base with an integer exponent keeps the dtype of the base.

    >>> ct.pow(ct.arange(4, dtype=ct.float32), 2)
    Tile([0., 1., 4., 9.], dtype=float32)
    """


@tile_operation
def divmod(x: TileLike, y: TileLike, /) -> tuple[Tile, Tile]:
    """(x // y, x % y) for integers.

    >>> ct.divmod(ct.arange(4, dtype=ct.int32, start=-2), 3)
    (Tile([-1, -1,  0,  0], dtype=int32), Tile([1, 2, 0, 1], dtype=int32))
    """


@overload
def cdiv(x: int, y: int, /) -> int: ...
@overload
def cdiv(x: Any, y: Any, /) -> Any: ...
def cdiv(x: Any, y: Any, /) -> Any:
    """x / y rounded towards positive infinity, for integers. Also works on the host, for grids.

    >>> ct.cdiv(10, 4)
    3
    """
    if isinstance(x, Tile) or isinstance(y, Tile):
        return evaluate(cdiv, (x, y), {})
    try:
        return -(-x // y)
    except TypeError:
        raise TypeError(f"cdiv({x!r}, {y!r}): both must be numbers") from None


@tile_operation
def minimum(x: TileLike, y: TileLike, /, *, flush_to_zero: bool = False, propagate_nan: bool = False) -> Tile:
    """The smaller of x and y; -0 < +0. A NaN operand is dropped unless ``propagate_nan``.

    >>> ct.minimum(ct.arange(4, dtype=ct.int32), 2)
    Tile([0, 1, 2, 2], dtype=int32)
    >>> ct.minimum(ct.float32(1), float('nan')), ct.minimum(ct.float32(1), float('nan'), propagate_nan=True)
    (Tile(1., dtype=float32), Tile(nan, dtype=float32))
    """


@tile_operation
def maximum(x: TileLike, y: TileLike, /, *, flush_to_zero: bool = False, propagate_nan: bool = False) -> Tile:
    """The larger of x and y; -0 < +0. A NaN operand is dropped unless ``propagate_nan``.

    >>> ct.maximum(ct.arange(4, dtype=ct.int32), 2)
    Tile([2, 2, 2, 3], dtype=int32)
    """


@tile_operation
def atan2(x1: TileLike, x2: TileLike, /) -> Tile:
    """The angle of the point (x2, x1), for floats.

    >>> ct.atan2(ct.ones((2,), ct.float32), -1.0)
    Tile([2.3561945, 2.3561945], dtype=float32)
    """


@tile_operation
def greater(x: TileLike, y: TileLike, /) -> Tile:
    """x > y as a bool tile.

    >>> ct.greater(ct.arange(4, dtype=ct.int32), 2)
    Tile([False, False, False,  True], dtype=bool_)
    """


@tile_operation
def greater_equal(x: TileLike, y: TileLike, /) -> Tile:
    """x >= y as a bool tile.

    >>> ct.greater_equal(ct.arange(4, dtype=ct.int32), 2)
    Tile([False, False,  True,  True], dtype=bool_)
    """


@tile_operation
def less(x: TileLike, y: TileLike, /) -> Tile:
    """x < y as a bool tile.

    >>> ct.less(ct.arange(4, dtype=ct.int32), 2)
    Tile([ True,  True, False, False], dtype=bool_)
    """


@tile_operation
def less_equal(x: TileLike, y: TileLike, /) -> Tile:
    """x <= y as a bool tile.

    >>> ct.less_equal(ct.arange(4, dtype=ct.int32), 2)
    Tile([ True,  True,  True, False], dtype=bool_)
    """


@tile_operation
def equal(x: TileLike, y: TileLike, /) -> Tile:
    """x == y as a bool tile.

    >>> ct.equal(ct.arange(4, dtype=ct.int32), 2)
    Tile([False, False,  True, False], dtype=bool_)
    """


@tile_operation
def not_equal(x: TileLike, y: TileLike, /) -> Tile:
    """x != y as a bool tile; true where one of them is NaN.

    >>> ct.not_equal(ct.arange(4, dtype=ct.int32), 2)
    Tile([ True,  True, False,  True], dtype=bool_)
    """


@tile_operation
def bitwise_and(x: TileLike, y: TileLike, /) -> Tile:
    """x & y, for bool and integers of one dtype.

    >>> ct.bitwise_and(ct.arange(4, dtype=ct.int32), 2)
    Tile([0, 0, 2, 2], dtype=int32)
    """


@tile_operation
def bitwise_or(x: TileLike, y: TileLike, /) -> Tile:
    """x | y, for bool and integers of one dtype.

    >>> ct.bitwise_or(ct.arange(4, dtype=ct.int32), 2)
    Tile([2, 3, 2, 3], dtype=int32)
    """


@tile_operation
def bitwise_xor(x: TileLike, y: TileLike, /) -> Tile:
    """x ^ y, for bool and integers of one dtype.

    >>> ct.bitwise_xor(ct.arange(4, dtype=ct.int32), 2)
    Tile([2, 3, 0, 1], dtype=int32)
    """


@tile_operation
def bitwise_lshift(x: TileLike, y: TileLike, /) -> Tile:
    """x << y, for integers.

    >>> ct.bitwise_lshift(ct.arange(4, dtype=ct.int32), 4)
    Tile([ 0, 16, 32, 48], dtype=int32)
    """


@tile_operation
def bitwise_rshift(x: TileLike, y: TileLike, /) -> Tile:
    """x >> y, for integers; arithmetic when signed.

    >>> ct.bitwise_rshift(ct.arange(4, dtype=ct.int32, start=-2), 1)
    Tile([-1, -1,  0,  0], dtype=int32)
    """


@tile_operation
def bitwise_not(x: TileLike, /) -> Tile:
    """~x, for bool and integers.

    >>> ct.bitwise_not(ct.arange(4, dtype=ct.int32))
    Tile([-1, -2, -3, -4], dtype=int32)
    """


@tile_operation
def negative(x: TileLike, /) -> Tile:
    """-x; bool becomes int32.

    >>> ct.negative(ct.arange(4, dtype=ct.int32))
    Tile([ 0, -1, -2, -3], dtype=int32)
    """


@tile_operation
def abs(x: TileLike, /) -> Tile:
    """|x|, of the same dtype.

    >>> ct.abs(ct.arange(4, dtype=ct.int32, start=-2))
    Tile([2, 1, 0, 1], dtype=int32)
    """


@tile_operation
def exp(x: TileLike, /, *, rounding_mode: Mode = None) -> Tile:
    """e ** x; bool and integers become float32. ``rounding_mode`` is FULL or APPROX.

    >>> ct.exp(ct.arange(4, dtype=ct.float32))
    Tile([ 1.       ,  2.7182817,  7.389056 , 20.085537 ], dtype=float32)
    """


@tile_operation
def exp2(x: TileLike, /, *, flush_to_zero: bool = False) -> Tile:
    """2 ** x; bool and integers become float32.

    >>> ct.exp2(ct.arange(4, dtype=ct.float32))
    Tile([1., 2., 4., 8.], dtype=float32)
    """


@tile_operation
def log(x: TileLike, /) -> Tile:
    """The natural logarithm; bool and integers become float32.

    >>> ct.log(ct.arange(4, dtype=ct.float32, start=1))
    Tile([0.       , 0.6931472, 1.0986123, 1.3862944], dtype=float32)
    """


@tile_operation
def log2(x: TileLike, /) -> Tile:
    """The logarithm to base 2; bool and integers become float32.

    >>> ct.log2(ct.arange(4, dtype=ct.float32, start=1))
    Tile([0.       , 1.       , 1.5849625, 2.       ], dtype=float32)
    """


@tile_operation
def sin(x: TileLike, /) -> Tile:
    """The sine; bool and integers become float32.

    >>> ct.sin(ct.arange(4, dtype=ct.float32))
    Tile([0.        , 0.84147096, 0.9092974 , 0.14112   ], dtype=float32)
    """


@tile_operation
def cos(x: TileLike, /) -> Tile:
    """The cosine; bool and integers become float32.

    >>> ct.cos(ct.arange(4, dtype=ct.float32))
    Tile([ 1.        ,  0.5403023 , -0.41614684, -0.9899925 ], dtype=float32)
    """


@tile_operation
def tan(x: TileLike, /) -> Tile:
    """The tangent; bool and integers become float32.

    >>> ct.tan(ct.arange(4, dtype=ct.float32))
    Tile([ 0.        ,  1.5574077 , -2.1850398 , -0.14254655], dtype=float32)
    """


@tile_operation
def sinh(x: TileLike, /) -> Tile:
    """The hyperbolic sine; bool and integers become float32.

    >>> ct.sinh(ct.arange(4, dtype=ct.float32))
    Tile([ 0.       ,  1.1752012,  3.6268604, 10.017875 ], dtype=float32)
    """


@tile_operation
def cosh(x: TileLike, /) -> Tile:
    """The hyperbolic cosine; bool and integers become float32.

    >>> ct.cosh(ct.arange(4, dtype=ct.float32))
    Tile([ 1.       ,  1.5430807,  3.7621956, 10.067662 ], dtype=float32)
    """


@tile_operation
def tanh(x: TileLike, /, *, rounding_mode: Mode = None) -> Tile:
    """The hyperbolic tangent; bool and integers become float32. ``rounding_mode`` is FULL or APPROX.

    >>> ct.tanh(ct.arange(4, dtype=ct.float32))
    Tile([0.       , 0.7615942, 0.9640276, 0.9950548], dtype=float32)
    """


@tile_operation
def sqrt(x: TileLike, /, *, rounding_mode: Mode = None, flush_to_zero: bool = False) -> Tile:
    """The square root; bool and integers become float32. The modes of ``add``, and APPROX for float32.

    >>> ct.sqrt(ct.arange(4, dtype=ct.float32, start=1))
    Tile([1.       , 1.4142135, 1.7320508, 2.       ], dtype=float32)
    """


@tile_operation
def rsqrt(x: TileLike, /, *, flush_to_zero: bool = False) -> Tile:
    """1 / sqrt(x); bool and integers become float32.

    >>> ct.rsqrt(ct.arange(4, dtype=ct.float32, start=1))
    Tile([1.        , 0.70710677, 0.57735026, 0.5       ], dtype=float32)
    """


@tile_operation
def floor(x: TileLike, /) -> Tile:
    """The largest integers not above x, for float tiles.

    >>> ct.floor(ct.full((2,), -1.5, ct.float32))
    Tile([-2., -2.], dtype=float32)
    """


@tile_operation
def ceil(x: TileLike, /) -> Tile:
    """The smallest integers not below x, for float tiles.

    >>> ct.ceil(ct.full((2,), -1.5, ct.float32))
    Tile([-1., -1.], dtype=float32)
    """


@tile_operation
def isnan(x: TileLike, /) -> Tile:
    """True where x is NaN, for float tiles.

    >>> ct.isnan(ct.full((2,), float('nan'), ct.float32))
    Tile([ True,  True], dtype=bool_)
    """


@tile_operation
def where(cond: TileLike, x: TileLike, y: TileLike, /) -> Tile:
    """x where ``cond`` is not zero, y elsewhere; x and y are promoted to a common dtype, all three broadcast.

    >>> ct.where(ct.arange(4, dtype=ct.int32) < 2, 1.0, 0.0)
    Tile([1., 1., 0., 0.], dtype=float32)
    """
