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
