"""Elementwise ops on scalars: what a thread does with one element. ``RULES`` maps each op class to what emits it,
``PREPARED`` the frequent ones to what gives that, of which most is known before the elements are.

Operands hold elements as ``backends.vector`` says, floats of 16 and fewer bits as float32 values, but integers of 8
and 16 bits as ``integers`` says. The formulas are those of that package, but where PTX has an instruction: for rounding
modes, flushing of subnormal numbers, minimum and maximum, and approximate functions where the op or its stated accuracy
allows them. LLVM contracts nothing: what it writes says ``.rn``, which ptxas leaves alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from tilewright.analysis.gpu.clamps import is_maximum_of_numbers, selected_maximum
from tilewright.analysis.precision import is_summed_or_narrowed
from tilewright.backends.gpu.lowering.assembly import (
    EXP,
    EXP2,
    EXP_OF_SUMS,
    F16,
    F32,
    F64,
    I16,
    I32,
    I64,
    TANH,
    assembly,
    name_of_extremum,
)
from tilewright.backends.gpu.lowering.integers import extended, is_narrow, widened, wrapped
from tilewright.backends.gpu.lowering.patterns import flipped, inputs, is_integer, is_zero, opcode, widened_factors
from tilewright.backends.vector import HostFeatures, VectorEmitter, register_type
from tilewright.backends.vector.convert import BFLOAT
from tilewright.backends.vector.logic import SYMBOLS
from tilewright.backends.vector.request import ElementOp
from tilewright.backends.vector.types import Number, resized
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType, float32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.ops import arith, floats
from tilewright.ir.ops.gpu.tiles import ThreadReduce
from tilewright.ir.ops.shape import IntToPtr, PtrDiff, PtrOffset, PtrToInt
from tilewright.ir.types import ElementType, PointerType

Operands = Sequence[ir.Value]
FP8_CONVERSIONS = 89  # the compute capability from which on there are instructions for 8-bit floats
FEATURES = HostFeatures(fma=True, half=True, bfloat_rounding=True, total_division=True)
# Instructions of LLVM for float32.
_PLAIN: dict[type[Op], str] = {arith.Add: "fadd", arith.Sub: "fsub", arith.Mul: "fmul", arith.Neg: "fneg"}
# Results that may leave the range of narrow integers, in registers of 32 bits.
_LEAVE_RANGE = (arith.Add, arith.Sub, arith.Mul, arith.Fma, arith.Neg, arith.Abs, arith.Not, arith.Shl, arith.Div)
_LOG2_E = math.log2(math.e)


class ScalarEmitter:
    """Emits elementwise ops at the position of ``builder``."""

    def __init__(self, builder: ir.IRBuilder, capability: int = 80) -> None:
        self.builder = builder
        self.converts_fp8 = capability >= FP8_CONVERSIONS
        self.vector = VectorEmitter(builder, None, FEATURES)
        self._latest: tuple[Any, Any] = None, None  # an op, as ``vector`` takes it

    def of(self, op: Op) -> Callable[[Operands], ir.Value]:
        """What gives an element of the result of ``op`` for those of its operands; what does not differ among elements
        is found once. TileUnsupportedFeatureError, at the op, for one that is not elementwise."""
        if self.is_instruction(op):
            instruction = getattr(self.builder, _PLAIN[type(op)])
            return lambda operands: instruction(*operands)
        prepare = PREPARED.get(type(op))
        rule = prepare(self, op) if prepare else functools.partial(RULES.get(type(op), _unsupported), self, op)
        if isinstance(op, _LEAVE_RANGE) and is_narrow(dtype := op.result.tile.dtype):
            return lambda operands: extended(self.builder, rule(operands), dtype)
        return rule

    def is_instruction(self, op: Op) -> bool:
        """Whether ``op`` is one instruction of LLVM, on float32."""
        return type(op) in _PLAIN and arith.operand_dtype(op) is float32 and arith.is_plain(op)

    def constant(self, dtype: ElementType, value: Number) -> ir.Constant:
        """``value`` as a register of ``dtype``: integers wrap, floats are rounded to nearest, ties to even."""
        return self.vector.constant(widened(dtype), wrapped(dtype, int(value)) if is_narrow(dtype) else value)

    def to_register(self, dtype: ElementType, stored: ir.Value) -> ir.Value:
        """The register form of ``stored``, a value of ``storage_type(dtype)``."""
        return extended(self.builder, stored, dtype) if is_narrow(dtype) else self.vector.to_register(dtype, stored)

    def to_storage(self, dtype: ElementType, register: ir.Value) -> ir.Value:
        """The memory form of ``register``, a register of ``dtype``."""
        if is_narrow(dtype):
            return self.builder.trunc(register, ir.IntType(dtype.bitwidth))
        return self.vector.to_storage(dtype, register)

    def shared(self, op: Op, operands: Operands) -> ir.Value:
        """By the formula that all processors have in common."""
        if self._latest[0] is not op:
            element, result = widened(arith.operand_tile(op).dtype), widened(op.result.tile.dtype)
            self._latest = op, ElementOp(op.name, element, result, op.attributes)
        return self.vector.emit_op(self._latest[1], operands)

    def circular_fast_path(self, op: floats.Sin | floats.Cos, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The sine or cosine of ``x``, a float of 32 or fewer bits, and whether the angle is too large for it."""
        found, large = self.vector.circular_fast_path(op.name, x)
        return _rounded(self, found, arith.operand_dtype(op)), large

    def asm(self, text: str, operands: Operands, result: ir.Type) -> ir.Value:
        """The result of one instruction without effects."""
        return assembly(self.builder, text, [result], operands)[0]

    def instruction(self, name: str, operands: Operands) -> ir.Value:
        """The instruction ``name`` on float32 or float64 operands, with a result of their type."""
        kind = operands[0].type
        return self.asm(_text(name, "f64" if kind == F64 else "f32", len(operands)), operands, kind)


@functools.cache
def _text(name: str, kind: str, operands: int) -> str:
    return f"{name}.{kind} {', '.join(f'${i}' for i in range(operands + 1))};"


Emit = Callable[[Operands], ir.Value]
Rule = Callable[[ScalarEmitter, Any, Operands], ir.Value]


def _unsupported(e: ScalarEmitter, op: Op, operands: Operands) -> ir.Value:
    raise TileUnsupportedFeatureError(
        f"the gpu backend has no code for {op.name}; use the triton backend (TILEWRIGHT_BACKEND=triton)", op.loc
    )


def _shared(e: ScalarEmitter, op: Op, operands: Operands) -> ir.Value:
    return e.shared(op, operands)


# -- arithmetic


def _arithmetic(
    e: ScalarEmitter, op: arith.Add | arith.Sub | arith.Mul | arith.Div | arith.Sqrt | arith.Fma, operands: Operands
) -> ir.Value:
    dtype = arith.operand_dtype(op)
    if not dtype.is_float or arith.is_plain(op):
        return e.shared(op, operands)
    mode = arith.rounding_of(op)
    if dtype.bitwidth == 16:
        return e.shared(op, operands)
    ftz = ".ftz" if arith.flushes_to_zero(op) else ""
    return e.instruction(f"{op.name}.{mode.name.lower()}{ftz}", operands)


def _fma(e: ScalarEmitter, op: arith.Fma) -> Emit:
    dtype = arith.operand_dtype(op)
    if dtype is float32 and arith.is_plain(op):
        return functools.partial(e.builder.intrinsic, "llvm.fma.f32", F32)
    if dtype.bitwidth != 16 or not arith.is_plain(op):
        return functools.partial(_arithmetic, e, op)
    return functools.partial(_narrow_fma, e, dtype)


def _narrow_fma(e: ScalarEmitter, dtype: DType, operands: Operands) -> ir.Value:
    narrow = F16 if dtype.short == "f16" else BFLOAT
    bits = [e.builder.bitcast(e.builder.fptrunc(x, narrow), I16) for x in operands]
    found = e.asm(f"fma.rn.{dtype.short} $0, $1, $2, $3;", bits, I16)
    return e.builder.fpext(e.builder.bitcast(found, narrow), F32)


def _mulhi(e: ScalarEmitter, op: arith.MulHi, operands: Operands) -> ir.Value:
    dtype, b = arith.operand_dtype(op), e.builder
    if is_narrow(dtype):
        mask = ir.Constant(I32, (1 << dtype.bitwidth) - 1)
        product = b.mul(*(b.and_(x, mask) for x in operands))
        return extended(b, b.lshr(product, ir.Constant(I32, dtype.bitwidth)), dtype)
    return e.asm(f"mul.hi.u{dtype.bitwidth} $0, $1, $2;", operands, operands[0].type)


def _add(e: ScalarEmitter, op: arith.Add, operands: Operands) -> ir.Value:
    """A sum; ~x + 1 is -x, before LLVM finds out."""
    for x, y in (operands, operands[::-1]):
        if is_integer(y, 1) and (before := flipped(x)) is not None:
            return _negated(e, before)
    return _arithmetic(e, op, operands)


def _sub(e: ScalarEmitter, op: arith.Sub, operands: Operands) -> ir.Value:
    """A difference, of which LLVM must not make an absolute value: of (x ^ s) - s where s is all of the sign of x."""
    x, y = operands
    if is_integer(x, 0):
        return _negated(e, y)
    if isinstance(x.type, ir.IntType) and opcode(x) == "xor" and y in x.operands:
        return _in_hardware(e, "sub", operands)
    return _arithmetic(e, op, operands)


def _not(e: ScalarEmitter, op: arith.Not, operands: Operands) -> ir.Value:
    """The complement; ~(x - 1) is -x, before LLVM finds out."""
    (x,) = operands
    if (kind := opcode(x)) in ("add", "sub"):
        before, step = inputs(x)
        if is_integer(step, -1 if kind == "add" else 1):
            return _negated(e, before)
    return e.shared(op, operands)


def _mul(e: ScalarEmitter, op: arith.Mul, operands: Operands) -> ir.Value:
    """A product, of which LLVM must not make an absolute value: of x and the 1 or -1 that has its sign."""
    for x, y in (operands, operands[::-1]):
        if is_integer(x, -1):
            return _negated(e, y)
        if opcode(x) == "or" and x.type.width > 1 and any(is_integer(v, 1) for v in x.operands):
            return _in_hardware(e, "mul.lo", operands)
    if operands[0].type == I64 and (factors := widened_factors(operands)) is not None:
        # LLVM without optimization multiplies 64 bits, of which ptxas leaves more instructions.
        return e.asm(f"mul.wide.{factors[0]}32 $0, $1, $2;", factors[1], I64)
    return _arithmetic(e, op, operands)


def _in_hardware(e: ScalarEmitter, name: str, operands: Operands) -> ir.Value:
    """An instruction on integers that LLVM does not look into."""
    type_ = operands[0].type
    return e.asm(f"{name}.s{type_.width} $0, $1, $2;", operands, type_)


def _neg(e: ScalarEmitter, op: arith.Neg, operands: Operands) -> ir.Value:
    (x,) = operands
    return e.builder.fneg(x) if arith.operand_dtype(op).is_float else _negated(e, x)


def _negated(e: ScalarEmitter, x: ir.Value) -> ir.Value:
    """-x, which LLVM does not look into."""
    return e.asm(f"neg.s{x.type.width} $0, $1;", [x], x.type)


def _abs(e: ScalarEmitter, op: arith.Abs, operands: Operands) -> ir.Value:
    """By a comparison: ptxas takes what it knows as an absolute value for a number that is not negative."""
    (x,) = operands
    dtype = arith.operand_dtype(op)
    if not dtype.is_signed or dtype.is_float:
        return e.shared(op, operands)
    width = x.type.width
    text = f"{{ .reg .pred negative; .reg .b{width} negated; neg.s{width} negated, $1; "
    text += f"setp.lt.s{width} negative, $1, 0; selp.b{width} $0, negated, $1, negative; }}"
    return e.asm(text, operands, x.type)


def _extremum(e: ScalarEmitter, op: arith.Max | arith.Min) -> Emit:
    dtype = arith.operand_dtype(op)
    if dtype.is_bool:
        return lambda operands: (e.builder.or_ if isinstance(op, arith.Max) else e.builder.and_)(*operands)
    if not dtype.is_floating:
        return functools.partial(_integer_extremum, e, op)
    if dtype.short == "f64":
        return functools.partial(_extremum_of_doubles, e, op)
    return functools.partial(e.instruction, name_of_extremum(op))


def _integer_extremum(e: ScalarEmitter, op: arith.Max | arith.Min, operands: Operands) -> ir.Value:
    x = operands[0]
    kind = "s" if arith.operand_dtype(op).is_signed else "u"
    return e.asm(f"{op.name}.{kind}{x.type.width} $0, $1, $2;", operands, x.type)


def _extremum_of_doubles(e: ScalarEmitter, op: arith.Max | arith.Min, operands: Operands) -> ir.Value:
    """There is no form that propagates NaN."""
    x, y = operands
    if isinstance(op, arith.Max) and is_maximum_of_numbers(op):  # of which ptxas makes a saturation after a minimum
        text = "{ .reg .pred less; setp.lt.f64 less, $1, $2; selp.f64 $0, $2, $1, less; }"
        found = e.asm(text, operands, F64)
        if not any(map(is_zero, operands)):
            return found
        return e.asm("add.rn.f64 $0, $1, 0d0000000000000000;", [found], F64)  # of two zeros the positive one
    found = e.instruction(op.name, operands)
    if not op.propagate_nan:
        return found
    either = e.builder.fcmp_unordered("uno", x, y)
    return e.builder.select(either, ir.Constant(F64, math.nan), found)


def _compare(e: ScalarEmitter, op: arith.Cmp) -> Emit:
    dtype = arith.operand_tile(op).dtype
    if isinstance(dtype, PointerType) or not dtype.is_integer:
        return functools.partial(e.shared, op)
    compare, symbol = e.builder.icmp_signed if dtype.is_signed else e.builder.icmp_unsigned, SYMBOLS[op.predicate]
    return lambda operands: compare(symbol, *operands)


def _select(e: ScalarEmitter, op: arith.Select) -> Emit:
    """A selection that is a maximum of numbers with 0 is that one: see ``analysis.gpu.clamps``."""
    tile = op.x.tile
    if not tile.is_pointer and tile.element.is_float and tile.element.short != "f64":
        both = selected_maximum(op)
        if both is not None:
            first, second = (1 if v is op.x else 2 for v in both)
            return lambda operands: e.instruction("max.NaN", (operands[first], operands[second]))
    return functools.partial(_selection, e)


def _selection(e: ScalarEmitter, operands: Operands) -> ir.Value:
    condition, x, y = operands
    if isinstance(x.type, (ir.FloatType, ir.DoubleType)) and (is_zero(x) or is_zero(y)):
        # LLVM makes a maximum of some, which may give a zero of the other sign.
        bits = I32 if x.type == F32 else I64
        found = e.builder.select(condition, e.builder.bitcast(x, bits), e.builder.bitcast(y, bits))
        return e.builder.bitcast(found, x.type)
    return e.builder.select(*operands)


# -- conversions


# The instructions saturate: beyond what rounds to the largest number e4m3 has NaN, and e5m2 is infinite.
_TO_E4M3 = """{ .reg .b16 code, low, high; .reg .b32 both, magnitude, nan; .reg .pred beyond;
cvt.rn.satfinite.e4m3x2.f32 code, 0f00000000, $1;
cvt.rn.f16x2.e4m3x2 both, code; mov.b32 {low, high}, both; cvt.f32.f16 $0, low;
abs.f32 magnitude, $1; setp.gt.f32 beyond, magnitude, 0f43E80000;
and.b32 nan, $1, 0x80000000; or.b32 nan, nan, 0x7FC00000;
selp.f32 $0, nan, $0, beyond; }""".replace("\n", " ")
_TO_E5M2 = """{ .reg .b16 code, low, high; .reg .b32 both, magnitude, infinite; .reg .pred beyond;
cvt.rn.satfinite.e5m2x2.f32 code, 0f00000000, $1;
cvt.rn.f16x2.e5m2x2 both, code; mov.b32 {low, high}, both; cvt.f32.f16 $0, low;
abs.f32 magnitude, $1; setp.ge.f32 beyond, magnitude, 0f47700000;
and.b32 infinite, $1, 0x80000000; or.b32 infinite, infinite, 0x7F800000;
selp.f32 $0, infinite, $0, beyond; }""".replace("\n", " ")
_TO_FP8 = {"f8e4m3fn": _TO_E4M3, "f8e5m2": _TO_E5M2}


def _cast(e: ScalarEmitter, op: arith.Cast) -> Emit:
    source, target = op.x.tile.element, op.dtype
    if is_narrow(source) or is_narrow(target):
        return functools.partial(_narrow_cast, e, op, source, target)
    text = _TO_FP8.get(target.short) if e.converts_fp8 else None
    if source is not target and op.rounding in (None, RoundingMode.RN):
        if source is float32 and target.is_float and target.bitwidth == 16:
            return lambda operands: _rounded(e, operands[0], target)
        if text is not None and register_type(source) == F32:
            return lambda operands: e.asm(text, operands, F32)
    if target.short in ("i32", "u32") and register_type(source) == F32:
        return functools.partial(_to_integer, e, target)
    return functools.partial(e.shared, op)


def _to_integer(e: ScalarEmitter, target: DType, operands: Operands) -> ir.Value:
    """The float32 as an integer of up to 32 bits, saturated; 0 for NaN."""
    return e.asm(f"cvt.rzi.{'s' if target.is_signed else 'u'}{target.bitwidth}.f32 $0, $1;", operands, I32)


def _narrow_cast(e: ScalarEmitter, op: arith.Cast, source: DType, target: DType, operands: Operands) -> ir.Value:
    """From integers of 8 and 16 bits, all of which float32 holds, or to them, saturating from floats."""
    if target.is_floating and target.short not in ("f32", "f64"):
        number = e.vector.emit("cast", widened(source), operands, op.attributes, float32)
        return e.vector.emit("cast", float32, [number], {}, target)
    if register_type(source) == F32:
        return _to_integer(e, target, operands)
    found = e.vector.emit("cast", widened(source), operands, op.attributes, widened(target))
    if not is_narrow(target) or source.is_bool:
        return found
    if source.is_integer:
        within = target.min <= source.min and source.max <= target.max
        return found if within else extended(e.builder, found, target)
    kind = "s32" if target.is_signed else "u32"
    found = e.asm(f"min.{kind} $0, $1, $2;", [found, e.constant(target, target.max)], I32)
    return e.asm(f"max.{kind} $0, $1, $2;", [found, e.constant(target, target.min)], I32) if target.is_signed else found


# -- approximate functions


def _exp(e: ScalarEmitter, op: floats.Exp, operands: Operands) -> ir.Value:
    (x,) = operands
    dtype = arith.operand_dtype(op)
    if dtype.short == "f64":
        return e.shared(op, operands)
    if op.rounding is RoundingMode.APPROX and dtype.short == "f32":
        return e.asm(EXP2, [e.builder.fmul(x, ir.Constant(F32, _LOG2_E))], F32)
    text = EXP_OF_SUMS if dtype.short == "f32" and is_summed_or_narrowed(op.result, ThreadReduce) else EXP
    return _rounded(e, e.asm(text, operands, F32), dtype)


def _approximated(instruction: str, e: ScalarEmitter, op: Any, exact: str | None = None) -> Emit:
    """For an op that one instruction computes for floats of 32 bits and less, or approximates if that may be where the
    code ``exact`` computes it."""
    dtype = arith.operand_dtype(op)
    if dtype.short == "f64":
        return functools.partial(e.shared, op)
    text = f"{instruction}.approx{'.ftz' if arith.flushes_to_zero(op) else ''}.f32 $0, $1;"
    if instruction == "ex2" and not arith.flushes_to_zero(op):
        text = EXP2
    if exact is not None and not (dtype.short == "f32" and op.rounding is RoundingMode.APPROX):
        text = exact
    return lambda operands: _rounded(e, e.asm(text, operands, F32), dtype)


def _rounded(e: ScalarEmitter, x: ir.Value, dtype: DType) -> ir.Value:
    """A float32 result as a value of ``dtype``."""
    if dtype.bitwidth != 16:
        return x
    narrow = F16 if dtype.short == "f16" else BFLOAT
    return e.builder.fpext(e.builder.fptrunc(x, narrow), F32)


def _round_to_integer(e: ScalarEmitter, op: floats.Floor | floats.Ceil, operands: Operands) -> ir.Value:
    (x,) = operands
    kind = "f64" if x.type == F64 else "f32"
    return e.asm(f"cvt.{'rmi' if isinstance(op, floats.Floor) else 'rpi'}.{kind}.{kind} $0, $1;", operands, x.type)


# -- pointers, which are addresses


def pointee_bytes(dtype: ElementType) -> int:
    """How far apart the elements are that a pointer of ``dtype`` steps over; untyped ones count bytes."""
    assert isinstance(dtype, PointerType)
    return 1 if dtype.pointee is None else dtype.pointee.bytes


def _offset(e: ScalarEmitter, op: PtrOffset, operands: Operands) -> ir.Value:
    pointer, offset = operands
    distance = resized(e.builder, offset, I64, signed=op.offset.tile.element.is_signed)
    return e.builder.add(pointer, e.builder.mul(distance, ir.Constant(I64, pointee_bytes(op.ptr.tile.dtype))))


def _difference(e: ScalarEmitter, op: PtrDiff, operands: Operands) -> ir.Value:
    distance = e.builder.sub(*operands)
    found = e.builder.sdiv(distance, ir.Constant(I64, pointee_bytes(op.lhs.tile.dtype)))
    found = resized(e.builder, found, I32 if op.dtype.bitwidth < 64 else I64)
    return extended(e.builder, found, op.dtype) if is_narrow(op.dtype) else found


def _bitcast(e: ScalarEmitter, op: arith.Bitcast, operands: Operands) -> ir.Value:
    source, target = op.x.tile.dtype, op.dtype
    if isinstance(source, PointerType) or isinstance(target, PointerType):
        bits = operands[0] if isinstance(source, PointerType) else e.to_storage(source, operands[0])
        bits = e.builder.bitcast(bits, I64)
        return bits if isinstance(target, PointerType) else _from_bits(e, target, bits)
    stored, storage = e.to_storage(source, operands[0]), e.vector.storage_type(target)
    return e.to_register(target, e.builder.bitcast(stored, storage))


def _from_bits(e: ScalarEmitter, dtype: DType, bits: ir.Value) -> ir.Value:
    return e.vector.to_register(dtype, e.builder.bitcast(bits, F64) if dtype.is_floating else bits)


PREPARED: dict[type[Op], Callable[[ScalarEmitter, Any], Emit]] = {
    arith.Cast: _cast,
    arith.Fma: _fma,
    **dict.fromkeys((arith.Max, arith.Min), _extremum),
    arith.Cmp: _compare,
    arith.Select: _select,
    floats.Exp2: functools.partial(_approximated, "ex2"),
    floats.Rsqrt: functools.partial(_approximated, "rsqrt"),
    floats.Tanh: functools.partial(_approximated, "tanh", exact=TANH),
}
RULES: dict[type[Op], Rule] = {
    arith.Add: _add,
    arith.Not: _not,
    arith.Sub: _sub,
    arith.Mul: _mul,
    **dict.fromkeys((arith.Div, arith.Sqrt), _arithmetic),
    arith.MulHi: _mulhi,
    arith.Neg: _neg,
    arith.Abs: _abs,
    floats.Exp: _exp,
    **dict.fromkeys((floats.Floor, floats.Ceil), _round_to_integer),
    **dict.fromkeys((arith.Rem, arith.And, arith.Or, arith.Xor, arith.Shl, arith.Shr), _shared),
    **dict.fromkeys((floats.Log, floats.Log2, floats.Sin, floats.Cos, floats.Tan, floats.Sinh, floats.Cosh), _shared),
    **dict.fromkeys((floats.Pow, floats.Atan2, floats.IsNan, floats.IsInf), _shared),
    PtrOffset: _offset,
    PtrDiff: _difference,
    arith.Bitcast: _bitcast,
    **dict.fromkeys((PtrToInt, IntToPtr), lambda e, op, operands: operands[0]),
}
