"""Statements: one function per syntax class, in the table ``STATEMENTS``; each tells whether control falls through."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.frontend.python import context_managers, control_flow, static
from tilewright.frontend.python.builtins import Range
from tilewright.frontend.python.constants import BINARY
from tilewright.frontend.python.expressions import conditional, local_function, rejected
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.paths import RETURN
from tilewright.frontend.python.values import Array, Tile
from tilewright.ir.errors import TileSyntaxError, TileValueError

if TYPE_CHECKING:
    from tilewright.frontend.python.tracer import Tracer


def assign(t: Tracer, target: ast.expr, value: Any) -> None:
    """Bind ``value`` to an assignment target."""
    if isinstance(target, ast.Name):
        t.scope.names[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(t, target, value)
    elif isinstance(target, ast.Starred):
        t.fail("tile code has no starred assignment targets; index the tuple instead", TileSyntaxError, at=target)
    elif isinstance(target, ast.Subscript):
        t.set_item(target, value)
    else:
        t.fail("tile code cannot assign to attributes: objects are immutable", TileSyntaxError, at=target)


def _unpack(t: Tracer, target: ast.Tuple | ast.List, value: Any) -> None:
    t.locate(target)
    if not isinstance(value, tuple):
        advice = "; a tile is not iterable: use ct.extract" if isinstance(value, Tile) else ""
        t.fail(f"cannot unpack {describe(value)}; only tuples can be unpacked{advice}")
    if any(isinstance(e, ast.Starred) for e in target.elts):
        t.fail("tile code has no starred assignment targets; index the tuple instead", TileSyntaxError)
    if len(value) != len(target.elts):
        t.fail(f"cannot unpack {len(value)} values into {len(target.elts)} targets", TileValueError)
    for element, item in zip(target.elts, value):
        assign(t, element, item)


def _assign(t: Tracer, node: ast.Assign) -> bool:
    if isinstance(node.value, ast.IfExp) and all(isinstance(target, ast.Name) for target in node.targets):
        value = conditional(t, node.value)  # a variable without a single type is an error where it is read
    else:
        value = t.eval(node.value)
    for target in node.targets:
        assign(t, target, value)
    return True


def _annotated(t: Tracer, node: ast.AnnAssign) -> bool:
    if node.value is not None:
        assign(t, node.target, t.eval(node.value))
    return True


def _augmented(t: Tracer, node: ast.AugAssign) -> bool:
    if isinstance(node.target, ast.Name):
        current = t.eval(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
    elif isinstance(node.target, ast.Subscript):
        t.fail("tiles and arrays are immutable in tile code; use ct.store, ct.scatter or ct.insert", at=node)
    else:
        t.fail("tile code cannot assign to attributes: objects are immutable", TileSyntaxError, at=node.target)
    value = t.eval(node.value)
    t.locate(node)
    assign(t, node.target, t.binary(BINARY[type(node.op)], current, value))
    return True


def _expression(t: Tracer, node: ast.Expr) -> bool:
    if not isinstance(node.value, ast.Constant):  # docstrings and "..." do nothing
        t.eval(node.value)
    return True


def _for(t: Tracer, node: ast.For) -> bool:
    if node.orelse:
        t.fail("tile code has no 'else' on loops; set a flag in the loop and test it afterwards", TileSyntaxError)
    items = static.static_items(t, node.iter)
    if items is not None:
        return static.unroll(t, node, items)
    value = t.eval(node.iter)
    t.locate(node.iter)
    if isinstance(value, range):  # of ct.static_eval
        value = t.call(range, (value.start, value.stop, value.step), {})
    if not isinstance(value, Range):
        what = describe(value)
        advice = (
            "ct.static_iter(...) unrolls a loop over a tuple" if isinstance(value, tuple) else "loop over range(...)"
        )
        if isinstance(value, (Tile, Array)):
            advice = "loop over range(...) and use ct.extract or ct.load"
        t.fail(f"a for loop cannot iterate over {what}; {advice}")
    if not isinstance(node.target, ast.Name):
        t.fail("the variable of a for loop over range(...) must be a plain name", TileSyntaxError, at=node.target)
    return control_flow.range_loop(t, node, node.target.id, t.range_bounds(value))


def _break(t: Tracer, node: ast.Break) -> bool:
    _inside_loop(t, "break")
    return control_flow.leave(t, "break")


def _continue(t: Tracer, node: ast.Continue) -> bool:
    _inside_loop(t, "continue")
    return control_flow.leave(t, "continue")


def _inside_loop(t: Tracer, word: str) -> None:
    if t.contexts[-1].static:
        t.fail(f"{word!r} is not possible in a loop over ct.static_iter(...), which is unrolled", TileSyntaxError)
    if not t.contexts[-1].is_loop:
        t.fail(f"{word!r} outside a loop", TileSyntaxError)


def _return(t: Tracer, node: ast.Return) -> bool:
    if t.contexts[-1].static:
        t.fail("'return' is not possible in a loop over ct.static_iter(...), which is unrolled", TileSyntaxError)
    value = None if node.value is None else t.eval(node.value)
    if value is not None and t.frame.depth == 0:
        t.fail("a kernel cannot return a value; store results with ct.store", at=node.value)
    t.locate(node)
    t.scope.names = {**t.scope.names, RETURN: value}
    return control_flow.leave(t, RETURN)


def _function(t: Tracer, node: ast.FunctionDef) -> bool:
    if node.decorator_list:
        t.fail("a nested function cannot have decorators; define it at module level", TileSyntaxError, at=node)
    assign(t, ast.Name(node.name, ast.Store()), local_function(t, node, node.name))
    return True


STATEMENTS: dict[type[ast.stmt], Callable[[Any, Any], bool]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.Pass: lambda t, node: True,
    ast.If: control_flow.if_statement,
    ast.While: control_flow.while_loop,
    ast.For: _for,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Return: _return,
    ast.FunctionDef: _function,
    ast.With: context_managers.with_statement,
    ast.Raise: static.raise_statement,
    ast.Assert: rejected("'assert'; use ct.assert_(condition, message), or ct.static_assert for constants"),
    **dict.fromkeys(
        (ast.Try, getattr(ast, "TryStar", ast.Try)),
        rejected("'try': nothing can be raised at run time; test with if, or leave it out"),
    ),
    ast.ClassDef: rejected("class definitions; define a frozen dataclass at module level"),
    ast.Import: rejected("'import'; import at module level"),
    ast.ImportFrom: rejected("'import'; import at module level"),
    ast.Global: rejected("'global': module variables are constants in tile code"),
    ast.Nonlocal: rejected("'nonlocal'; return the value instead"),
    ast.Delete: rejected("'del'; leave it out: tiles that are not used any more cost nothing"),
    ast.Match: rejected("'match'; write if and elif"),
    ast.AsyncFunctionDef: rejected("async functions; write def"),
    ast.AsyncFor: rejected("'async for'; write for"),
    ast.AsyncWith: rejected("'async with'; write with"),
}
