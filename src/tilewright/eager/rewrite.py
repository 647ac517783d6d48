"""Kernels and the functions that they call, made to run as Python with the meaning of tile code.

They stay ordinary functions with the file and the lines of their source, so that debuggers, coverage and tracebacks
see what was written. Only what Python itself would decide differently is changed: every callee passes through
``Program.code``, which gives ``range``, ``min``, ``print`` and so on their meaning in tile code; operands of ``and``
and ``or`` become bools, and ``not`` works element by element; numbers become scalars where compiled code joins paths
on which they differ.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import functools
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilewright.eager import objects
from tilewright.eager.builder import ConcreteValue
from tilewright.eager.session import current
from tilewright.frontend.python.builtins import BUILTINS, Range
from tilewright.frontend.python.context_managers import generator_of
from tilewright.frontend.python.expressions import RESULT
from tilewright.frontend.python.joins import Joins, Types
from tilewright.frontend.python.ops.convert import constant
from tilewright.frontend.python.paths import RETURN
from tilewright.frontend.python.scope import captured
from tilewright.frontend.python.source import Source, source_of
from tilewright.frontend.python.static import SYNTACTIC
from tilewright.frontend.python.values import Tile
from tilewright.ir.dtypes import DType, dtype_from_short
from tilewright.ir.errors import TileError, TileSyntaxError
from tilewright.language.functions import TileFunction

# The variables of a rewritten function that hold the table of callees, ``bool`` and ``not`` of tile code, and what
# makes numbers scalars.
_CALLEES, _BOOL, _NOT, _JOINED = "__tile_code__", "__tile_bool__", "__tile_not__", "__tile_joined__"
_STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"]


class Program:
    """The functions that a kernel calls, rewritten.

    ``joins`` says which variables compiled code makes scalars where paths meet; None leaves numbers alone.
    """

    def __init__(self, joins: Joins | None) -> None:
        self._joins = joins
        self._table = _Callees(self.code)
        self._rewritten: dict[types.FunctionType, Callable[..., Any]] = {}
        self._called: dict[Any, list[Any]] = {}  # rewritten functions -> the functions that they call by name
        self._helpers = {_CALLEES: self._table, _BOOL: _BUILTINS[bool], _NOT: _not, _JOINED: _joined}

    def code(self, function: Any) -> Any:
        """What tile code calls when it says ``function``."""
        if isinstance(function, types.FunctionType):
            if function.__code__ in _made:
                return function
            if function not in self._rewritten:
                self._rewritten[function] = self._rewrite(function)
            return self._rewritten[function]
        if isinstance(function, types.MethodType):
            return types.MethodType(self.code(function.__func__), function.__self__)
        if isinstance(function, TileFunction):
            return self.code(function.function) if function.tile else function
        if isinstance(function, (types.BuiltinFunctionType, type)):
            return _BUILTINS.get(function, function)
        return function

    def kernel(self, function: types.FunctionType) -> Callable[..., Any]:
        """``code`` of a kernel, after that of every function which it calls by name."""
        pending: list[Any] = [function]
        seen: set[Any] = set()
        while pending:
            callee = pending.pop()
            if callee not in seen:
                seen.add(callee)
                pending += self._called.get(self._table[callee], ())
        return self._table[function]

    def _rewrite(self, function: types.FunctionType) -> Callable[..., Any]:
        """A function of the program with its calls rewritten; others as they are."""
        generator = generator_of(function)
        if generator is not None:
            return contextlib.contextmanager(self.code(generator))
        if not _is_program(function):
            return function
        try:
            source = source_of(function.__code__)
        except (TileSyntaxError, SyntaxError):
            return function  # Python runs it as it is
        free = function.__code__.co_freevars
        cells = dict(zip(free, function.__closure__ or ()))
        cells |= {name: types.CellType(helper) for name, helper in self._helpers.items()}
        rewriter = _Rewriter({**function.__globals__, **captured(function)}, source, self._joins)
        node: Any = rewriter.visit(copy.deepcopy(source.node))
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
            node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
            node.args.kw_defaults = [d and ast.Constant(None) for d in node.args.kw_defaults]
            body: list[ast.stmt] = [node]
        else:
            body = [ast.copy_location(ast.Expr(node), node)]
        name = function.__code__.co_name
        # A function that calls itself finds its name where it is defined: in the module, if not in a cell.
        own = f"global {name}" if isinstance(node, ast.FunctionDef) and name not in cells else "pass"
        module = ast.parse(f"def factory({', '.join(cells)}): {own}")
        module.body[0].body += body  # type: ignore[attr-defined]
        _shift(body, source.first_line - 1, source.indent)
        outer = next(c for c in compile(module, source.file, "exec").co_consts if isinstance(c, types.CodeType))
        code = next(c for c in outer.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
        _made.update(_nested(code))
        closure = tuple(cells[name] for name in code.co_freevars)
        made = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
        made.__kwdefaults__ = function.__kwdefaults__
        self._called[made] = rewriter.called
        return functools.update_wrapper(made, function)


class _Callees(dict[Any, Any]):
    """``Program.code`` as a table: functions are found without a Python call, which debuggers would step into."""

    def __init__(self, code: Callable[[Any], Any]) -> None:
        super().__init__()
        self._code = code

    def __missing__(self, callee: Any) -> Any:
        found = self._code(callee)
        if isinstance(callee, (types.FunctionType, TileFunction)) and getattr(callee, "__code__", None) not in _made:
            self[callee] = found  # what a kernel defines anew in each block is not kept
        return found


_made: set[types.CodeType] = set()  # rewritten code, and that of functions defined in it


def _is_program(function: types.FunctionType) -> bool:
    """Whether the function belongs to the program: neither to this package nor to the standard library."""
    file = function.__code__.co_filename
    ours = (function.__module__ or "").partition(".")[0] == __name__.partition(".")[0]
    return not ours and (not file.startswith(_STANDARD_LIBRARY) or "site-packages" in file)


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """``code`` and that of the functions that it defines."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _nested(inner)


def _shift(body: list[ast.stmt], lines: int, columns: int) -> None:
    """Move positions from the text of the function to its file."""
    for statement in body:
        for node in map(vars, ast.walk(ast.fix_missing_locations(statement))):
            if "lineno" in node:
                for name, shift in (("lineno", lines), ("col_offset", columns)):
                    node[name] += shift
                    node[f"end_{name}"] += shift


class _Rewriter(ast.NodeTransformer):
    """Rewrites calls, ``and``, ``or``, ``not`` and joins; what host code evaluates at compile time is left alone."""

    def __init__(self, names: dict[str, Any], source: Source, joins: Joins | None) -> None:
        self.names = names
        self.source = source
        self.joins = joins
        self.called: list[Any] = []
        self.results: list[DType | None] = []  # of the enclosing functions, where their paths return different numbers

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        self.results.append(self._types(node).get(RETURN))
        self.generic_visit(node)
        self.results.pop()
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        self.generic_visit(node)
        dtype = self.results[-1]
        if node.value is not None and dtype is not None:
            node.value = _scalar(node.value, dtype)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        callee = self._named(node.func)
        if isinstance(callee, types.FunctionType) and callee in SYNTACTIC:
            return node
        if isinstance(callee, (types.FunctionType, TileFunction)):
            self.called.append(callee)
        self.generic_visit(node)
        table = ast.copy_location(ast.Name(_CALLEES, ast.Load()), node.func)
        node.func = ast.copy_location(ast.Subscript(table, node.func, ast.Load()), node.func)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        node.values = [_applied(_BOOL, v) for v in node.values]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return ast.copy_location(_applied(_NOT, node.operand), node) if isinstance(node.op, ast.Not) else node

    def visit_If(self, node: ast.If) -> ast.stmt:
        types_ = self._variables(node.test)
        self.generic_visit(node)
        for branch in (node.body, node.orelse) if types_ else ():
            branch += _typed(types_, branch[-1] if branch else node, at_end=bool(branch))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        dtype = self._types(node.test).get(RESULT)
        self.generic_visit(node)
        if dtype is not None:
            node.body, node.orelse = _scalar(node.body, dtype), _scalar(node.orelse, dtype)
        return node

    def _loop(self, node: ast.For | ast.While) -> ast.stmt | list[ast.stmt]:
        """Numbers that a loop carries are scalars before, in and after it."""
        types_ = self._variables(node)
        self.generic_visit(node)
        if not types_:
            return node
        node.body[:0] = _typed(types_, node.body[0])
        return [*_typed(types_, node), node, *_typed(types_, node)]  # on the line that the loop is left from

    visit_For = visit_While = _loop

    def _types(self, node: ast.AST) -> Types:
        """The dtypes of what is joined at ``node``."""
        return self.joins.at(self.source.loc(node, None)) if self.joins is not None else {}

    def _variables(self, node: ast.AST) -> Types:
        """The dtypes of the variables that are joined at ``node``."""
        return {name: dtype for name, dtype in self._types(node).items() if name not in (RESULT, RETURN)}

    def _named(self, callee: ast.expr) -> Any:
        """What a name, or an attribute of a module, refers to outside of the function."""
        if isinstance(callee, ast.Name):
            return self.names.get(callee.id)
        if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name):
            module = self.names.get(callee.value.id)
            return getattr(module, callee.attr, None) if isinstance(module, types.ModuleType) else None
        return None


def _applied(name: str, argument: ast.expr) -> ast.expr:
    """``name(argument)``, at the location of ``argument``."""
    function = ast.copy_location(ast.Name(name, ast.Load()), argument)
    return ast.copy_location(ast.Call(function, [argument], []), argument)


def _typed(types_: Types, where: ast.stmt, *, at_end: bool = False) -> list[ast.stmt]:
    """``name = joined(name, dtype)`` for each name, on the first or the last line of ``where``."""
    made: list[ast.stmt] = []
    for name, dtype in types_.items():
        statement = ast.Assign([ast.Name(name, ast.Store())], _scalar(ast.Name(name, ast.Load()), dtype))
        for node in ast.walk(ast.fix_missing_locations(ast.copy_location(statement, where))):
            if at_end and isinstance(node, (ast.stmt, ast.expr)):
                node.lineno, node.col_offset = node.end_lineno or node.lineno, 0
        made.append(statement)
    return made


def _scalar(value: ast.expr, dtype: DType) -> ast.expr:
    """``joined(value, dtype)``, at the location of ``value``."""
    call = ast.Call(ast.Name(_JOINED, ast.Load()), [value, ast.Constant(dtype.short)], [])
    return ast.fix_missing_locations(ast.copy_location(call, value)) if hasattr(value, "lineno") else call


# -- builtins


def _range(*bounds: Any) -> Iterator[Any]:
    """``range`` counts in scalars, int32 or wider."""
    tracer = current()
    found = BUILTINS[range](tracer, *map(objects.unwrap, bounds))
    assert isinstance(found, Range)
    bounds = tracer.range_bounds(found)
    lower, upper, step = (objects.data_of(v) for v in bounds)
    if step <= 0:
        tracer.fail(f"the step of this loop is {int(step)}; it must be positive", TileError)
    kind = bounds[0].tile
    positions = range(int(lower), int(upper), int(step))
    return (objects.wrap(Tile(ConcreteValue(kind, np.array(i, lower.dtype)))) for i in positions)


def _on_tiles(function: Any) -> Callable[..., Any]:
    """A builtin that has the meaning of tile code on tiles, and that of Python otherwise."""

    @functools.wraps(function, assigned=("__name__", "__doc__"), updated=())
    def call(*arguments: Any, **keywords: Any) -> Any:
        if not objects.is_eager(arguments):
            return function(*arguments, **keywords)
        found = BUILTINS[function](current(), *map(objects.unwrap, arguments), **keywords)
        return objects.wrap(found)

    return call


def _joined(value: Any, dtype: str) -> Any:
    """A number that compiled code has as a scalar of ``dtype``."""
    if type(value) not in (bool, int, float):
        return value
    return objects.wrap(Tile(constant(current(), value, dtype_from_short(dtype))))


def _not(value: Any) -> Any:
    if not isinstance(value, objects.Tile):
        return not value
    return objects.wrap(current().operator("not_", objects.unwrap(value)))


def _print(*arguments: Any, **keywords: Any) -> None:
    """The text that compiled code prints."""
    print(*map(objects.text, arguments), **keywords)


_BUILTINS: dict[Any, Any] = {
    builtins.range: _range,
    builtins.print: _print,
    builtins.str: lambda *a: objects.text(*a) if a else "",
    **{f: _on_tiles(f) for f in (min, max, len, bool, abs, divmod)},
}
