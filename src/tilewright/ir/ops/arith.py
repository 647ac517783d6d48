"""Elementwise arithmetic, bitwise and comparison ops.

Operands have equal types: broadcasts and conversions are ops of their own. ``tilewright.ir.semantics`` holds
their meaning on arrays. Sections 2.2 to 2.5 of the C++ reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeGuard

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, bool_
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.opdef import IRError, attribute, define, operand
from tilewright.ir.ops import rules
from tilewright.ir.ops.shape import constant_of, is_constant
from tilewright.ir.types import PointerType, TileType, Type

if TYPE_CHECKING:
    from tilewright.ir.builder import Builder

RN, FULL, APPROX = RoundingMode.RN, RoundingMode.FULL, RoundingMode.APPROX


def operand_dtype(op: Op) -> DType:
    """The dtype that an elementwise op computes in: of what it combines, not of the condition of a ``select``."""
    return operand_tile(op).element


def operand_tile(op: Op) -> TileType:
    """The type of the tiles that an elementwise op combines."""
    return op.operands[-1].tile


def rounding_of(op: Op) -> RoundingMode:
    """The rounding mode of ``op``; to nearest where it has none."""
    return op.attributes.get("rounding", RN)


def flushes_to_zero(op: Op) -> bool:
    """Whether ``op`` takes and gives subnormal numbers as zero."""
    return bool(op.attributes.get("flush_to_zero"))


def is_plain(op: Op) -> bool:
    """Whether ``op`` rounds to nearest, and keeps subnormal numbers."""
    return rounding_of(op) is RN and not flushes_to_zero(op)


def _integer(op: Op) -> bool:
    return not operand_dtype(op).is_floating


class Elementwise(Op):
    """Shared type rule: operands of one type, whose dtype the op ``takes``, give a result of the same type."""

    lacks = "has no arithmetic"  # what is said of other dtypes

    def takes(self, dtype: DType) -> bool:
        return dtype.is_arithmetic

    def infer(self) -> tuple[Type, ...]:
        dtype = rules.numeric(self, *self.operands)
        if not self.takes(dtype):
            raise IRError(f"{self.name}: {dtype} {self.lacks}")
        if dtype.short != "f32" and flushes_to_zero(self):
            raise IRError(f"{self.name}: flush_to_zero is not available for {dtype}")
        return (self.operands[0].type,)


class _Rounded(Elementwise):
    """Shared: a rounding mode that the op takes, flush-to-zero for float32 only."""

    rounding: RoundingMode = attribute(RoundingMode, default=RN)
    flush_to_zero: bool = attribute(bool, default=False)
    float_modes = rules.IEEE_MODES
    integer_modes: tuple[RoundingMode, ...] = (RN,)
    f32_modes: tuple[RoundingMode, ...] = ()

    def infer(self) -> tuple[Type, ...]:
        found = super().infer()
        dtype, mode = operand_dtype(self), self.rounding
        modes = self.float_modes if dtype.is_float else self.integer_modes
        if dtype.short == "f32":
            modes = modes + self.f32_modes
        if mode not in modes:
            raise IRError(f"{self.name}: rounding mode {mode.name} is not available for {dtype}")
        return found


class _Wrapping(_Rounded, rules.Binary):
    """Shared by the ops whose integers wrap, unless ``no_signed_wrap`` promises that signed results fit."""

    no_signed_wrap: bool = attribute(bool, default=False)


@define("add", elementwise=True)
class Add(_Wrapping):
    """lhs + rhs. Integers wrap; floats round by ``rounding``.

    ``no_signed_wrap`` promises that signed results fit.
    """

    def canonicalize(self, builder: Builder) -> Value | None:
        lhs, rhs = self.lhs, self.rhs
        if flushes_to_zero(self):
            return None
        # x + -0.0 is x for every x in rounding to nearest; x + 0.0 is not, for x = -0.0.
        zero = 0 if _integer(self) else -0.0
        if not _integer(self) and self.rounding is not RN:
            return None
        if is_constant(rhs, zero):
            return lhs
        return rhs if is_constant(lhs, zero) else self._less(builder)

    def _less(self, builder: Builder) -> Value | None:
        """The addition of a negative constant as the subtraction that people write; C++ compilers do the reverse."""
        t, number = self.result.tile, constant_of(self.rhs)
        if not _integer(self) or number is None or not t.element.min < number < 0:
            return None
        positive = builder.constant(-number, t.dtype, t.shape)
        return builder.emit(Sub, self.lhs, positive, no_signed_wrap=self.no_signed_wrap)


@define("sub", elementwise=True)
class Sub(_Wrapping):
    """lhs - rhs. Integers wrap; floats round by ``rounding``.

    ``no_signed_wrap`` promises that signed results fit.
    """

    def canonicalize(self, builder: Builder) -> Value | None:
        lhs, rhs = self.lhs, self.rhs
        if _integer(self):
            if lhs is rhs:
                return builder.constant(0, self.result.tile.element, self.result.tile.shape)
            return lhs if is_constant(rhs, 0) else None
        exact = self.rounding is RN and not flushes_to_zero(self)
        return lhs if exact and is_constant(rhs, 0.0) else None


@define("mul", elementwise=True)
class Mul(_Wrapping):
    """lhs * rhs. Integers wrap; floats round by ``rounding``.

    ``no_signed_wrap`` promises that signed results fit.
    """

    def canonicalize(self, builder: Builder) -> Value | None:
        lhs, rhs = self.lhs, self.rhs
        if flushes_to_zero(self):
            return None
        if _integer(self) and (is_constant(lhs, 0) or is_constant(rhs, 0)):
            return lhs if is_constant(lhs, 0) else rhs
        return lhs if is_constant(rhs, 1) else rhs if is_constant(lhs, 1) else None


@define("div", elementwise=True)
class Div(_Rounded, rules.Binary):
    """lhs / rhs. For integers ``rounding`` is RZ (C), RM (floor) or RP (ceiling) and a zero divisor gives 0.

    For float32, FULL and APPROX may deviate from the correctly rounded quotient by a few ulp.
    """

    integer_modes = rules.INTEGER_DIV_MODES
    f32_modes = (FULL, APPROX)

    def canonicalize(self, builder: Builder) -> Value | None:
        return self.lhs if is_constant(self.rhs, 1) and not flushes_to_zero(self) else None


@define("rem", elementwise=True)
class Rem(Elementwise, rules.Binary):
    """lhs - rhs * q, where q is lhs / rhs rounded to an integer by ``rounding``: RZ (C), RM (Python) or RP.

    Exact for floats. An integer remainder by zero is 0.
    """

    rounding: RoundingMode = attribute(RoundingMode, default=RoundingMode.RZ)

    def infer(self) -> tuple[Type, ...]:
        rules.require(
            self.rounding in rules.INTEGER_DIV_MODES, self, f"rounding mode {self.rounding.name} is not available"
        )
        return super().infer()

    def canonicalize(self, builder: Builder) -> Value | None:
        t = self.result.tile
        return builder.constant(0, t.dtype, t.shape) if _integer(self) and is_constant(self.rhs, 1) else None


@define("fma", elementwise=True)
class Fma(_Rounded):
    """a * b + c with one rounding, floats only."""

    a: Value = operand()
    b: Value = operand()
    c: Value = operand()

    integer_modes = ()


@define("sqrt", elementwise=True)
class Sqrt(_Rounded, rules.Unary):
    """Square root of a float, correctly rounded; APPROX (float32) may deviate by a few ulp."""

    integer_modes = ()
    f32_modes = (APPROX,)


class _Signed(Elementwise, rules.Unary):
    """Shared: of the most negative integer ``no_signed_wrap`` promises that it is none."""

    no_signed_wrap: bool = attribute(bool, default=False)

    def takes(self, dtype: DType) -> bool:
        return dtype.is_arithmetic and not dtype.is_bool


@define("neg", elementwise=True)
class Neg(_Signed):
    """-x. Integers wrap; floats flip the sign bit. ``no_signed_wrap`` as in ``add``."""


@define("abs", elementwise=True)
class Abs(_Signed):
    """|x|. The most negative integer stays itself; floats clear the sign bit. ``no_signed_wrap`` as in ``add``."""


class _OfIntegers(Elementwise, rules.Binary):
    """Shared: operands that are integers."""

    def takes(self, dtype: DType) -> bool:
        return dtype.is_integer


@define("mulhi", elementwise=True)
class MulHi(_OfIntegers):
    """The high half of the double-width product of the operands read as unsigned integers."""


class _MinMax(Elementwise, rules.Binary):
    """Shared by min and max, which also take bool. A NaN operand is dropped, or wins when ``propagate_nan``."""

    propagate_nan: bool = attribute(bool, default=False)
    flush_to_zero: bool = attribute(bool, default=False)

    def canonicalize(self, builder: Builder) -> Value | None:
        lhs, rhs = self.operands
        return lhs if lhs is rhs and _integer(self) else None


@define("max", elementwise=True)
class Max(_MinMax):
    """The larger operand; -0 < +0. A NaN operand is dropped, or wins when ``propagate_nan``."""

    def canonicalize(self, builder: Builder) -> Value | None:
        for x, other in (self.operands, reversed(self.operands)):
            if isinstance(other.op, Neg) and other.op.x is x and not _integer(self) and not self.flush_to_zero:
                return builder.emit(Abs, x)
        return super().canonicalize(builder)


@define("min", elementwise=True)
class Min(_MinMax):
    """The smaller operand; -0 < +0. A NaN operand is dropped, or wins when ``propagate_nan``."""


class _Bitwise(Elementwise):
    """Shared: operands that are bool or integers."""

    lacks = "has no bitwise operations"

    def takes(self, dtype: DType) -> bool:
        return dtype.is_bool or dtype.is_integer


class _Idempotent(_Bitwise, rules.Binary):
    """Shared: x with x is x. Of the bits 0 and 1, one absorbs the other operand, and the other one gives it."""

    absorbing: ClassVar[int]

    def canonicalize(self, builder: Builder) -> Value | None:
        lhs, rhs = self.operands
        if lhs is rhs:
            return lhs
        for x, y in ((lhs, rhs), (rhs, lhs)):
            for bit in (0, 1) if self.result.tile.element.is_bool else (0,):
                if is_constant(y, bit):
                    return y if bit == self.absorbing else x
        return None


@define("and", elementwise=True)
class And(_Idempotent):
    """Bitwise and."""

    absorbing = 0


@define("or", elementwise=True)
class Or(_Idempotent):
    """Bitwise or."""

    absorbing = 1


@define("xor", elementwise=True)
class Xor(_Bitwise, rules.Binary):
    """Bitwise exclusive or."""

    def canonicalize(self, builder: Builder) -> Value | None:
        lhs, rhs = self.lhs, self.rhs
        t = self.result.tile
        if lhs is rhs:
            return builder.constant(False if t.element.is_bool else 0, t.dtype, t.shape)
        return lhs if is_constant(rhs, 0) else rhs if is_constant(lhs, 0) else None


@define("not", elementwise=True)
class Not(_Bitwise, rules.Unary):
    """Bitwise complement; logical not for bool."""

    def canonicalize(self, builder: Builder) -> Value | None:
        inner = self.x.op
        return inner.x if isinstance(inner, Not) else None


class _Shift(_OfIntegers):
    """Shared: a shift by 0 is none."""

    def canonicalize(self, builder: Builder) -> Value | None:
        lhs, rhs = self.operands
        return lhs if is_constant(rhs, 0) else None


@define("shl", elementwise=True)
class Shl(_Shift):
    """lhs shifted left by rhs read as unsigned; 0 when rhs is not less than the width."""

    def canonicalize(self, builder: Builder) -> Value | None:
        """A shift by a constant as the multiplication that people write; C++ compilers do the reverse."""
        t, count = self.result.tile, constant_of(self.rhs)
        if count is None or count <= 0 or 1 << min(count, 64) > t.element.max:
            return super().canonicalize(builder)
        return builder.emit(Mul, self.lhs, builder.constant(1 << count, t.dtype, t.shape))


@define("shr", elementwise=True)
class Shr(_Shift):
    """lhs shifted right by rhs read as unsigned, arithmetically when signed.

    An over-wide count leaves only sign bits.
    """


@define("cmp", elementwise=True)
class Cmp(rules.Binary):
    """Compares numbers or pointers. With a NaN operand only NE is true."""

    predicate: CmpPredicate = attribute(CmpPredicate)

    def infer(self) -> tuple[Type, ...]:
        return (rules.same_tiles(self, self.lhs, self.rhs).with_dtype(bool_),)

    def canonicalize(self, builder: Builder) -> Value | None:
        lhs, rhs = self.lhs, self.rhs
        if lhs is not rhs or lhs.tile.is_pointer or lhs.tile.element.is_floating:
            return None
        equal = self.predicate in (CmpPredicate.EQ, CmpPredicate.LE, CmpPredicate.GE)
        return builder.constant(equal, self.result.tile.dtype, self.result.tile.shape)


@define("select", elementwise=True)
class Select(Op):
    """x where the condition is true, y elsewhere."""

    condition: Value = operand()
    x: Value = operand()
    y: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        t = rules.same_tiles(self, self.x, self.y)
        rules.bool_like(self, self.condition, t)
        return (t,)

    def canonicalize(self, builder: Builder) -> Value | None:
        known = constant_of(self.condition)
        if known is not None:
            return self.x if known else self.y
        return self.x if self.x is self.y else None


@define("cast", elementwise=True)
class Cast(rules.Unary):
    """Numeric conversion to ``dtype``.

    Integers wrap or extend; float to integer truncates, saturating, and NaN gives 0; anything to bool tests for
    non-zero; to a float rounds by ``rounding``. ``saturating`` says that the program relies on what becomes of NaN and
    of floats that the integer type cannot hold, which are undefined behaviour elsewhere.
    """

    dtype: DType = attribute(DType)
    rounding: RoundingMode = attribute(RoundingMode, default=RN)
    saturating: bool = attribute(bool, default=False)

    def infer(self) -> tuple[Type, ...]:
        rules.numeric(self, self.x)
        return (rules.tile(self, self.x).with_dtype(self.dtype),)

    def canonicalize(self, builder: Builder) -> Value | None:
        return self.x if self.result.type == self.x.type else None


def keeps_integers(op: Op | None) -> TypeGuard[Cast]:
    """Whether ``op`` is a conversion whose result has every integer that its operand can be."""
    if not isinstance(op, Cast):
        return False
    source, dtype = op.x.tile.element, op.dtype
    return source.is_integer and dtype.is_integer and dtype.min <= source.min and source.max <= dtype.max


@define("bitcast", elementwise=True)
class Bitcast(rules.Unary):
    """The bits of ``x`` read as ``dtype``, which has the same width; also between pointer types."""

    dtype: DType | PointerType = attribute(DType, PointerType)

    def infer(self) -> tuple[Type, ...]:
        t = rules.tile(self, self.x)
        rules.require(_width(t.dtype) == _width(self.dtype), self, f"{t.dtype} and {self.dtype} differ in width")
        return (t.with_dtype(self.dtype),)

    def canonicalize(self, builder: Builder) -> Value | None:
        return self.x if self.result.type == self.x.type else None


def _width(dtype: DType | PointerType) -> int:
    return 64 if isinstance(dtype, PointerType) else dtype.bitwidth
