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


def number_of(x: ir.Value) -> bool | int | float | None:
    """The number that ``x`` is; None where it is not known."""
    if not isinstance(x, ir.Constant):
        return None
    return x.value if isinstance(x, Splat) else x.constant


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
            if (number := number_of(x)) is not None:
                found += [ir.Constant(I32, int(number))] if 0 <= number - least < 1 << 32 else []
            elif opcode(x) == extension and inputs(x)[0].type == I32:
                found.append(inputs(x)[0])
        if len(found) == len(operands):
            return kind, found
    return None


def is_integer(x: ir.Value, number: int) -> bool:
    """Whether ``x`` is the constant ``number``, of a type that has more than one bit."""
    found = number_of(x) if isinstance(x.type, ir.IntType) and x.type.width > 1 else None
    return found is not None and (int(found) - number) % (1 << x.type.width) == 0


def is_zero(x: ir.Value) -> bool:
    """Whether ``x`` is the constant 0."""
    return number_of(x) == 0
