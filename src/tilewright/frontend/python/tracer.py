"""Walks the syntax tree of a kernel and emits Tile IR."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from typing import Any, NoReturn

from tilewright.frontend.python import calls, control_flow, objects
from tilewright.frontend.python import statements as statement_table
from tilewright.frontend.python.expressions import EXPRESSIONS
from tilewright.frontend.python.joins import Joins
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.paths import Cleanup, Context
from tilewright.frontend.python.scope import CallFrame, Scope
from tilewright.frontend.python.semantics import ValueSemantics
from tilewright.frontend.python.source import Source
from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.errors import TileError, TileRecursionError, TileSyntaxError, TileTypeError

MAX_DEPTH = 1000


class Tracer(ValueSemantics):
    """The state of tracing one kernel, statement by statement."""

    def __init__(self, builder: Builder, joins: Joins | None = None) -> None:
        super().__init__(builder, joins)
        self.frames: list[CallFrame] = []
        self.contexts: list[Context] = []
        self.cleanups: list[Cleanup] = []
        self.call_node: ast.Call | None = None
        self.callee: Any = None  # the stub that ``call_node`` calls

    @property
    def frame(self) -> CallFrame:
        return self.frames[-1]

    @property
    def scope(self) -> Scope:
        return self.frames[-1].scope

    # -- positions and errors

    def locate(self, node: ast.AST) -> None:
        """Ops and errors from now on belong to ``node``."""
        frame = self.frames[-1]
        self.builder.locate(functools.partial(frame.source.loc, node, frame.caller))

    def fail(
        self,
        message: str,
        error: type[TileError] = TileTypeError,
        *,
        argument: str | None = None,
        at: ast.AST | None = None,
    ) -> NoReturn:
        """Raise ``error`` here, at ``at``, or at the expression given for the parameter ``argument`` of a call."""
        if argument is not None and self.call_node is not None:
            at = calls.argument_node(self.call_node, self.callee, argument) or at
        if at is not None:
            self.locate(at)
        raise error(message, self.builder.loc)

    # -- statements and expressions

    def body(self, statements: Sequence[ast.stmt]) -> bool:
        """Trace ``statements``; False when control never reaches their end."""
        for statement in statements:
            self.locate(statement)
            handler = statement_table.STATEMENTS.get(type(statement))
            if handler is None:
                self.fail(f"tile code has no {type(statement).__name__} statement", TileSyntaxError)
            if not handler(self, statement):
                return False
        return True

    def eval(self, node: ast.expr) -> Any:
        """The compile-time value of an expression."""
        self.locate(node)
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            self.fail(f"tile code has no {type(node).__name__} expression", TileSyntaxError)
        return handler(self, node)

    def elements(self, nodes: Sequence[ast.expr]) -> list[Any]:
        """The values of a display or an argument list, with ``*tuple`` expanded."""
        found: list[Any] = []
        for node in nodes:
            if not isinstance(node, ast.Starred):
                found.append(self.eval(node))
                continue
            value = self.eval(node.value)
            if not isinstance(value, tuple):
                self.fail(f"only a tuple can follow '*', not {describe(value)}", at=node)
            found.extend(value)
        return found

    def condition(self, node: ast.expr) -> bool | Value:
        value = self.eval(node)
        self.locate(node)
        return self.truth(value)

    # -- attributes, items, calls

    def set_item(self, target: ast.Subscript, value: Any) -> None:
        receiver = self.eval(target.value)
        index = self.eval(target.slice)
        self.locate(target)
        objects.set_item(self, receiver, index, value)

    def call_at(self, node: ast.Call, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A call written in the source; errors about an argument point at its expression."""
        outer, self.call_node = (self.call_node, self.callee), node
        self.callee = function
        try:
            return calls.call(self, function, arguments, keywords)
        finally:
            self.call_node, self.callee = outer

    def inline(self, source: Source, scope: Scope) -> Any:
        """Trace the body of a function in place, in a frame of its own."""
        if self.frame.depth >= MAX_DEPTH:
            self.fail(
                f"{source.name}() recurses more than {MAX_DEPTH} calls deep while the kernel is compiled. Calls "
                "are expanded in place, so recursion must end at a condition that is known at compile time; "
                "otherwise write a loop",
                TileRecursionError,
            )
        where, call_node = self.builder.loc, self.call_node
        self.frames.append(CallFrame(source, scope, where, self.frame.depth + 1))
        self.call_node = None
        try:
            node = source.node
            if isinstance(node, ast.Lambda):
                return self.eval(node.body)
            return control_flow.run_function(self, node.body)
        finally:
            self.frames.pop()
            self.builder.loc, self.call_node = where, call_node

    # -- used by the modules that trace parts of a kernel

    def assign(self, target: ast.expr, value: Any) -> None:
        """Bind ``value`` to an assignment target."""
        statement_table.assign(self, target, value)

    def bind_arguments(self, source: Source, *rest: Any) -> dict[str, Any]:
        return calls.bind_arguments(self, source, *rest)
