"""From a Python function and the descriptors of its arguments to Tile IR."""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tilewright.frontend import signature as signatures
from tilewright.frontend.python import control_flow
from tilewright.frontend.python.joins import Joins
from tilewright.frontend.python.ops.load_store import array_of
from tilewright.frontend.python.scope import CallFrame, Scope, captured
from tilewright.frontend.python.source import Source, source_of
from tilewright.frontend.python.tracer import Tracer
from tilewright.frontend.python.values import ArrayList, Tile
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Param, Value
from tilewright.ir.errors import TileRecursionError, TileSyntaxError
from tilewright.ir.location import Loc
from tilewright.ir.ops.control import Return

_RECURSION_LIMIT = 50_000  # calls are traced in place, at about ten Python frames each


def trace(
    function: types.FunctionType,
    signature: signatures.Signature,
    hints: Mapping[str, Any],
    name: str | None = None,
    joins: Joins | None = None,
) -> Function:
    """The IR of kernel ``function`` for arguments that ``signature`` describes. ``joins`` records what it says.

    Raises a TileError, with the location in the source, for everything that is wrong with the kernel.
    """
    try:
        return _trace(function, signature, hints, name, joins)
    except RecursionError:  # the limit belongs to the whole process, so it is raised for the few that need it
        with _deep_recursion(function):
            return _trace(function, signature, hints, name, joins)


def _trace(
    function: types.FunctionType,
    signature: signatures.Signature,
    hints: Mapping[str, Any],
    name: str | None,
    joins: Joins | None,
) -> Function:
    source = source_of(function.__code__)
    names = parameter_names(source)
    body = Block()
    loc = source.loc(source.node, None)
    builder = Builder(body, loc)
    tracer = Tracer(builder, joins)
    params: list[Param] = []
    values: dict[str, Any] = {}
    for given, spec in zip(names, signature.arguments):
        args = []
        for param, type_ in signatures.parameters(given, spec):
            params.append(param)
            args.append(body.add_arg(type_, _value_name(param)))
        values[given] = argument(builder, given, spec, iter(args))
    scope = Scope(values, None, captured(function), function.__globals__)
    tracer.frames.append(CallFrame(source, scope, None, 0))
    if isinstance(source.node, ast.Lambda):
        tracer.eval(source.node.body)
    else:
        control_flow.run_function(tracer, source.node.body)
    tracer.locate(source.node)
    builder.emit_op(Return)
    return Function(name or function.__name__, body, params, loc, dict(hints))


def parameter_names(source: Source) -> list[str]:
    """The parameters of a kernel. TileSyntaxError for ``*args`` and ``**kwargs``."""
    a = source.node.args
    if a.vararg is not None or a.kwarg is not None:
        loc = source.loc(a.vararg or a.kwarg or source.node, None)
        raise TileSyntaxError("a kernel cannot have *args or **kwargs; name every parameter, or pass a tuple", loc)
    return [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]


@contextmanager
def _deep_recursion(function: types.FunctionType) -> Iterator[None]:
    """Room for Python frames while calls are expanded."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        yield
    except RecursionError:
        code = function.__code__
        loc = Loc(code.co_filename, code.co_firstlineno, function=code.co_name)
        raise TileRecursionError("the code nests too deeply to be compiled; split it up", loc) from None
    finally:
        sys.setrecursionlimit(limit)


def _value_name(param: Param) -> str:
    name = param.argument.replace("[", "_").replace("]", "")
    return (
        name
        if param.role in ("base", "scalar", "table")
        else f"{name}_{param.role}{'' if param.axis is None else param.axis}"
    )


def argument(builder: Builder, name: str, spec: signatures.ArgumentSpec, args: Iterator[Value]) -> Any:
    """The value of a kernel argument in tile code, over the function parameters it became."""
    if isinstance(spec, signatures.ConstantSpec):
        return spec.value
    if isinstance(spec, signatures.ScalarSpec):
        return Tile(next(args))
    if isinstance(spec, signatures.TupleSpec):
        return tuple(argument(builder, f"{name}[{i}]", item, args) for i, item in enumerate(spec.items))
    if isinstance(spec, signatures.ListSpec):
        return ArrayList(next(args), Tile(next(args)), spec.element, name)
    assert isinstance(spec, signatures.ArraySpec), "Python kernels declare no pointers"
    return array_of(builder, name, spec, next(args), lambda _: next(args))
