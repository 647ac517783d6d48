"""Functions of a module of LLVM IR that several functions call: intrinsics and those of the C library, which are
declared, and functions of our own, which are defined, by the first of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


def defined_once(
    module: ir.Module,
    name: str,
    type_: ir.FunctionType,
    attributes: Sequence[str],
    emit: Callable[[ir.Function], object],
) -> ir.Function:
    """The internal function ``name``, whose body ``emit`` gives the first time."""
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, type_, name)
        function.linkage = "internal"
        for attribute in attributes:
            function.attributes.add(attribute)
        emit(function)
    return function


def mangled(type_: ir.Type) -> str:
    """The spelling of a type in the name of an overloaded function."""
    if isinstance(type_, ir.VectorType):
        return f"v{type_.count}{mangled(type_.element)}"
    return f"i{type_.width}" if isinstance(type_, ir.IntType) else str(type_.intrinsic_name)
