"""Elementwise arithmetic, comparison, bitwise and math operations (fact sheet 1.13, section 3).

Operands are tiles, scalars or numbers; they broadcast to a common shape and are promoted to a common dtype. In the
signatures ``Tile`` stands for all of these. Wrong dtypes or modes raise TileTypeError.
"""

from __future__ import annotations

from typing import Any, Union, overload

from tilewright.ir.enums import RoundingMode
from tilewright.language.array import Tile, TileLike
from tilewright.language.functions import evaluate, tile_operation

Mode = Union[RoundingMode, str, None]


@tile_operation
def add(x: TileLike, y: TileLike, /, *, rounding_mode: Mode = None, flush_to_zero: bool = False) -> Tile:
    """x + y. Floats round by ``rounding_mode`` (RN, RZ, RM or RP); ``flush_to_zero`` is for float32. Integers wrap."""


@tile_operation
def sub(x: TileLike, y: TileLike, /, *, rounding_mode: Mode = None, flush_to_zero: bool = False) -> Tile:
    """x - y, with the modes of ``add``."""


@tile_operation
def mul(x: TileLike, y: TileLike, /, *, rounding_mode: Mode = None, flush_to_zero: bool = False) -> Tile:
    """x * y, with the modes of ``add``."""


@tile_operation
def truediv(x: TileLike, y: TileLike, /, *, rounding_mode: Mode = None, flush_to_zero: bool = False) -> Tile:
    """x / y; integers give float32. The modes of ``add``, and FULL and APPROX for float32."""


@tile_operation
def floordiv(x: TileLike, y: TileLike, /) -> Tile:
    """x / y rounded towards negative infinity, for integers and floats."""


@tile_operation
def mod(x: TileLike, y: TileLike, /) -> Tile:
    """x - y * floor(x / y): the result has the sign of the divisor."""


@tile_operation
def pow(x: TileLike, y: TileLike, /) -> Tile:
    """x ** y for floats. A float base with an integer exponent keeps the dtype of the base."""


@tile_operation
def divmod(x: TileLike, y: TileLike, /) -> tuple[Tile, Tile]:
    """(x // y, x % y) for integers."""


@overload
def cdiv(x: int, y: int, /) -> int: ...
@overload
def cdiv(x: Any, y: Any, /) -> Any: ...
def cdiv(x: Any, y: Any, /) -> Any:
    """x / y rounded towards positive infinity, for integers. Also works on the host, for grids."""
    if isinstance(x, Tile) or isinstance(y, Tile):
        return evaluate(cdiv, (x, y), {})
    return -(-x // y)


@tile_operation
def minimum(x: TileLike, y: TileLike, /, *, flush_to_zero: bool = False, propagate_nan: bool = False) -> Tile:
    """The smaller of x and y; -0 < +0. A NaN operand is dropped unless ``propagate_nan``."""


@tile_operation
def maximum(x: TileLike, y: TileLike, /, *, flush_to_zero: bool = False, propagate_nan: bool = False) -> Tile:
    """The larger of x and y; -0 < +0. A NaN operand is dropped unless ``propagate_nan``."""


@tile_operation
def atan2(x1: TileLike, x2: TileLike, /) -> Tile:
    """The angle of the point (x2, x1), for floats."""


@tile_operation
def greater(x: TileLike, y: TileLike, /) -> Tile:
    """x > y as a bool tile."""


@tile_operation
def greater_equal(x: TileLike, y: TileLike, /) -> Tile:
    """x >= y as a bool tile."""


@tile_operation
def less(x: TileLike, y: TileLike, /) -> Tile:
    """x < y as a bool tile."""


@tile_operation
def less_equal(x: TileLike, y: TileLike, /) -> Tile:
    """x <= y as a bool tile."""


@tile_operation
def equal(x: TileLike, y: TileLike, /) -> Tile:
    """x == y as a bool tile."""


@tile_operation
def not_equal(x: TileLike, y: TileLike, /) -> Tile:
    """x != y as a bool tile; true where one of them is NaN."""


@tile_operation
def bitwise_and(x: TileLike, y: TileLike, /) -> Tile:
    """x & y, for bool and integers of one dtype."""


@tile_operation
def bitwise_or(x: TileLike, y: TileLike, /) -> Tile:
    """x | y, for bool and integers of one dtype."""


@tile_operation
def bitwise_xor(x: TileLike, y: TileLike, /) -> Tile:
    """x ^ y, for bool and integers of one dtype."""


@tile_operation
def bitwise_lshift(x: TileLike, y: TileLike, /) -> Tile:
    """x << y, for integers."""


@tile_operation
def bitwise_rshift(x: TileLike, y: TileLike, /) -> Tile:
    """x >> y, for integers; arithmetic when signed."""


@tile_operation
def bitwise_not(x: TileLike, /) -> Tile:
    """~x, for bool and integers."""


@tile_operation
def negative(x: TileLike, /) -> Tile:
    """-x; bool becomes int32."""


@tile_operation
def abs(x: TileLike, /) -> Tile:
    """|x|, of the same dtype."""


@tile_operation
def exp(x: TileLike, /, *, rounding_mode: Mode = None) -> Tile:
    """e ** x; bool and integers become float32. ``rounding_mode`` is FULL or APPROX."""


@tile_operation
def exp2(x: TileLike, /, *, flush_to_zero: bool = False) -> Tile:
    """2 ** x; bool and integers become float32."""


@tile_operation
def log(x: TileLike, /) -> Tile:
    """The natural logarithm; bool and integers become float32."""


@tile_operation
def log2(x: TileLike, /) -> Tile:
    """The logarithm to base 2; bool and integers become float32."""


@tile_operation
def sin(x: TileLike, /) -> Tile:
    """The sine; bool and integers become float32."""


@tile_operation
def cos(x: TileLike, /) -> Tile:
    """The cosine; bool and integers become float32."""


@tile_operation
def tan(x: TileLike, /) -> Tile:
    """The tangent; bool and integers become float32."""


@tile_operation
def sinh(x: TileLike, /) -> Tile:
    """The hyperbolic sine; bool and integers become float32."""


@tile_operation
def cosh(x: TileLike, /) -> Tile:
    """The hyperbolic cosine; bool and integers become float32."""


@tile_operation
def tanh(x: TileLike, /, *, rounding_mode: Mode = None) -> Tile:
    """The hyperbolic tangent; bool and integers become float32. ``rounding_mode`` is FULL or APPROX."""


@tile_operation
def sqrt(x: TileLike, /, *, rounding_mode: Mode = None, flush_to_zero: bool = False) -> Tile:
    """The square root; bool and integers become float32. The modes of ``add``, and APPROX for float32."""


@tile_operation
def rsqrt(x: TileLike, /, *, flush_to_zero: bool = False) -> Tile:
    """1 / sqrt(x); bool and integers become float32."""


@tile_operation
def floor(x: TileLike, /) -> Tile:
    """The largest integers not above x, for float tiles."""


@tile_operation
def ceil(x: TileLike, /) -> Tile:
    """The smallest integers not below x, for float tiles."""


@tile_operation
def isnan(x: TileLike, /) -> Tile:
    """True where x is NaN, for float tiles."""


@tile_operation
def where(cond: TileLike, x: TileLike, y: TileLike, /) -> Tile:
    """x where ``cond`` is not zero, y elsewhere; x and y are promoted to a common dtype, all three broadcast."""
