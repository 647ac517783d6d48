"""PTX instructions as inline assembly, for what LLVM has no instruction for, or would change."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.analysis.gpu.clamps import is_maximum_of_numbers
from tilewright.backends.native.text_builder import TextBuilder
from tilewright.ir.dtypes import DType
from tilewright.ir.ops.arith import Max, Min

I1, I8, I16, I32, I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
VOID = ir.VoidType()
# By what types are called: integers of all widths have one hash.
_CONSTRAINTS = {"i1": "b", "i16": "h", "half": "h", "i32": "r", "i64": "l", "float": "f", "double": "d"}
_TYPES = {"i8": "s8", "i32": "s32", "f8e4m3fn": "e4m3", "f8e5m2": "e5m2"}  # of operands of MMA instructions
# What LLVM has as intrinsics, which it leaves alone: inline assembly takes its code generator twice as long.
_INTRINSICS = {
    "max.f32 $0, $1, $2;": "llvm.nvvm.fmax.f",
    "max.NaN.f32 $0, $1, $2;": "llvm.nvvm.fmax.nan.f",
    "min.f32 $0, $1, $2;": "llvm.nvvm.fmin.f",
    "min.NaN.f32 $0, $1, $2;": "llvm.nvvm.fmin.nan.f",
    "ex2.approx.ftz.f32 $0, $1;": "llvm.nvvm.ex2.approx.ftz.f",
    "div.approx.ftz.f32 $0, $1, $2;": "llvm.nvvm.div.approx.ftz.f",
}

# e**x = 2**n * 2**f with n the integer below x * log2(e), which a saturation keeps in -126 to 126, and f what is left:
# beyond, 2**f is 0 or infinite, or makes a subnormal number of the product. Adding 1.5 * 2**23 + 1 rounds to an
# integer, whose low bits are then n + 127.
EXP = """{ .reg .b32 scaled, shifted, n, f, power;
fma.rn.sat.f32 scaled, $1, 0f3BBB989D, 0f3F000000;
fma.rm.f32 shifted, scaled, 0f437C0000, 0f4B400001;
sub.rn.f32 n, shifted, 0f4B40007F; neg.f32 n, n;
fma.rn.f32 f, $1, 0f3FB8AA3B, n;
fma.rn.f32 f, $1, 0f32A57060, f;
ex2.approx.ftz.f32 f, f;
shl.b32 power, shifted, 23;
mul.rn.f32 $0, f, power; }""".replace("\n", " ")

# 2**x = 2**(x + 24 c) * (1 - c (1 - 2**-24)) with c = 1 below -126, where the result is subnormal, else 0: what ptxas
# makes of the instruction for that keeps a predicate over it, of which there are few, and so elements wait in turn.
EXP2 = """{ .reg .f32 c, t, s;
fma.rn.sat.f32 c, $1, 0fC9800000, 0fCCFC0000;
fma.rn.f32 t, c, 0f41C00000, $1; fma.rn.f32 s, c, 0fBF7FFFFF, 0f3F800000;
ex2.approx.ftz.f32 t, t; mul.rn.f32 $0, t, s; }""".replace("\n", " ")

# e**x = (2**t)**2 * (1 + d) with t about x * log2(e) / 2 and d what that lacks. The power is squared last, so that the
# result is subnormal where it has to be. With t rounded down, d is above zero where the power may be infinite, as the
# product of both factors is below 1. For an infinite x, d is no number, and is made 1.
EXP_OF_SUMS = """{ .reg .f32 t, d, power;
mul.rm.f32 t, $1, 0f3F38AA3B;
fma.rn.f32 d, t, 0fBFB17218, $1;
min.f32 d, d, 0f3F800000;
ex2.approx.ftz.f32 power, t;
fma.rn.f32 d, power, d, power;
mul.rn.f32 $0, power, d; }""".replace("\n", " ")


# 1 - 2 / (e**(2 |x|) + 1), and for small numbers the formula of ``backends.vector``. Where the power is infinite, its
# reciprocal is 0.
TANH = """{ .reg .b32 size, y, square, cube, q, sign; .reg .pred small;
abs.f32 size, $1; mul.rn.f32 y, size, 0f4038AA3B; ex2.approx.ftz.f32 y, y; add.rn.f32 y, y, 0f3F800000;
rcp.approx.ftz.f32 y, y; fma.rn.f32 y, y, 0fC0000000, 0f3F800000;
mul.rn.f32 square, size, size; mul.rn.f32 cube, size, square;
fma.rn.f32 q, square, 0fBBBAC8D8, 0f3CA90AB0; fma.rn.f32 q, square, q, 0fBD5C1CEA;
fma.rn.f32 q, square, q, 0f3E08838A; fma.rn.f32 q, square, q, 0fBEAAAA99; fma.rn.f32 q, cube, q, size;
setp.lt.f32 small, size, 0f3F200000; selp.f32 y, q, y, small;
and.b32 sign, $1, 0x80000000; xor.b32 $0, y, sign; }""".replace("\n", " ")


def constraint(type_: ir.Type) -> str:
    """The kind of register that holds a value of ``type_``."""
    return _CONSTRAINTS[str(type_)]


def type_name(dtype: DType) -> str:
    """How instructions for tensor cores name ``dtype``."""
    return _TYPES.get(dtype.short, dtype.short)


def operand_names(first: int, count: int) -> str:
    """So many operands of an instruction, from the ``first`` on, as one."""
    return "{" + ", ".join(f"${first + i}" for i in range(count)) + "}"


def name_of_extremum(op: Max | Min) -> str:
    """The instruction of floats of 16 or 32 bits, without their type."""
    # Of a maximum with 0 after a minimum with 1, ptxas makes a saturation, which gives 0 for NaN; not of this one.
    nan = op.propagate_nan or (isinstance(op, Max) and is_maximum_of_numbers(op))
    return f"{op.name}{'.ftz' if op.flush_to_zero else ''}{'.NaN' if nan else ''}"


def results_type(builder: TextBuilder, results: Sequence[ir.Type]) -> ir.Type:
    """The type of several results, which has a name in the module if they are of one type."""
    if any(t is not results[0] for t in results):
        return ir.LiteralStructType(results)
    named = builder.module.context.get_identified_type(f"{len(results)}.{results[0]}")
    if named.is_opaque:
        named.set_body(*results)
    return named


def assembly(
    builder: TextBuilder, text: str, results: Sequence[ir.Type], operands: Sequence[ir.Value], *, effects: bool = False
) -> list[ir.Value]:
    """The ``results`` of the PTX ``text``, in which ``$0``, ``$1``, ... are the results and then the operands.

    With ``effects`` it stays where it is, as often as it is, and memory changes; without, it is a function of the
    operands.
    """
    if (intrinsic := _INTRINSICS.get(text)) is not None:
        return [builder.intrinsic(intrinsic, results[0], operands)]
    early = "&" if text.count(";") > 1 else ""  # a result is written while operands are still to be read
    constraints = [f"={early}{_CONSTRAINTS[str(t)]}" for t in results] + [_CONSTRAINTS[str(v.type)] for v in operands]
    if effects:
        constraints.append("~{memory}")
    single = len(results) == 1
    type_ = VOID if not results else results[0] if single else results_type(builder, results)
    found = builder.assembly(type_, text, constraints, operands, effects=effects)
    if single:
        return [found]
    return [builder.extract_value(found, i) for i in range(len(results))]
