"""The words of the records that a launch shares with the machine code: see ``backends/cpu/context.py``."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.vector.types import I64


def at(builder: ir.IRBuilder, record: ir.Value, word: int) -> ir.Value:
    """The address of a word of ``record``."""
    return builder.gep(record, [ir.Constant(I64, word)], source_etype=I64)


def load(builder: ir.IRBuilder, record: ir.Value, word: int) -> ir.Value:
    return builder.load(at(builder, record, word), typ=I64)


def store(builder: ir.IRBuilder, value: ir.Value, record: ir.Value, word: int) -> None:
    builder.store(value, at(builder, record, word))
