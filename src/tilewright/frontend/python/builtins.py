"""Python's own functions as tile code has them."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.frontend.python import objects
from tilewright.frontend.python.constants import FoldError, check_range
from tilewright.frontend.python.formatting import FormattedString, repr_of, text_of
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops.convert import folded, strict
from tilewright.frontend.python.ops.debug import print_values
from tilewright.frontend.python.values import ArrayList, Tile
from tilewright.ir.dtypes import bool_
from tilewright.ir.errors import TileValueError, UnsupportedCallError
from tilewright.records import dataclass

if TYPE_CHECKING:
    from tilewright.frontend.python.semantics import ValueSemantics


@dataclass(frozen=True)
class Range:
    """``range(start, stop, step)``: ints or integer scalars."""

    start: Any
    stop: Any
    step: Any


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def _arity(t: ValueSemantics, name: str, arguments: tuple[Any, ...], low: int, high: int | None = None) -> None:
    high = low if high is None else high
    if not low <= len(arguments) <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        t.fail(f"{name}() takes {wanted} argument{'s' * (wanted != '1')}, {len(arguments)} given")


def _range(t: ValueSemantics, *arguments: Any) -> Range:
    _arity(t, "range", arguments, 1, 3)
    for i, a in enumerate(arguments):
        integer = isinstance(a, int) and not isinstance(a, bool)
        if isinstance(a, Tile) and a.ndim == 0 and not a.value.tile.is_pointer:
            integer = a.dtype.is_integer and a.dtype.is_signed
        if not integer:
            fraction = isinstance(a, float) or (isinstance(a, Tile) and a.dtype.is_float)
            advice = "; quotients of integers are written with //" if fraction else ""
            wanted = f"it must be a signed integer scalar{advice}"
            t.fail(f"argument {i + 1} of range() is {describe(a)}; {wanted}")
    start, stop, step = (0, arguments[0], 1) if len(arguments) == 1 else (*arguments, 1)[:3]
    known = step.constant if isinstance(step, Tile) else step
    if known is not None and known <= 0:
        t.fail(f"the step of range() is {known}; only positive steps are possible. Count up and subtract")
    return Range(start, stop, step)


def _len(t: ValueSemantics, *arguments: Any) -> Any:
    _arity(t, "len", arguments, 1)
    (value,) = arguments
    if isinstance(value, ArrayList):
        return value.length
    if isinstance(value, (tuple, str, dict)):
        return len(value)
    found, result = t.method_result(value, "__len__")
    if found:
        return result
    t.fail(f"{describe(value)} has no len(); use .shape")


def _pair(name: str) -> Callable[..., Any]:
    def function(t: ValueSemantics, *arguments: Any) -> Any:
        if len(arguments) != 2:
            t.fail(f"{name}() takes exactly two arguments in tile code; ct.{name} reduces a tile")
        x, y = arguments
        if _is_number(x) and _is_number(y):
            return getattr(builtins, name)(x, y)
        return t.operator(name, x, y)

    return function


def _abs(t: ValueSemantics, *arguments: Any) -> Any:
    _arity(t, "abs", arguments, 1)
    (x,) = arguments
    return abs(x) if _is_number(x) else t.operator("abs", x)


def _divmod(t: ValueSemantics, *arguments: Any) -> Any:
    _arity(t, "divmod", arguments, 2)
    x, y = arguments
    if _is_number(x) and _is_number(y):
        return folded(t, divmod, "divmod", x, y)
    found, result = objects.binary_method(t, "divmod", x, y)
    return result if found else t.operator("divmod", x, y)


def _number(convert: Callable[[Any], Any], name: str) -> Callable[..., Any]:
    def function(t: ValueSemantics, *arguments: Any) -> Any:
        _arity(t, name, arguments, 1)
        (x,) = arguments
        known = x.constant if isinstance(x, Tile) else x
        if isinstance(known, (bool, int, float, str)):
            try:
                result = convert(known)
                check_range(result)
            except (ValueError, OverflowError, FoldError) as e:
                t.fail(f"{name}({known!r}): {e}", TileValueError)
            return result
        if isinstance(x, Tile):
            t.fail(f"{name}() needs a constant; convert a run-time value with .astype(ct.{name}32)")
        t.fail(f"{name}() cannot convert {describe(x)}")

    return function


def _bool(t: ValueSemantics, *arguments: Any) -> Any:
    _arity(t, "bool", arguments, 0, 1)
    if not arguments:
        return False
    condition = t.truth(arguments[0])
    if not isinstance(condition, bool):
        return Tile(condition)
    return strict(t, condition, bool_) if isinstance(arguments[0], Tile) else condition


def _tuple(t: ValueSemantics, *arguments: Any) -> tuple[Any, ...]:
    _arity(t, "tuple", arguments, 0, 1)
    if not arguments:
        return ()
    (value,) = arguments
    if isinstance(value, tuple):
        return tuple(value)
    t.fail(f"tuple() cannot iterate over {describe(value)}")


def _slice(t: ValueSemantics, *arguments: Any) -> slice:
    _arity(t, "slice", arguments, 1, 3)
    return slice(*arguments)


def _getitem(t: ValueSemantics, *arguments: Any) -> Any:
    _arity(t, "getitem", arguments, 2)
    return t.subscript(*arguments)


def _getattr(t: ValueSemantics, *arguments: Any) -> Any:
    _arity(t, "getattr", arguments, 2, 3)
    value, name = arguments[:2]
    if not isinstance(name, str):
        t.fail(f"the second argument of getattr() is {describe(name)}; it must be a string")
    if len(arguments) == 3 and not objects.has_attribute(t, value, name):
        return arguments[2]
    return objects.attribute(t, value, name)


def _print(t: ValueSemantics, *arguments: Any, sep: Any = " ", end: Any = "\n") -> None:
    print_values(t, arguments, sep, end)


def _str(t: ValueSemantics, *arguments: Any) -> str | FormattedString:
    _arity(t, "str", arguments, 0, 1)
    return text_of(t, arguments[0]) if arguments else ""


def _repr(t: ValueSemantics, *arguments: Any) -> str | FormattedString:
    _arity(t, "repr", arguments, 1)
    (value,) = arguments
    return repr_of(t, value)


def _breakpoint(t: ValueSemantics, *arguments: Any) -> None:
    """Nothing, where the source is to be run as Python anyway."""
    if t.joins is None:
        t.fail(
            "compiled code has no breakpoint(); run the kernel as Python: ct.launch(..., backend='python')",
            UnsupportedCallError,
        )


BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.breakpoint: _breakpoint,
    builtins.range: _range,
    builtins.len: _len,
    builtins.min: _pair("min"),
    builtins.max: _pair("max"),
    builtins.abs: _abs,
    builtins.divmod: _divmod,
    builtins.int: _number(int, "int"),
    builtins.float: _number(float, "float"),
    builtins.bool: _bool,
    builtins.tuple: _tuple,
    builtins.slice: _slice,
    builtins.getattr: _getattr,
    operator.getitem: _getitem,
    builtins.print: _print,
    builtins.str: _str,
    builtins.repr: _repr,
}

# Builtins that people try, and what to write instead.
REJECTED: dict[Any, str] = {
    builtins.sum: "use ct.sum(tile), or + for numbers",
    builtins.all: "compare and reduce with ct.min(condition.astype(ct.int32))",
    builtins.any: "compare and reduce with ct.max(condition.astype(ct.int32))",
    builtins.sorted: "tiles cannot be sorted",
    builtins.zip: "index the tuples in a loop over ct.static_iter(range(n))",
    builtins.enumerate: "loop over ct.static_iter(range(len(items))) and index the tuple",
    builtins.map: "write tuple(f(x) for x in ct.static_iter(items))",
    builtins.isinstance: "decide with ct.static_eval(isinstance(...))",
    builtins.type: "compare x.dtype instead",
    builtins.hasattr: "decide with ct.static_eval(hasattr(...))",
    builtins.round: "use ct.floor(x + 0.5)",
    builtins.pow: "write x ** y or ct.pow(x, y)",
    builtins.dict: "use keyword arguments or a frozen dataclass",
    builtins.list: "use a tuple",
    builtins.set: "use a tuple",
    builtins.iter: "loop over range(...)",
    builtins.id: "values have no identity",
    builtins.chr: "do it on the host",
    builtins.ord: "do it on the host",
    builtins.open: "tile code has no files",
    builtins.input: "tile code has no input",
    builtins.eval: "use ct.static_eval(...)",
    builtins.exec: "do it on the host",
    builtins.object: "use a frozen dataclass",
    builtins.reversed: "count with range() and index backwards",
    builtins.filter: "select with ct.where",
    builtins.next: "loop over range(...)",
    builtins.callable: "decide with ct.static_eval(callable(...))",
    builtins.vars: "name the variables",
    builtins.globals: "name the variables",
    builtins.locals: "name the variables",
    builtins.complex: "keep real and imaginary parts in two tiles",
    builtins.bytes: "use a uint8 tile",
    builtins.format: "write an f-string",
    builtins.hash: "values have no hash",
}
