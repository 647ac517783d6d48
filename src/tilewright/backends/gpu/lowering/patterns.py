"""What rules for scalars look for in the LLVM values of their operands: forms that have instructions of their own."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.backends.gpu.lowering.assembly import I32
from tilewright.backends.vector.types import Splat


def opcode(x: ir.Value) -> str | None:
    """What instruction ``x`` is the result of; None for constants and arguments."""
    return x.opname if isinstance(x, ir.Instruction) else None


def inputs(x: ir.Instruction) -> list[ir.Value]:
    """The operands of an instruction of LLVM."""
    return list(x.operands)


def flipped(x: ir.Value) -> ir.Value | None:
    """The integer whose complement ``x`` is."""
    if opcode(x) != "xor" or x.type.width == 1:
        return None
    a, b = inputs(x)
    return a if is_integer(b, -1) else b if is_integer(a, -1) else None


def widened_factors(operands: Sequence[ir.Value]) -> tuple[str, Sequence[ir.Value]] | None:
    """Whether numbers of 64 bits are unsigned or signed ones of 32 bits, and these; None where one has more."""
    for extension, kind, least in (("zext", "u", 0), ("sext", "s", -(1 << 31))):
        found: list[ir.Value] = []
        for x in operands:
            if isinstance(x, ir.Constant):
                number = int(x.value if isinstance(x, Splat) else x.constant)
                found += [ir.Constant(I32, number)] if 0 <= number - least < 1 << 32 else []
            elif opcode(x) == extension and inputs(x)[0].type == I32:
                found.append(inputs(x)[0])
        if len(found) == len(operands):
            return kind, found
    return None


def is_integer(x: ir.Value, number: int) -> bool:
    """Whether ``x`` is the constant ``number``, of a type that has more than one bit."""
    if not isinstance(x, ir.Constant) or not isinstance(x.type, ir.IntType) or x.type.width == 1:
        return False
    return (int(x.value if isinstance(x, Splat) else x.constant) - number) % (1 << x.type.width) == 0


def is_zero(x: ir.Value) -> bool:
    """Whether ``x`` is the constant 0."""
    return isinstance(x, ir.Constant) and (x.value if isinstance(x, Splat) else x.constant) == 0
