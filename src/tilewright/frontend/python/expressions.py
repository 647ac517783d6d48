"""Expressions: one function per syntax class, in the table ``EXPRESSIONS``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import language
from tilewright.frontend.python import control_flow, objects, static
from tilewright.frontend.python.constants import BINARY, UNARY, FoldError, check_range
from tilewright.frontend.python.formatting import format_string
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops.convert import folded, strict
from tilewright.frontend.python.scope import LocalFunction, Unbound, Unusable
from tilewright.frontend.python.source import Source, assigned_names
from tilewright.frontend.python.values import Array, ArrayList, Tile, TiledView
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, bool_
from tilewright.ir.errors import TileSyntaxError, TileValueError
from tilewright.language import suggestions

if TYPE_CHECKING:
    from tilewright.frontend.python.tracer import Tracer

RUN_TIME = (Tile, Array, TiledView, ArrayList)


def _constant(t: Tracer, node: ast.Constant) -> Any:
    value = node.value
    if isinstance(value, (bytes, complex)) or value is Ellipsis:
        if value is Ellipsis:
            return value
        instead = "load them from an array of uint8" if isinstance(value, bytes) else "keep the parts apart"
        t.fail(f"tile code has no {type(value).__name__} values; {instead}")
    try:
        check_range(value)
    except FoldError as e:
        t.fail(str(e), TileValueError)
    return value


def _name(t: Tracer, node: ast.Name) -> Any:
    found, value = t.scope.find(node.id)
    local = node.id in t.scope.holder(node.id).names
    if isinstance(value, Unbound) or (not local and node.id in assigned_names(t.frame.source.node)):
        t.fail(f"{node.id!r} is read before it is assigned", TileSyntaxError)
    if not found:
        advice = suggestions.instead_of_undefined(node.id, t.scope.visible())
        t.fail(f"the name {node.id!r} is not defined{advice}", TileSyntaxError)
    if isinstance(value, Unusable):
        t.fail(value.reason)
    return value if local else t.imported(value, node.id)


def _binary(t: Tracer, node: ast.BinOp) -> Any:
    x = t.eval(node.left)
    y = t.eval(node.right)
    t.locate(node)
    return t.binary(BINARY[type(node.op)], x, y)


def _unary(t: Tracer, node: ast.UnaryOp) -> Any:
    x = t.eval(node.operand)
    t.locate(node)
    key, function, symbol = UNARY[type(node.op)]
    if isinstance(x, Tile):
        return t.operator(key, x)
    if isinstance(node.op, ast.Not):
        condition = t.truth(x)
        return not condition if isinstance(condition, bool) else t.operator(key, Tile(condition))
    if isinstance(x, (bool, int, float)):
        return folded(t, function, symbol, x)
    t.fail(f"{symbol} cannot be applied to {describe(x)}")


def _compare(t: Tracer, node: ast.Compare) -> Any:
    """A chain evaluates each operand once, and stops at the first false comparison."""
    left = t.eval(node.left)
    return _compare_rest(t, node, left, 0)


def _compare_rest(t: Tracer, node: ast.Compare, left: Any, i: int) -> Any:
    right = t.eval(node.comparators[i])
    t.locate(node)
    result = t.compare(node.ops[i], left, right)
    if i + 1 == len(node.ops):
        return result
    return _short_circuit(t, result, True, lambda: _compare_rest(t, node, right, i + 1))


def _short_circuit(t: Tracer, first: Any, go_on: bool, rest: Callable[[], Any]) -> Any:
    """``first and rest()`` (``go_on`` is True) or ``first or rest()``, as a bool."""
    condition = t.truth(first)
    if isinstance(condition, bool):
        if condition is not go_on:
            return truth_value(t, condition, first)
        value = rest()
        return truth_value(t, t.truth(value), first, value)

    def evaluate() -> bool:
        t.scope.names = {**t.scope.names, RESULT: truth_value(t, t.truth(rest()))}
        return True

    def skip() -> bool:
        t.scope.names = {**t.scope.names, RESULT: not go_on}
        return True

    control_flow.branch(t, condition, (evaluate, skip) if go_on else (skip, evaluate))
    names = dict(t.scope.names)
    result = names.pop(RESULT)
    t.scope.names = names
    return truth_value(t, result, first) if isinstance(result, bool) else result


def truth_value(t: Tracer, condition: bool | Value, *tested: Any) -> Any:
    """A condition as a value: strictly typed if a tile or a strict constant is among what was ``tested``."""
    if not isinstance(condition, bool):
        return Tile(condition)
    return strict(t, condition, bool_) if any(isinstance(v, Tile) for v in tested) else condition


RESULT = "value of the expression"  # no identifier, so it cannot clash with a variable


def _bool(t: Tracer, node: ast.BoolOp) -> Any:
    go_on = isinstance(node.op, ast.And)

    def operand(i: int) -> Any:
        value = t.eval(node.values[i])
        t.locate(node)
        return value if i + 1 == len(node.values) else _short_circuit(t, value, go_on, lambda: operand(i + 1))

    result = operand(0)
    return result


def _conditional(t: Tracer, node: ast.IfExp) -> Any:
    result = conditional(t, node)
    if isinstance(result, Unusable):
        t.fail(result.reason)
    return result


def conditional(t: Tracer, node: ast.IfExp) -> Any:
    """The value of a conditional expression; ``Unusable`` for one that has no single type."""
    condition = t.condition(node.test)
    if isinstance(condition, bool):
        return t.eval(node.body if condition else node.orelse)

    def arm(value: ast.expr) -> Callable[[], bool]:
        def run() -> bool:
            result = t.eval(value)
            t.scope.names = {**t.scope.names, RESULT: result}
            return True

        return run

    control_flow.branch(t, condition, (arm(node.body), arm(node.orelse)))
    names = dict(t.scope.names)
    result = names.pop(RESULT)
    t.scope.names = names
    t.locate(node)
    if isinstance(result, Unusable):
        return Unusable(result.reason.replace(repr(RESULT), "the conditional expression"))
    return result


def _attribute(t: Tracer, node: ast.Attribute) -> Any:
    if isinstance(node.value, ast.Name) and node.value.id in suggestions.FOREIGN and not t.scope.find(node.value.id)[0]:
        advice = suggestions.instead_of_foreign(node.attr, language.__all__)
        t.fail(f"the name {node.value.id!r} is not defined{advice}", TileSyntaxError)
    value = t.eval(node.value)
    t.locate(node)
    return objects.attribute(t, value, node.attr)


def _subscript(t: Tracer, node: ast.Subscript) -> Any:
    value = t.eval(node.value)
    index = t.eval(node.slice)
    t.locate(node)
    return t.subscript(value, index)


def _slice(t: Tracer, node: ast.Slice) -> slice:
    return slice(*(None if part is None else t.eval(part) for part in (node.lower, node.upper, node.step)))


def _call(t: Tracer, node: ast.Call) -> Any:
    callee = static.syntactic_callee(t, node)
    if callee is not None:
        return static.evaluate_call(t, node, callee)
    if len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp) and not node.keywords:
        return _call_with_generator(t, node, node.args[0])
    function = t.eval(node.func)
    arguments = tuple(t.elements(node.args))
    keywords: dict[str, Any] = {}
    for keyword in node.keywords:
        value = t.eval(keyword.value)
        t.locate(node)
        extra = {keyword.arg: value} if keyword.arg is not None else t.mapping(value)
        for name, item in extra.items():
            if name in keywords:
                t.fail(f"the argument {name!r} is given twice")
            keywords[name] = item
    t.locate(node)
    return t.call_at(node, function, arguments, keywords)


def _call_with_generator(t: Tracer, node: ast.Call, generator: ast.GeneratorExp) -> Any:
    """``tuple(... for ... in ...)``, and functions that take a tuple of such items, such as ``str.join``."""
    function = t.eval(node.func)
    items = static.comprehension(t, generator)
    t.locate(node)
    return items if function is tuple else t.call_at(node, function, (items,), {})


def local_function(t: Tracer, node: ast.Lambda | ast.FunctionDef, name: str) -> LocalFunction:
    """A nested function or lambda, with its defaults evaluated now."""
    outer = t.frame.source
    source = Source(node, outer.file, outer.first_line, outer.indent, outer.lines, name)
    defaults = tuple(t.eval(d) for d in node.args.defaults)
    keyword_defaults = {a.arg: t.eval(d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults) if d is not None}
    return LocalFunction(source, t.scope, defaults, keyword_defaults)


def _generator(t: Tracer, node: ast.GeneratorExp) -> Any:
    t.fail(
        "a generator expression is only possible as tuple(... for ... in ct.static_iter(...)); write a for loop",
        TileSyntaxError,
    )


def _starred(t: Tracer, node: ast.Starred) -> Any:
    t.fail("a starred expression is only possible in a call or a tuple", TileSyntaxError)


def rejected(what: str) -> Callable[[Tracer, ast.AST], Any]:
    """What handles syntax that tile code does not have."""

    def reject(t: Tracer, node: ast.AST) -> Any:
        t.fail(f"tile code has no {what}", TileSyntaxError)

    return reject


EXPRESSIONS: dict[type[ast.expr], Callable[[Any, Any], Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: lambda t, node: tuple(t.elements(node.elts)),
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _bool,
    ast.IfExp: _conditional,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Call: _call,
    ast.Lambda: lambda t, node: local_function(t, node, "<lambda>"),
    ast.JoinedStr: lambda t, node: format_string(t, node),
    ast.GeneratorExp: _generator,
    ast.Starred: _starred,
    ast.List: rejected("list displays; write a tuple, such as (a, b)"),
    ast.Set: rejected("set displays; write a tuple"),
    ast.Dict: rejected("dict displays; use keyword arguments or a frozen dataclass"),
    ast.ListComp: rejected("list comprehensions; write tuple(... for ... in ct.static_iter(...)) or a for loop"),
    ast.SetComp: rejected("set comprehensions; write tuple(... for ... in ct.static_iter(...))"),
    ast.DictComp: rejected("dict comprehensions; use a tuple, or ct.static_eval"),
    ast.NamedExpr: rejected("assignment expressions (:=); write the assignment as a statement of its own"),
    ast.Await: rejected("'await'; call the function"),
    ast.Yield: rejected("'yield' outside context managers; return a value instead"),
    ast.YieldFrom: rejected("'yield from'; return a value instead"),
}


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


def is_plain(value: Any) -> bool:
    """Whether ``value`` is a Python constant on which Python's own operators work."""
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    return isinstance(value, (bool, int, float, str, DType)) or value is None


__all__ = ["EXPRESSIONS", "RUN_TIME", "is_number", "is_plain", "local_function"]
