"""Elementwise functions of floats, and what tells them apart. Section 2.5 of the C++ reference."""

from __future__ import annotations

from tilewright.ir.dtypes import DType, bool_
from tilewright.ir.enums import RoundingMode
from tilewright.ir.opdef import attribute, define
from tilewright.ir.ops import rules
from tilewright.ir.ops.arith import FULL, Elementwise
from tilewright.ir.types import Type


class _OfFloats(Elementwise):
    """Shared: operands that are floats."""

    lacks = "is not a floating-point type with arithmetic"

    def takes(self, dtype: DType) -> bool:
        return dtype.is_float


class _FloatMath(_OfFloats, rules.Unary):
    """Shared by functions of one float."""


@define("pow", elementwise=True)
class Pow(_OfFloats, rules.Binary):
    """base ** exponent, with the special cases of C's ``pow``."""


@define("atan2", elementwise=True)
class Atan2(_OfFloats, rules.Binary):
    """The angle of the point (rhs, lhs), with the special cases of C's ``atan2``."""


@define("exp", elementwise=True)
class Exp(_FloatMath):
    """e ** x. ``rounding`` is FULL or APPROX."""

    rounding: RoundingMode = attribute(RoundingMode, default=FULL)


@define("exp2", elementwise=True)
class Exp2(_FloatMath):
    """2 ** x."""

    flush_to_zero: bool = attribute(bool, default=False)


@define("log", elementwise=True)
class Log(_FloatMath):
    """The natural logarithm."""


@define("log2", elementwise=True)
class Log2(_FloatMath):
    """The logarithm to base 2."""


@define("sin", elementwise=True)
class Sin(_FloatMath):
    """The sine of an angle in radians."""


@define("cos", elementwise=True)
class Cos(_FloatMath):
    """The cosine of an angle in radians."""


@define("tan", elementwise=True)
class Tan(_FloatMath):
    """The tangent of an angle in radians."""


@define("sinh", elementwise=True)
class Sinh(_FloatMath):
    """The hyperbolic sine."""


@define("cosh", elementwise=True)
class Cosh(_FloatMath):
    """The hyperbolic cosine."""


@define("tanh", elementwise=True)
class Tanh(_FloatMath):
    """The hyperbolic tangent. ``rounding`` is FULL or APPROX."""

    rounding: RoundingMode = attribute(RoundingMode, default=FULL)


@define("rsqrt", elementwise=True)
class Rsqrt(_FloatMath):
    """1 / sqrt(x)."""

    flush_to_zero: bool = attribute(bool, default=False)


@define("floor", elementwise=True)
class Floor(_FloatMath):
    """The largest integer that is not above x."""


@define("ceil", elementwise=True)
class Ceil(_FloatMath):
    """The smallest integer that is not below x."""


class _FloatTest(_FloatMath):
    """Shared: a float tile gives a bool tile."""

    def infer(self) -> tuple[Type, ...]:
        super().infer()
        return (rules.tile(self, self.x).with_dtype(bool_),)


@define("isnan", elementwise=True)
class IsNan(_FloatTest):
    """True where x is not a number."""


@define("isinf", elementwise=True)
class IsInf(_FloatTest):
    """True where x is positive or negative infinity."""
