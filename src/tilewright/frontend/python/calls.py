"""Calls: op builders, builtins, and functions whose body is traced in place."""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import language
from tilewright.frontend.python import context_managers, objects, static
from tilewright.frontend.python.builtins import BUILTINS, REJECTED
from tilewright.frontend.python.constants import OPERATOR_FUNCTIONS
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops.convert import cast_call, constant_of, folded
from tilewright.frontend.python.ops.table import BUILDERS
from tilewright.frontend.python.scope import LocalFunction, Scope, captured
from tilewright.frontend.python.source import Source, source_of
from tilewright.frontend.python.values import BoundMethod, Keywords
from tilewright.ir.errors import TileError, TileSyntaxError, TileTypeError, UnsupportedCallError
from tilewright.language import arithmetic, suggestions
from tilewright.language.dtypes import to_dtype
from tilewright.language.functions import TileFunction
from tilewright.language.static import is_static_def

if TYPE_CHECKING:
    from tilewright.frontend.python.semantics import ValueSemantics

# Functions that are neither stubs nor builtins, but have a meaning of their own in tile code.
SPECIAL: dict[Any, Callable[..., Any]] = {dataclasses.replace: objects.replace, **static.BUILDERS}


def _is_key(function: Any) -> bool:
    """Whether ``function`` may be in the tables of callables. Other objects may hold what cannot be hashed."""
    return isinstance(function, (type, types.FunctionType, types.BuiltinFunctionType))


def call(t: ValueSemantics, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """``function(*arguments, **keywords)`` in tile code."""
    if isinstance(function, BoundMethod):
        return call(t, function.stub, (function.receiver, *arguments), keywords)
    if isinstance(function, LocalFunction):
        scope = Scope({}, function.scope)
        given = function.defaults, function.keyword_defaults, arguments, keywords
        scope.names = bind_arguments(t, function.source, *given)
        return t.inline(function.source, scope)
    dtype = to_dtype(function)
    if dtype is not None:
        return cast_call(t, dtype, *_only_positional(t, dtype.name, arguments, keywords))
    hashable = _is_key(function)
    if hashable and function in static.SYNTACTIC:
        t.fail(f"{static.SYNTACTIC[function]} must be called by that name, not through a variable", TileSyntaxError)
    if hashable and function in BUILDERS:
        bound = _bind(t, function, arguments, keywords)
        return BUILDERS[function](t, *bound.args, **_keyword_defaults(function) | bound.kwargs)
    if hashable and function in SPECIAL:
        bound = _bind(t, function, arguments, keywords)
        return SPECIAL[function](t, *bound.args, **bound.kwargs)
    if hashable and function in BUILTINS:
        if function is not print:
            arguments = _only_positional(t, function.__name__, arguments, keywords)
        elif not keywords.keys() <= {"sep", "end"}:
            t.fail("print() takes no keyword arguments but 'sep' and 'end' in tile code")
        return BUILTINS[function](t, *arguments, **keywords)
    if hashable and function in OPERATOR_FUNCTIONS:
        return _operator_function(t, function, *_only_positional(t, function.__name__, arguments, keywords))
    if is_static_def(function):
        return static.host_call(t, function, arguments, keywords)
    if isinstance(function, TileFunction):
        if not function.tile:
            t.fail(
                f"{function.function.__name__}() is marked tile=False: it is for host code only", UnsupportedCallError
            )
        return call(t, function.function, arguments, keywords)
    managed = context_managers.managed_block(t, function, arguments, keywords)
    if managed is not None:
        return managed
    if isinstance(function, types.FunctionType) and not _is_ours(function):
        return _inlined(t, function, arguments, keywords)
    if isinstance(function, types.MethodType):
        return call(t, function.__func__, (function.__self__, *arguments), keywords)
    if isinstance(function, type) and issubclass(function, enum.Enum):
        return objects.enum_member(t, function, *_only_positional(t, function.__name__, arguments, keywords))
    if isinstance(function, type) and dataclasses.is_dataclass(function):
        return objects.construct(t, function, arguments, keywords)
    found, method = objects.find_method(function, "__call__")
    if found:
        return call(t, method, (function, *arguments), keywords)
    if getattr(function, "__module__", None) == "math" and hashable:
        numbers = [constant_of(a) for a in arguments]
        if None not in numbers and not keywords:
            return folded(t, lambda *_: function(*numbers), f"math.{function.__name__}", *numbers)
    t.fail(*_why_not(function))


def _inlined(
    t: ValueSemantics, function: types.FunctionType, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    scope = Scope({}, None, captured(function), function.__globals__)
    source = source_of(function.__code__)
    defaults, keyword_defaults = function.__defaults__ or (), function.__kwdefaults__ or {}
    loc = t.builder.loc
    try:
        scope.names = bind_arguments(t, source, defaults, keyword_defaults, arguments, keywords)
        return t.inline(source, scope)
    except TileError:
        if not _is_foreign(function):
            raise
    t.builder.loc = loc
    t.fail(*_why_not(function))  # not what tile code lacks in the middle of another library


def _is_ours(function: types.FunctionType) -> bool:
    """Whether ``function`` is host code of this package, such as ``ct.launch``."""
    module = function.__module__ or ""
    return module.startswith("tilewright.") and not module.startswith(("tilewright.frontend.", "tilewright.lib."))


_FOREIGN = ("numpy", "torch", "triton", "jax", "cupy")  # they have functions of the same kind, of their own arrays


def _is_foreign(function: Any) -> bool:
    """Whether ``function`` belongs to another library of arrays or tiles."""
    return (getattr(function, "__module__", None) or "").split(".")[0] in _FOREIGN


def argument_node(node: ast.Call, callee: Any, name: str) -> ast.expr | None:
    """The expression that the call ``node`` of a stub or method gives for the parameter ``name``."""
    for keyword in node.keywords:
        if keyword.arg == name:
            return keyword.value
    receivers = 0
    if isinstance(callee, BoundMethod):
        receivers, callee = 1, callee.stub
    if not _is_key(callee) or callee not in BUILDERS or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    names = [p.name for p in _signature(callee).parameters.values() if p.kind is not p.VAR_POSITIONAL]
    position = names.index(name) - receivers if name in names else -1
    return node.args[position] if 0 <= position < len(node.args) else None


def _why_not(function: Any) -> tuple[str, type[TileError]]:
    """The error for a callee that tile code does not have."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or describe(function)
    module = getattr(function, "__module__", None)
    if getattr(function, "is_tile_kernel", False) and not isinstance(function, type):
        return (
            f"{name} is a kernel; a kernel cannot be called from tile code. Move the shared code into a plain function",
            TileTypeError,
        )
    if _is_key(function) and function in REJECTED:
        return f"{name}() cannot be called in tile code; {REJECTED[function]}", UnsupportedCallError
    if module == "math":
        advice = f"use ct.{name}" if hasattr(arithmetic, name) else "write it with the functions of ct"
        return f"math.{name}() works on constants only; {advice}", UnsupportedCallError
    if isinstance(function, types.FunctionType) and _is_ours(function):
        return f"ct.{name}() is for host code; it cannot be called in tile code", UnsupportedCallError
    if isinstance(function, functools.partial):
        return (
            "functools.partial objects cannot be called in tile code; write a lambda or a nested function",
            TileTypeError,
        )
    if not callable(function):
        return f"{describe(function)} is not callable", TileTypeError
    advice = suggestions.instead_of_foreign(name.rpartition(".")[2], language.__all__)
    if isinstance(function, np.ufunc):
        return f"the NumPy function {name} cannot be called in tile code{advice}", TileTypeError
    where = f"{module}.{name}" if module else name
    if not _is_foreign(function) or not advice:
        advice = "; call ct functions and plain Python functions"
    return f"{where} cannot be called in tile code{advice}", UnsupportedCallError


def _only_positional(
    t: ValueSemantics, name: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[Any, ...]:
    if keywords:
        t.fail(f"{name}() takes no keyword arguments")
    return arguments


def _operator_function(t: ValueSemantics, function: Any, *values: Any) -> Any:
    key = OPERATOR_FUNCTIONS[function]
    try:
        inspect.signature(function).bind(*values)
    except TypeError as e:
        t.fail(f"{function.__name__}(): {e}")
    return objects.apply_operator(t, key, function, values)


@functools.cache
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


@functools.cache
def _keyword_defaults(stub: Any) -> dict[str, Any]:
    """What ``stub`` declares of keyword-only parameters that a call leaves out."""
    parameters = _signature(stub).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}


def _bind(
    t: ValueSemantics, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> inspect.BoundArguments:
    try:
        return _signature(function).bind(*arguments, **keywords)
    except TypeError as e:
        unknown = [k for k in keywords if k not in _signature(function).parameters]
        wrong = str(e)
        if unknown:
            advice = suggestions.instead_of_keyword(unknown[0], _signature(function).parameters)
            wrong = f"got an unexpected keyword argument {unknown[0]!r}{advice}"
        elif wrong.startswith("too many"):
            wrong += suggestions.instead_of_positional(arguments, _signature(function).parameters.values())
        t.fail(f"{function.__name__}(): {wrong}; its signature is {function.__name__}{_plain(function)}")


class _Member(str):
    """The name of an enum member, shown without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _plain(function: Any) -> str:
    """The signature as a caller writes it: without annotations and receiver, enum members by name."""
    signature = _signature(function)
    parameters = [
        p.replace(annotation=p.empty, default=_Member(p.default) if isinstance(p.default, enum.Enum) else p.default)
        for p in signature.parameters.values()
        if p.name != "self"
    ]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def bind_arguments(
    t: ValueSemantics,
    source: Source,
    defaults: tuple[Any, ...],
    keyword_defaults: Mapping[str, Any],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
) -> dict[str, Any]:
    """The local variables that a call starts with, by Python's rules."""
    a = source.node.args
    positional = [*a.posonlyargs, *a.args]
    names: dict[str, Any] = {}
    wanted = f"{source.name}() takes {len(positional)} positional argument{'s' * (len(positional) != 1)}"
    for parameter, value in zip(positional, arguments):
        names[parameter.arg] = value
    if len(arguments) > len(positional):
        if a.vararg is None:
            t.fail(f"{wanted}, but {len(arguments)} {'was' if len(arguments) == 1 else 'were'} given")
        names[a.vararg.arg] = arguments[len(positional) :]
    elif a.vararg is not None:
        names[a.vararg.arg] = ()
    by_keyword = {p.arg for p in (*a.args, *a.kwonlyargs)}
    extra = Keywords()
    for name, value in keywords.items():
        if name in by_keyword:
            if name in names:
                t.fail(f"{source.name}() got two values for its argument {name!r}")
            names[name] = value
        elif a.kwarg is not None:
            extra[name] = value
        else:
            t.fail(f"{source.name}() has no parameter {name!r}")
    if a.kwarg is not None:
        names[a.kwarg.arg] = extra
    for parameter, default in zip(reversed(positional), reversed(defaults)):
        names.setdefault(parameter.arg, default)
    for name, default in keyword_defaults.items():
        names.setdefault(name, default)
    missing = [p.arg for p in (*positional, *a.kwonlyargs) if p.arg not in names]
    if missing:
        t.fail(f"{source.name}() is missing the argument{'s' * (len(missing) > 1)} {', '.join(missing)}")
    return names
