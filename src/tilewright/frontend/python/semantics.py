"""What expressions of tile code mean, on values of compile time: operators, attributes, items, calls.

Apart from the walker of syntax trees, ``tracer.Tracer``: where Python itself runs tile code, there is no tree.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from tilewright.frontend.python import calls, objects
from tilewright.frontend.python.builtins import Range
from tilewright.frontend.python.constants import COMPARE, FoldError, check_range
from tilewright.frontend.python.expressions import is_number, is_plain
from tilewright.frontend.python.formatting import FormattedString, joined, parts_of
from tilewright.frontend.python.joins import Joins
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops.convert import folded, strict_constant, to_condition, to_tile
from tilewright.frontend.python.ops.table import OPERATORS
from tilewright.frontend.python.scope import Scope
from tilewright.frontend.python.source import Source
from tilewright.frontend.python.values import Array, Keywords, Tile
from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.dtypes import int32, int64
from tilewright.ir.errors import TileError, TileTypeError, TileValueError

_TEXT = (str, FormattedString)


class ValueSemantics:
    """The meaning of expressions on values. Implements ``context.Context`` for the op builders."""

    def __init__(self, builder: Builder, joins: Joins | None = None) -> None:
        self.builder = builder
        self.joins = joins  # records what the joins of control flow make of numbers

    def fail(
        self,
        message: str,
        error: type[TileError] = TileTypeError,
        *,
        argument: str | None = None,
        at: ast.AST | None = None,
    ) -> NoReturn:
        """Raise ``error`` here; a walker of source raises it at ``at``, or at the ``argument`` of a call."""
        raise error(message, self.builder.loc)

    def inline(self, source: Source, scope: Scope) -> Any:
        """The result of a function of Python, called with what ``scope`` names. Who walks its source defines that."""
        raise NotImplementedError(f"{source.name}() is called by Python itself")

    def mapping(self, value: Any) -> Mapping[str, Any]:
        """The items of ``**value``."""
        if not isinstance(value, dict):
            self.fail(f"only the dictionary of keyword arguments can follow '**', not {describe(value)}")
        return value

    def truth(self, value: Any) -> bool | Value:
        """``value`` as a condition: a bool when it is known, else a bool scalar in the IR."""
        if isinstance(value, Tile) or is_number(value):
            return to_condition(self, value)
        if is_plain(value):
            return bool(value)
        return objects.truth(self, value)

    def imported(self, value: Any, name: str) -> Any:
        """A variable of the module or of an enclosing host function as tile code sees it."""
        if isinstance(value, np.generic):
            return strict_constant(self, value)
        if isinstance(value, (list, set, dict, bytes, bytearray, complex)) and not isinstance(value, Keywords):
            kind, advice = type(value).__name__, "make it a tuple or a number"
            if isinstance(value, (dict, list)) and name.isidentifier():
                advice = f"read it while the kernel is compiled, as in ct.static_eval({name}[...])"
            self.fail(f"{name!r} is a {kind}, which tile code cannot use; {advice}")
        if not isinstance(value, type) and (hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__")):
            self.fail(f"{name!r} is an array of the host; pass it to the kernel as an argument")
        if objects.is_mutable(value):
            kind = type(value).__name__
            self.fail(f"{name!r} is an instance of {kind}, a mutable dataclass; {objects.FROZEN}")
        if isinstance(value, int):
            try:
                check_range(value)
            except FoldError as e:
                self.fail(f"{name!r} cannot be used in tile code: {e}", TileValueError)
        return value

    def operator(self, key: str, *values: Any) -> Any:
        """An operator of which at least one operand is a tile."""
        return OPERATORS[key](self, *values)

    def binary(self, entry: tuple[str, Callable[[Any, Any], Any], str], x: Any, y: Any) -> Any:
        key, function, symbol = entry
        if is_number(x) and is_number(y):
            return folded(self, function, symbol, x, y)
        found, result = objects.binary_method(self, key, x, y)
        if found:
            return result
        if isinstance(x, Tile) or isinstance(y, Tile):
            return self.operator(key, x, y)
        if key == "add" and isinstance(x, tuple) and isinstance(y, tuple):
            return x + y
        if key == "add" and isinstance(x, _TEXT) and isinstance(y, _TEXT):
            return joined([*parts_of(x), *parts_of(y)])
        if key == "mul" and isinstance(x, tuple) and isinstance(y, int):
            return x * y
        advice = "; load tiles of arrays with ct.load" if isinstance(x, Array) or isinstance(y, Array) else ""
        self.fail(f"{describe(x)} and {describe(y)} cannot be combined with {symbol}{advice}")

    def compare(self, op: ast.cmpop, x: Any, y: Any) -> Any:
        if isinstance(op, (ast.Is, ast.IsNot)):
            if x is not None and y is not None:
                self.fail("'is' compares with None only; use == for values")
            return (x is y) is isinstance(op, ast.Is)
        if isinstance(op, (ast.In, ast.NotIn)):
            return objects.contains(self, x, y, isinstance(op, ast.NotIn))
        key, function, symbol = COMPARE[type(op)]
        found, result = objects.binary_method(self, key, x, y)
        if found:
            return result
        if isinstance(x, Tile) or isinstance(y, Tile):
            if (x is None or y is None or isinstance(x, str) or isinstance(y, str)) and key in ("eq", "ne"):
                return key == "ne"
            return self.operator(key, x, y)
        if isinstance(x, tuple) and isinstance(y, tuple) and not (is_plain(x) and is_plain(y)):
            return objects.compare_tuples(self, key, x, y)
        return objects.compare_constants(self, key, function, symbol, x, y)

    def subscript(self, value: Any, index: Any) -> Any:
        if isinstance(value, Tile) or is_number(value):
            return OPERATORS["getitem"](self, to_tile(self, value), index)
        return objects.subscript(self, value, index)

    def call(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call any callable of tile code with compile-time values."""
        return calls.call(self, function, arguments, keywords)

    def method_result(self, value: Any, name: str, *arguments: Any) -> tuple[bool, Any]:
        """Whether the dataclass of ``value`` defines the method ``name``, and its result."""
        found, method = objects.find_method(value, name)
        return found, self.call(method, (value, *arguments), {}) if found else None

    def range_bounds(self, bounds: Range) -> tuple[Value, Value, Value]:
        """The bounds of a range as scalars of one type: int32, or int64 when one of them needs it."""
        parts = (bounds.start, bounds.stop, bounds.step)
        wide = any(p.dtype.bitwidth == 64 if isinstance(p, Tile) else not -(1 << 31) <= p < 1 << 31 for p in parts)
        dtype = int64 if wide else int32
        lower, upper, step = (to_tile(self, p, dtype).value for p in parts)
        return lower, upper, step
