"""``static_eval`` and its relatives, context managers, and loops that are unrolled."""

from __future__ import annotations

import ast
import copy
import inspect
import math
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.frontend.python.builtins import REJECTED
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.objects import is_mutable
from tilewright.frontend.python.ops.table import METHODS
from tilewright.frontend.python.paths import Context
from tilewright.frontend.python.proxies import NAMES, as_host_value, from_host_value, tile_operation_at_compile_time
from tilewright.frontend.python.scope import Scope, Unbound, Unusable, captured, names_of
from tilewright.frontend.python.source import assigned_names
from tilewright.frontend.python.values import Keywords, Tile
from tilewright.ir import errors
from tilewright.language.functions import COMPILE_TIME
from tilewright.language.static import (
    ensure_constant,
    static_assert,
    static_assertion_failed,
    static_eval,
    static_exception,
    static_iter,
)

if TYPE_CHECKING:
    from tilewright.frontend.python.semantics import ValueSemantics
    from tilewright.frontend.python.tracer import Tracer

MAX_ITEMS = 1000

# Functions that are recognised by the way they are written, because their arguments are not evaluated as tile code.
SYNTACTIC: dict[Any, str] = {
    static_eval: "ct.static_eval",
    static_assert: "ct.static_assert",
    static_iter: "ct.static_iter",
    static_exception: "ct.static_exception",
}


def syntactic_callee(t: Tracer, node: ast.expr) -> Any:
    """Which of ``SYNTACTIC`` the call ``node`` names, as a module-level name or an attribute of a module; else None."""
    if not isinstance(node, ast.Call):
        return None
    callee = node.func
    if isinstance(callee, ast.Name):
        if callee.id in t.scope.names:
            return None
        found, value = t.scope.find(callee.id)
    elif isinstance(callee, ast.Attribute):
        module = _module(t, callee.value)
        found, value = module is not None, getattr(module, callee.attr, None)
    else:
        return None
    return value if found and isinstance(value, types.FunctionType) and value in SYNTACTIC else None


def _module(t: Tracer, node: ast.expr) -> types.ModuleType | None:
    """The module that ``node`` names, such as ``ct`` or ``cuda.tile``; None when it is something else."""
    if isinstance(node, ast.Attribute):
        value = getattr(_module(t, node.value), node.attr, None)
    else:
        value = t.scope.find(node.id)[1] if isinstance(node, ast.Name) else None
    return value if isinstance(value, types.ModuleType) else None


def evaluate_call(t: Tracer, node: ast.Call, callee: Any) -> Any:
    """A call of ``static_eval`` or ``static_assert``."""
    if callee is static_eval:
        return from_host_value(t, _host_argument(t, node, callee, "expr"))
    if callee is static_assert:
        return _assert(t, node)
    where = "the iterable of a for loop or of tuple(...)" if callee is static_iter else "raise ct.static_exception(...)"
    t.fail(f"{SYNTACTIC[callee]} is only possible as {where}", errors.TileSyntaxError)


def _argument(t: Tracer, node: ast.Call, callee: Any, name: str) -> ast.expr | None:
    """The expression given for parameter ``name``; None when it is left to its default."""
    try:
        bound = inspect.signature(callee).bind(*node.args, **{str(k.arg): k.value for k in node.keywords})
    except TypeError as e:
        t.fail(f"{SYNTACTIC[callee]}(): {e}", errors.TileSyntaxError)
    found: ast.expr | None = bound.arguments.get(name)
    if isinstance(found, ast.Starred):
        t.fail(f"{SYNTACTIC[callee]}() cannot take its arguments from a tuple", at=found)
    return found


def _host_argument(t: Tracer, node: ast.Call, callee: Any, name: str) -> Any:
    """The value of the required parameter ``name``, evaluated as ordinary Python."""
    found = _argument(t, node, callee, name)
    assert found is not None
    return host_eval(t, found)


def _assert(t: Tracer, node: ast.Call) -> None:
    tested, text = (_argument(t, node, static_assert, name) for name in ("condition", "message"))
    assert tested is not None
    condition = _either_eval(t, tested)
    t.locate(node)
    known = condition.constant if isinstance(condition, Tile) else condition
    if not isinstance(known, bool):
        t.fail(f"ct.static_assert needs a constant bool, not {describe(condition)}; use ct.assert_ at run time")
    if known:
        return
    message = None if text is None else host_eval(t, text)
    t.locate(node)
    t.fail(static_assertion_failed(message), errors.TileStaticAssertionError)


def _either_eval(t: Tracer, node: ast.expr) -> Any:
    """Evaluate ``node`` as tile code, or as ordinary Python where it says what tile code does not have."""
    if _needs_host(t, node):
        return from_host_value(t, host_eval(t, node))
    try:
        return t.eval(node)
    except errors.TileValueError as e:  # of constants without a value, such as 1 // 0
        raise errors.StaticException(e.message, e.loc) from e


def _needs_host(t: Tracer, node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and syntactic_callee(t, node) is static_eval:
        return False
    if isinstance(node, _HOST_SYNTAX) or (isinstance(node, ast.Name) and _is_for_hosts(t.scope.find(node.id)[1])):
        return True
    if isinstance(node, ast.Attribute) and (node.attr in _HOST_ATTRIBUTES or _is_text(node.value)):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_text(node.left):
        return True
    return any(_needs_host(t, child) for child in ast.iter_child_nodes(node))


_HOST_SYNTAX = (ast.List, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.Is, ast.IsNot)


_HOST_ATTRIBUTES = ("name", "bitwidth")  # of dtypes


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_for_hosts(value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        return value in (math, np)
    if isinstance(value, (list, set, dict)):
        return not isinstance(value, Keywords)
    if is_mutable(value):
        return True
    if isinstance(value, types.FunctionType) and not _names_tile_code(value, set()):
        return True
    return isinstance(value, _NAMED) and value in REJECTED


_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


def _names_tile_code(value: Any, seen: set[Any]) -> bool:
    """Whether ``value`` is of this package, or a function that names such a value or a method of tiles or arrays."""
    if isinstance(value, types.ModuleType):
        return _is_ours(value.__name__) or _is_ours(getattr(value, "__package__", None))
    if not isinstance(value, types.FunctionType):
        return _is_ours(type(value).__module__)
    if value in seen:
        return False
    seen.add(value)
    names = set(names_of(value.__code__))
    found = {name: value.__globals__[name] for name in names & value.__globals__.keys()}
    return (
        _is_ours(value.__module__)
        or not names.isdisjoint(_TILE_METHODS)
        or any(_names_tile_code(v, seen) for v in (*found.values(), *captured(value).values()))
    )


def _is_ours(module: str | None) -> bool:
    return module is not None and module.split(".")[0] == __name__.split(".")[0]


_TILE_METHODS = {name for methods in METHODS.values() for name in methods}


def host_eval(t: Tracer, node: ast.expr) -> Any:
    """Evaluate ``node`` as ordinary Python on the variables of tile code."""
    for child in ast.walk(node):
        if isinstance(child, ast.NamedExpr):
            t.fail("an assignment expression is not possible in ct.static_eval", errors.TileSyntaxError, at=child)
        if isinstance(child, (ast.Yield, ast.YieldFrom, ast.Await)):
            t.fail("'yield' and 'await' are not possible in ct.static_eval", errors.TileSyntaxError, at=child)
        if isinstance(child, ast.Name) and isinstance(t.scope.find(child.id)[1], Unbound):
            t.fail(f"{child.id!r} is read before it is assigned", errors.TileSyntaxError, at=child)
    source = t.frame.source
    # With the lines of the file, so that a lambda in it finds its source.
    placed = ast.increment_lineno(copy.deepcopy(node), source.first_line - 1)
    code = compile(ast.Expression(placed), source.file, "eval")
    globals_ = {**NAMES, **t.scope.root().module, **_visible(t)}
    return _run(t, lambda: eval(code, globals_))


def host_call(t: ValueSemantics, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The call of a function that ``static_def`` marks."""
    values = [as_host_value(t, a) for a in arguments]
    named = {name: as_host_value(t, a) for name, a in keywords.items()}
    return from_host_value(t, _run(t, lambda: function(*values, **named)))


def _run(t: ValueSemantics, host_code: Callable[[], Any]) -> Any:
    """What ``host_code`` returns; its exceptions become errors of the kernel."""
    where = t.builder.loc
    outer = COMPILE_TIME.set(tile_operation_at_compile_time)
    try:
        return host_code()
    except errors.TileError as e:
        e.loc = e.loc or where
        raise
    except Exception as e:
        raise errors.StaticException(f"{type(e).__name__}: {e}", where) from e
    finally:
        COMPILE_TIME.reset(outer)


def _visible(t: Tracer) -> dict[str, Any]:
    """Every variable in sight as host code sees it."""
    names: dict[str, Any] = {}
    for scope in reversed(list(t.scope.chain())):
        for name, value in (*scope.free.items(), *scope.names.items()):
            if name.isidentifier() and not isinstance(value, Unusable):
                names[name] = as_host_value(t, value)
    return names


# -- unrolled loops


def static_items(t: Tracer, node: ast.expr) -> list[Any] | None:
    """The items of ``ct.static_iter(...)``; None when ``node`` is something else."""
    if syntactic_callee(t, node) is not static_iter:
        return None
    assert isinstance(node, ast.Call)
    where = t.builder.loc
    iterable = _host_argument(t, node, static_iter, "iterable")
    items = []
    try:
        for item in iterable:
            if isinstance(item, (list, set, dict)):
                kind = type(item).__name__
                raise errors.TileStaticEvalError(f"ct.static_iter: an item is a {kind}; tile code needs a tuple", where)
            items.append(from_host_value(t, item))
            if len(items) > MAX_ITEMS:
                raise errors.TileStaticEvalError(
                    f"ct.static_iter would unroll more than {MAX_ITEMS} iterations; loop over range(...)", where
                )
    except errors.TileError:
        raise
    except TypeError as e:
        raise errors.TileTypeError(f"ct.static_iter: {e}", where) from e
    except Exception as e:  # of a generator
        raise errors.StaticException(f"{type(e).__name__}: {e}", where) from e
    return items


def unroll(t: Tracer, node: ast.For, items: Sequence[Any]) -> bool:
    """A ``for`` over ``ct.static_iter``: the body once per item, until no path falls through."""
    t.contexts.append(Context(True, static=True))
    falls_through = True
    for item in items:
        t.assign(node.target, item)
        falls_through = t.body(node.body)
        if not falls_through:
            break
    t.contexts.pop()
    return falls_through


def comprehension(t: Tracer, node: ast.GeneratorExp) -> tuple[Any, ...]:
    """``tuple(e for x in ct.static_iter(...) if c)``."""
    found: list[Any] = []
    outer = t.scope
    items = _items_of(t, node.generators[0])  # of which Python alone is evaluated outside
    targets = assigned_names(ast.Module([ast.Expr(g.target) for g in node.generators], []))
    unbound = {name: Unbound(f"{name!r} is read before it is assigned") for name in targets}
    t.frame.scope = Scope({**unbound}, outer, within=True)
    try:
        _comprehend(t, node, 0, items, found)
    finally:
        t.frame.scope = outer
    return tuple(found)


def _items_of(t: Tracer, generator: ast.comprehension) -> list[Any]:
    items = static_items(t, generator.iter)
    if items is None:
        t.fail("a comprehension must iterate over ct.static_iter(...)", errors.TileSyntaxError, at=generator.iter)
    return items


def _comprehend(t: Tracer, node: ast.GeneratorExp, level: int, items: list[Any], found: list[Any]) -> None:
    generator = node.generators[level]
    for item in items:
        t.assign(generator.target, item)
        conditions = [t.condition(c) for c in generator.ifs]
        if not all(isinstance(c, bool) for c in conditions):
            t.fail("the condition of a comprehension must be a constant", at=generator.ifs[0])
        if not all(conditions):
            continue
        if level + 1 == len(node.generators):
            found.append(t.eval(node.elt))
        else:
            _comprehend(t, node, level + 1, _items_of(t, node.generators[level + 1]), found)


# -- raise and with


def raise_statement(t: Tracer, node: ast.Raise) -> bool:
    if node.cause is not None:
        t.fail("tile code has no 'raise ... from'", errors.TileSyntaxError)
    if node.exc is None or syntactic_callee(t, node.exc) is not static_exception:
        t.fail(
            "tile code can only raise ct.static_exception(...), at compile time; use ct.assert_ at run time",
            errors.TileSyntaxError,
        )
    assert isinstance(node.exc, ast.Call)
    exception = _host_argument(t, node.exc, static_exception, "exc")
    t.locate(node)
    if not isinstance(exception, BaseException):
        t.fail(f"ct.static_exception needs an exception, not {describe(exception)}", errors.TileStaticEvalError)
    raise errors.StaticException(f"{type(exception).__name__}: {exception}", t.builder.loc)


def constant_or_fail(t: Tracer, value: Any) -> Any:
    """``ct.ensure_constant(value)``."""
    for part in value if isinstance(value, tuple) else (value,):
        if isinstance(part, tuple):
            constant_or_fail(t, part)
        elif isinstance(part, Tile) and part.constant is None:
            t.fail(
                f"this value is {describe(part)} known only at run time, not a constant",
                errors.TileStaticAssertionError,
            )
    return value


BUILDERS: dict[Any, Callable[..., Any]] = {ensure_constant: constant_or_fail}
