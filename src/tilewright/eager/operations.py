"""Calls of tile operations and tile functions by Python."""

from __future__ import annotations

import types
from typing import Any

from tilewright.eager.objects import apply, constant_of, is_eager, unwrap, wrap
from tilewright.eager.rewrite import Program
from tilewright.eager.session import HostFunction, current, in_kernel
from tilewright.frontend.python.ops.table import BUILDERS, METHODS
from tilewright.frontend.python.values import Tile
from tilewright.ir.errors import StaticException, TileStaticAssertionError
from tilewright.language import array as stubs
from tilewright.language import static
from tilewright.language.functions import TileFunction

# Methods that are declared apart from the function of the same meaning.
_ALIASES = {getattr(stubs.Tile, name): stub for name, stub in METHODS[Tile].items()}

_SESSION = Program(None)  # functions that are called outside of kernels, or from Python that was not rewritten


def call(operation: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Evaluate an operation: a stub of ``language``, a dtype, ``Slice``."""
    compile_time = _STATIC.get(operation)
    if compile_time is not None:
        return compile_time(*arguments, **keywords)
    keywords = {name: _function(value) for name, value in keywords.items()}
    return apply(_ALIASES.get(operation, operation), tuple(map(_function, arguments)), keywords)


def _function(value: Any) -> Any:
    """A function of the program that is given to an operation, in a form that takes values of the front end."""
    if not isinstance(value, (types.FunctionType, types.MethodType, TileFunction)) or (
        isinstance(value, types.FunctionType) and value in BUILDERS
    ):
        return value
    code = _SESSION.code(value)
    return HostFunction(lambda given, named: unwrap(code(*map(wrap, given), **{n: wrap(v) for n, v in named.items()})))


def call_function(function: TileFunction, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a tile function. RuntimeError from host code, which has no tiles to give to it."""
    if not in_kernel() and not is_eager((*arguments, *keywords.values())):
        raise RuntimeError(
            f"{function.function.__name__}() is a tile function and cannot be called on the host, except on eager "
            "tiles; mark it with @ct.function(host=True) if it is meant for both"
        )
    return _SESSION.code(function)(*arguments, **keywords)


def static_eval(expr: Any, /) -> Any:
    """Python has evaluated the argument already; strict constants are numbers to host code."""
    if type(expr) is tuple:
        return tuple(map(static_eval, expr))
    known = constant_of(expr)
    return expr if known is None else known


def static_assert(condition: Any, message: Any = None, /) -> None:
    known = condition if isinstance(condition, bool) else constant_of(condition)
    if not isinstance(known, bool):
        current().fail(f"ct.static_assert needs a constant bool, not {condition!r}; use ct.assert_ at run time")
    if not known:
        current().fail(static.static_assertion_failed(message), TileStaticAssertionError)


def static_exception(exc: Any, /) -> StaticException:
    return StaticException(f"{type(exc).__name__}: {exc}", current().builder.loc)


_STATIC: dict[Any, Any] = {
    static.static_eval: static_eval,
    static.static_assert: static_assert,
    static.static_exception: static_exception,
}
