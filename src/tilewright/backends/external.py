"""Functions that a module of LLVM IR calls without defining them: intrinsics, and functions of the C library."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir


def external(module: ir.Module, name: str, result: ir.Type, parameters: Sequence[ir.Type]) -> ir.Function:
    """The function ``name``, which is declared the first time."""
    known = module.globals.get(name)
    return ir.Function(module, ir.FunctionType(result, parameters), name) if known is None else known


def call_external(
    builder: ir.IRBuilder, name: str, result: ir.Type, arguments: Sequence[ir.Value], types: Sequence[ir.Type] = ()
) -> ir.Value:
    """Call the function ``name``, whose parameters have the types of the ``arguments``, unless ``types`` says which."""
    function = external(builder.module, name, result, types or [a.type for a in arguments])
    return builder.call(function, arguments)
