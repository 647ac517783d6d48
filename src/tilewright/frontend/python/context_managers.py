"""``with`` over functions marked ``@contextlib.contextmanager``, whose bodies are traced around the block."""

from __future__ import annotations

import ast
import contextlib
import inspect
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.frontend.python.paths import Cleanup
from tilewright.frontend.python.scope import CallFrame, Scope, captured
from tilewright.frontend.python.source import source_of
from tilewright.ir.errors import TileSyntaxError
from tilewright.records import dataclass

if TYPE_CHECKING:
    from tilewright.frontend.python.semantics import ValueSemantics
    from tilewright.frontend.python.tracer import Tracer


def with_statement(t: Tracer, node: ast.With) -> bool:
    """``with`` over functions marked ``@contextlib.contextmanager``: their body is traced around the block."""
    return _with(t, node, 0, lambda: t.body(node.body))


def _with(t: Tracer, node: ast.With, i: int, body: Callable[[], bool]) -> bool:
    """Trace ``body`` within the items of ``node`` from number ``i`` on; gives whether its end is reached."""
    if i == len(node.items):
        return body()
    item = node.items[i]
    managed = t.eval(item.context_expr)
    t.locate(item.context_expr)
    if not isinstance(managed, ManagedBlock):
        t.fail("'with' needs a call of a function marked @contextlib.contextmanager", TileSyntaxError)
    generator = managed.generator
    source = source_of(generator.__code__)
    assert isinstance(source.node, ast.FunctionDef)
    if managed.entered:
        t.fail(f"the context manager {generator.__name__}() is entered a second time; call it again")
    managed.entered = True
    scope = Scope({}, None, captured(generator), generator.__globals__)
    scope.names = t.bind_arguments(
        source, generator.__defaults__ or (), generator.__kwdefaults__ or {}, managed.arguments, managed.keywords
    )
    around = list(t.frames)

    def block(value: Any) -> bool:
        within, t.frames[:] = list(t.frames), around
        if item.optional_vars is not None:
            t.assign(item.optional_vars, value)
        falls = _with(t, node, i + 1, body)
        t.frames[:] = within
        return falls

    t.frames.append(CallFrame(source, scope, t.builder.loc, t.frame.depth + 1))
    statements = _reachable(t, generator.__name__, source.node.body)
    falls = _around(t, generator.__name__, statements, block)
    t.frames[:] = around
    return falls


@dataclass(eq=False)
class ManagedBlock:
    """A call of a function marked ``@contextlib.contextmanager``: what ``with`` takes, once."""

    generator: types.FunctionType
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    entered: bool = False


def managed_block(
    t: ValueSemantics, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> ManagedBlock | None:
    """The call of ``function``, if it is marked ``@contextlib.contextmanager``."""
    if getattr(function, "__code__", None) is not _HELPER:
        return None
    generator = function.__wrapped__
    if not inspect.isgeneratorfunction(generator):
        t.fail(f"the context manager {function.__name__}() has no yield; it must have exactly one")
    return ManagedBlock(generator, arguments, keywords)


_HELPER = contextlib.contextmanager(lambda: iter(())).__code__


def generator_of(function: Any) -> types.FunctionType | None:
    """The generator function behind ``@contextlib.contextmanager``."""
    wrapped = getattr(function, "__wrapped__", None)
    made = getattr(function, "__code__", None)
    if isinstance(wrapped, types.FunctionType) and inspect.isgeneratorfunction(wrapped) and made is _HELPER:
        return wrapped
    return None


def _around(t: Tracer, name: str, statements: Sequence[ast.stmt], block: Callable[[Any], bool]) -> bool:
    """Trace the body of the context manager ``name``, ``block`` in place of its yield; whether its end is reached."""
    for i, node in enumerate(statements):
        if _yields(node):
            return _at_yield(t, name, node, statements[i + 1 :], block)
        if not t.body([node]):
            return False
    t.fail(f"the context manager {name}() reaches no yield; it must have exactly one")


def _at_yield(t: Tracer, name: str, node: ast.stmt, after: Sequence[ast.stmt], block: Callable[[Any], bool]) -> bool:
    second = next((node for s in after for node in _yields(s)), None)
    if second is not None:
        t.fail(f"the context manager {name}() has two yields; it must have exactly one", at=second)
    within: Callable[[], bool]
    if isinstance(node, ast.With):
        inner = node

        def within() -> bool:
            return _with(t, inner, 0, lambda: _around(t, name, inner.body, block))
    elif isinstance(node, (ast.Expr, ast.Assign)) and isinstance(node.value, ast.Yield):
        given = node.value.value
        if isinstance(node, ast.Assign):
            sent = ast.copy_location(ast.Constant(None), node.value)
            after = [ast.copy_location(ast.Assign(node.targets, sent), node), *after]

        def within() -> bool:
            return block(None if given is None else t.eval(given))
    else:
        t.fail(
            f"the yield of the context manager {name}() is in a branch, a loop or an expression; it must be a "
            "statement at the top level of the function, or of a 'with' there",
            at=node,
        )
    t.cleanups.append(Cleanup(len(t.contexts), list(t.frames), after))
    falls = within()
    t.cleanups.pop()
    return falls and t.body(after)


_EXITS = (ast.Return, ast.Break, ast.Continue, ast.Raise)


def _yields(node: ast.AST) -> list[ast.AST]:
    return _own(node, (ast.Yield, ast.YieldFrom))


def _own(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> list[ast.AST]:
    """The nodes of ``kinds`` in ``node`` that a run may reach, and that do not belong to a function defined there."""
    if isinstance(node, kinds):
        return [node]
    if isinstance(node, (ast.FunctionDef, ast.Lambda)) or _is_never(node):
        return []
    found: list[ast.AST] = []
    for _, field in ast.iter_fields(node):
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST):
                found += _own(child, kinds)
            if isinstance(child, _EXITS):
                break
    return found


def _is_never(node: ast.AST) -> bool:
    test = node.test if isinstance(node, (ast.If, ast.While)) and not node.orelse else None
    return isinstance(test, ast.Constant) and not test.value


def _reachable(t: Tracer, name: str, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """``statements`` without those that no run reaches: below a return, and where a literal condition is false."""
    found: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.Return) and statement.value is None:
            break
        if _is_never(statement):
            continue
        if found_exit := _own(statement, (ast.Return, ast.Try)):
            t.fail(
                f"the context manager {name}() has a return or try; what follows its yield is done at every way out "
                "anyway",
                TileSyntaxError,
                at=found_exit[0],
            )
        found.append(statement)
    return found
