"""Elementwise arithmetic, bitwise, comparison and math ops.

Operands have equal types: broadcasts and conversions are ops of their own. ``tilewright.ir.semantics`` holds
their meaning on arrays. Sections 2.2 to 2.5 of the C++ reference.
"""

from __future__ import annotations

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, bool_
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.opdef import attribute, define, operand
from tilewright.ir.ops.rules import IEEE_MODES, INTEGER_DIV_MODES, bool_like, numeric, require, same_tiles, tile
from tilewright.ir.types import PointerType, TileType, Type

RN, FULL, APPROX = RoundingMode.RN, RoundingMode.FULL, RoundingMode.APPROX


def operand_dtype(op: Op) -> DType:
    """The dtype that an elementwise op computes in: of what it combines, not of the condition of a ``select``."""
    return operand_tile(op).element


def operand_tile(op: Op) -> TileType:
    """The type of the tiles that an elementwise op combines."""
    return op.operands[-1].tile


def rounding_of(op: Op) -> RoundingMode:
    """The rounding mode of ``op``; to nearest where it has none."""
    mode: RoundingMode = op.attributes.get("rounding", RN)
    return mode


def flushes_to_zero(op: Op) -> bool:
    """Whether ``op`` takes and gives subnormal numbers as zero."""
    return bool(op.attributes.get("flush_to_zero"))


def is_plain(op: Op) -> bool:
    """Whether ``op`` rounds to nearest, and keeps subnormal numbers."""
    return rounding_of(op) is RN and not flushes_to_zero(op)


class _Rounded(Op):
    """Shared type rule: arithmetic dtype, a rounding mode that it takes, flush-to-zero for float32 only."""

    __slots__ = ()
    float_modes = IEEE_MODES
    integer_modes: tuple[RoundingMode, ...] = (RN,)
    f32_modes: tuple[RoundingMode, ...] = ()

    def infer(self) -> tuple[Type, ...]:
        dtype = numeric(self, *self.operands)
        require(dtype.is_arithmetic, self, f"{dtype} has no arithmetic")
        mode = self.attributes["rounding"]
        modes = self.float_modes if dtype.is_float else self.integer_modes
        if dtype.short == "f32":
            modes = modes + self.f32_modes
        require(mode in modes, self, f"rounding mode {mode.name} is not available for {dtype}")
        check_ftz(self, dtype)
        return (self.operands[0].type,)


def check_ftz(op: Op, dtype: DType) -> None:
    flushes = op.attributes["flush_to_zero"]
    require(not flushes or dtype.short == "f32", op, f"flush_to_zero is not available for {dtype}")


@define("add", elementwise=True)
class Add(_Rounded):
    """lhs + rhs. Integers wrap; floats round by ``rounding``.

    ``no_signed_wrap`` promises that signed results fit.
    """

    lhs: Value = operand()
    rhs: Value = operand()
    rounding: RoundingMode = attribute(RoundingMode, default=RN)
    flush_to_zero: bool = attribute(bool, default=False)
    no_signed_wrap: bool = attribute(bool, default=False)


@define("sub", elementwise=True)
class Sub(_Rounded):
    """lhs - rhs. Integers wrap; floats round by ``rounding``.

    ``no_signed_wrap`` promises that signed results fit.
    """

    lhs: Value = operand()
    rhs: Value = operand()
    rounding: RoundingMode = attribute(RoundingMode, default=RN)
    flush_to_zero: bool = attribute(bool, default=False)
    no_signed_wrap: bool = attribute(bool, default=False)


@define("mul", elementwise=True)
class Mul(_Rounded):
    """lhs * rhs. Integers wrap; floats round by ``rounding``.

    ``no_signed_wrap`` promises that signed results fit.
    """

    lhs: Value = operand()
    rhs: Value = operand()
    rounding: RoundingMode = attribute(RoundingMode, default=RN)
    flush_to_zero: bool = attribute(bool, default=False)
    no_signed_wrap: bool = attribute(bool, default=False)


@define("div", elementwise=True)
class Div(_Rounded):
    """lhs / rhs. For integers ``rounding`` is RZ (C), RM (floor) or RP (ceiling) and a zero divisor gives 0.

    For float32, FULL and APPROX may deviate from the correctly rounded quotient by a few ulp.
    """

    lhs: Value = operand()
    rhs: Value = operand()
    rounding: RoundingMode = attribute(RoundingMode, default=RN)
    flush_to_zero: bool = attribute(bool, default=False)

    integer_modes = INTEGER_DIV_MODES
    f32_modes = (FULL, APPROX)


@define("rem", elementwise=True)
class Rem(Op):
    """lhs - rhs * q, where q is lhs / rhs rounded to an integer by ``rounding``: RZ (C), RM (Python) or RP.

    Exact for floats. An integer remainder by zero is 0.
    """

    lhs: Value = operand()
    rhs: Value = operand()
    rounding: RoundingMode = attribute(RoundingMode, default=RoundingMode.RZ)

    def infer(self) -> tuple[Type, ...]:
        dtype = numeric(self, self.lhs, self.rhs)
        require(dtype.is_arithmetic, self, f"{dtype} has no arithmetic")
        require(self.rounding in INTEGER_DIV_MODES, self, f"rounding mode {self.rounding.name} is not available")
        return (self.lhs.type,)


@define("fma", elementwise=True)
class Fma(_Rounded):
    """a * b + c with one rounding, floats only."""

    a: Value = operand()
    b: Value = operand()
    c: Value = operand()
    rounding: RoundingMode = attribute(RoundingMode, default=RN)
    flush_to_zero: bool = attribute(bool, default=False)

    integer_modes = ()


@define("sqrt", elementwise=True)
class Sqrt(_Rounded):
    """Square root of a float, correctly rounded; APPROX (float32) may deviate by a few ulp."""

    x: Value = operand()
    rounding: RoundingMode = attribute(RoundingMode, default=RN)
    flush_to_zero: bool = attribute(bool, default=False)

    integer_modes = ()
    f32_modes = (APPROX,)


class _Arithmetic(Op):
    """Shared type rule: operands of one arithmetic dtype give a result of the same type."""

    __slots__ = ()

    def infer(self) -> tuple[Type, ...]:
        dtype = numeric(self, *self.operands)
        require(dtype.is_arithmetic and not dtype.is_bool, self, f"{dtype} has no arithmetic")
        if "flush_to_zero" in self.attributes:
            check_ftz(self, dtype)
        return (self.operands[0].type,)


@define("neg", elementwise=True)
class Neg(_Arithmetic):
    """-x. Integers wrap; floats flip the sign bit. ``no_signed_wrap`` as in ``add``."""

    x: Value = operand()
    no_signed_wrap: bool = attribute(bool, default=False)


@define("abs", elementwise=True)
class Abs(_Arithmetic):
    """|x|. The most negative integer stays itself; floats clear the sign bit. ``no_signed_wrap`` as in ``add``."""

    x: Value = operand()
    no_signed_wrap: bool = attribute(bool, default=False)


@define("mulhi", elementwise=True)
class MulHi(Op):
    """The high half of the double-width product of the operands read as unsigned integers."""

    lhs: Value = operand()
    rhs: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        require(numeric(self, self.lhs, self.rhs).is_integer, self, "operands must be integers")
        return (self.lhs.type,)


class _MinMax(Op):
    """Shared type rule of min and max, which also take bool."""

    __slots__ = ()

    def infer(self) -> tuple[Type, ...]:
        dtype = numeric(self, *self.operands)
        require(dtype.is_arithmetic, self, f"{dtype} has no arithmetic")
        check_ftz(self, dtype)
        return (self.operands[0].type,)


@define("max", elementwise=True)
class Max(_MinMax):
    """The larger operand; -0 < +0. A NaN operand is dropped, or wins when ``propagate_nan``."""

    lhs: Value = operand()
    rhs: Value = operand()
    propagate_nan: bool = attribute(bool, default=False)
    flush_to_zero: bool = attribute(bool, default=False)


@define("min", elementwise=True)
class Min(_MinMax):
    """The smaller operand; -0 < +0. A NaN operand is dropped, or wins when ``propagate_nan``."""

    lhs: Value = operand()
    rhs: Value = operand()
    propagate_nan: bool = attribute(bool, default=False)
    flush_to_zero: bool = attribute(bool, default=False)


class _FloatMath(Op):
    """Shared type rule: float operands of one type give a result of the same type."""

    __slots__ = ()

    def infer(self) -> tuple[Type, ...]:
        dtype = numeric(self, *self.operands)
        require(dtype.is_float, self, f"{dtype} is not a floating-point type with arithmetic")
        if "flush_to_zero" in self.attributes:
            check_ftz(self, dtype)
        return (self.operands[0].type,)


@define("pow", elementwise=True)
class Pow(_FloatMath):
    """base ** exponent, with the special cases of C's ``pow``."""

    lhs: Value = operand()
    rhs: Value = operand()


@define("atan2", elementwise=True)
class Atan2(_FloatMath):
    """The angle of the point (rhs, lhs), with the special cases of C's ``atan2``."""

    lhs: Value = operand()
    rhs: Value = operand()


@define("exp", elementwise=True)
class Exp(_FloatMath):
    """e ** x. ``rounding`` is FULL or APPROX."""

    x: Value = operand()
    rounding: RoundingMode = attribute(RoundingMode, default=FULL)


@define("exp2", elementwise=True)
class Exp2(_FloatMath):
    """2 ** x."""

    x: Value = operand()
    flush_to_zero: bool = attribute(bool, default=False)


@define("log", elementwise=True)
class Log(_FloatMath):
    """The natural logarithm."""

    x: Value = operand()


@define("log2", elementwise=True)
class Log2(_FloatMath):
    """The logarithm to base 2."""

    x: Value = operand()


@define("sin", elementwise=True)
class Sin(_FloatMath):
    """The sine of an angle in radians."""

    x: Value = operand()


@define("cos", elementwise=True)
class Cos(_FloatMath):
    """The cosine of an angle in radians."""

    x: Value = operand()


@define("tan", elementwise=True)
class Tan(_FloatMath):
    """The tangent of an angle in radians."""

    x: Value = operand()


@define("sinh", elementwise=True)
class Sinh(_FloatMath):
    """The hyperbolic sine."""

    x: Value = operand()


@define("cosh", elementwise=True)
class Cosh(_FloatMath):
    """The hyperbolic cosine."""

    x: Value = operand()


@define("tanh", elementwise=True)
class Tanh(_FloatMath):
    """The hyperbolic tangent. ``rounding`` is FULL or APPROX."""

    x: Value = operand()
    rounding: RoundingMode = attribute(RoundingMode, default=FULL)


@define("rsqrt", elementwise=True)
class Rsqrt(_FloatMath):
    """1 / sqrt(x)."""

    x: Value = operand()
    flush_to_zero: bool = attribute(bool, default=False)


@define("floor", elementwise=True)
class Floor(_FloatMath):
    """The largest integer that is not above x."""

    x: Value = operand()


@define("ceil", elementwise=True)
class Ceil(_FloatMath):
    """The smallest integer that is not below x."""

    x: Value = operand()


class _FloatTest(Op):
    """Shared type rule: a float tile gives a bool tile."""

    __slots__ = ()

    def infer(self) -> tuple[Type, ...]:
        dtype = numeric(self, *self.operands)
        require(dtype.is_float, self, f"{dtype} is not a floating-point type with arithmetic")
        return (tile(self, self.operands[0]).with_dtype(bool_),)


@define("isnan", elementwise=True)
class IsNan(_FloatTest):
    """True where x is not a number."""

    x: Value = operand()


@define("isinf", elementwise=True)
class IsInf(_FloatTest):
    """True where x is positive or negative infinity."""

    x: Value = operand()


class _Bitwise(Op):
    """Shared type rule: bool or integer operands of one type."""

    __slots__ = ()

    def infer(self) -> tuple[Type, ...]:
        dtype = numeric(self, *self.operands)
        require(dtype.is_bool or dtype.is_integer, self, f"{dtype} has no bitwise operations")
        return (self.operands[0].type,)


@define("and", elementwise=True)
class And(_Bitwise):
    """Bitwise and."""

    lhs: Value = operand()
    rhs: Value = operand()


@define("or", elementwise=True)
class Or(_Bitwise):
    """Bitwise or."""

    lhs: Value = operand()
    rhs: Value = operand()


@define("xor", elementwise=True)
class Xor(_Bitwise):
    """Bitwise exclusive or."""

    lhs: Value = operand()
    rhs: Value = operand()


@define("not", elementwise=True)
class Not(_Bitwise):
    """Bitwise complement; logical not for bool."""

    x: Value = operand()


class _Shift(Op):
    """Shared type rule: integer operands of one type."""

    __slots__ = ()

    def infer(self) -> tuple[Type, ...]:
        require(numeric(self, *self.operands).is_integer, self, "operands must be integers")
        return (self.operands[0].type,)


@define("shl", elementwise=True)
class Shl(_Shift):
    """lhs shifted left by rhs read as unsigned; 0 when rhs is not less than the width."""

    lhs: Value = operand()
    rhs: Value = operand()


@define("shr", elementwise=True)
class Shr(_Shift):
    """lhs shifted right by rhs read as unsigned, arithmetically when signed.

    An over-wide count leaves only sign bits.
    """

    lhs: Value = operand()
    rhs: Value = operand()


@define("cmp", elementwise=True)
class Cmp(Op):
    """Compares numbers or pointers. With a NaN operand only NE is true."""

    lhs: Value = operand()
    rhs: Value = operand()
    predicate: CmpPredicate = attribute(CmpPredicate)

    def infer(self) -> tuple[Type, ...]:
        return (same_tiles(self, self.lhs, self.rhs).with_dtype(bool_),)


@define("select", elementwise=True)
class Select(Op):
    """x where the condition is true, y elsewhere."""

    condition: Value = operand()
    x: Value = operand()
    y: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        t = same_tiles(self, self.x, self.y)
        bool_like(self, self.condition, t)
        return (t,)


@define("cast", elementwise=True)
class Cast(Op):
    """Numeric conversion to ``dtype``.

    Integers wrap or extend; float to integer truncates, saturating, and NaN gives 0; anything to bool tests for
    non-zero; to a float rounds by ``rounding``. ``saturating`` says that the program relies on what becomes of NaN and
    of floats that the integer type cannot hold, which are undefined behaviour elsewhere.
    """

    x: Value = operand()
    dtype: DType = attribute(DType)
    rounding: RoundingMode = attribute(RoundingMode, default=RN)
    saturating: bool = attribute(bool, default=False)

    def infer(self) -> tuple[Type, ...]:
        numeric(self, self.x)
        return (tile(self, self.x).with_dtype(self.dtype),)


@define("bitcast", elementwise=True)
class Bitcast(Op):
    """The same bits read as ``dtype``, which has the same width; also between pointer types."""

    x: Value = operand()
    dtype: DType | PointerType = attribute(DType, PointerType)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        require(_width(t.dtype) == _width(self.dtype), self, f"{t.dtype} and {self.dtype} differ in width")
        return (t.with_dtype(self.dtype),)


def _width(dtype: DType | PointerType) -> int:
    return 64 if isinstance(dtype, PointerType) else dtype.bitwidth
