"""The uses of values."""

from __future__ import annotations

from tilewright.ir.core import Function, Op, Value


def uses_of(function: Function) -> dict[Value, list[Op]]:
    """The ops that use each value, in program order; an op is there once for each operand that is the value."""
    uses: dict[Value, list[Op]] = {}
    for op in function.walk():
        for v in op.operands:
            uses.setdefault(v, []).append(op)
    return uses
