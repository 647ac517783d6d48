"""Operators on compile-time Python values: they fold by Python's own rules."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from tilewright.ir.errors import TileError, TileTypeError, TileValueError

# AST operator -> key of the table of operators on tiles, and Python's own function.
BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any], str]] = {
    ast.Add: ("add", operator.add, "+"),
    ast.Sub: ("sub", operator.sub, "-"),
    ast.Mult: ("mul", operator.mul, "*"),
    ast.Div: ("truediv", operator.truediv, "/"),
    ast.FloorDiv: ("floordiv", operator.floordiv, "//"),
    ast.Mod: ("mod", operator.mod, "%"),
    ast.Pow: ("pow", operator.pow, "**"),
    ast.MatMult: ("matmul", operator.matmul, "@"),
    ast.BitAnd: ("and_", operator.and_, "&"),
    ast.BitOr: ("or_", operator.or_, "|"),
    ast.BitXor: ("xor", operator.xor, "^"),
    ast.LShift: ("lshift", operator.lshift, "<<"),
    ast.RShift: ("rshift", operator.rshift, ">>"),
}
UNARY: dict[type[ast.unaryop], tuple[str, Callable[[Any], Any], str]] = {
    ast.USub: ("neg", operator.neg, "-"),
    ast.UAdd: ("pos", operator.pos, "+"),
    ast.Invert: ("invert", operator.invert, "~"),
    ast.Not: ("not_", operator.not_, "not"),
}
COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any], str]] = {
    ast.Eq: ("eq", operator.eq, "=="),
    ast.NotEq: ("ne", operator.ne, "!="),
    ast.Lt: ("lt", operator.lt, "<"),
    ast.LtE: ("le", operator.le, "<="),
    ast.Gt: ("gt", operator.gt, ">"),
    ast.GtE: ("ge", operator.ge, ">="),
}

# Operator on two values -> the methods that Python looks for: of the left operand, and of the right one.
DUNDERS: dict[str, tuple[str, str]] = {
    **{
        key: (f"__{key.strip('_')}__", f"__r{key.strip('_')}__")
        for key in ("divmod", *(key for key, _, _ in BINARY.values()))
    },
    **{a: (f"__{a}__", f"__{b}__") for a, b in (("lt", "gt"), ("le", "ge"), ("gt", "lt"), ("ge", "le"))},
    **{key: (f"__{key}__", f"__{key}__") for key in ("eq", "ne")},
}


def define_operators(
    cls: type, binary: Callable[[str, bool], Callable[..., Any]], unary: Callable[[str], Callable[..., Any]]
) -> None:
    """Give ``cls`` Python's operators: ``binary`` makes a method from the key of an operator and whether the operands
    are reflected, ``unary`` from the key."""
    for key, _, _ in BINARY.values():
        for name, is_reflected in zip(DUNDERS[key], (False, True)):
            setattr(cls, name, binary(key, is_reflected))
    for key, _, _ in COMPARE.values():
        setattr(cls, DUNDERS[key][0], binary(key, False))
    for operator_, (key, _, _) in UNARY.items():
        if operator_ is not ast.Not:
            setattr(cls, f"__{key}__", unary(key))


# The same operators as functions, for ``operator.add`` and the like in tile code.
OPERATOR_FUNCTIONS: dict[Callable[..., Any], str] = {
    function: key for table in (BINARY, UNARY, COMPARE) for key, function, _ in table.values()
}
OPERATOR_FUNCTIONS[operator.abs] = "abs"

_MAX_SHIFT = 1 << 12


class FoldError(Exception):
    """Why an operation on constants has no value, and the class of the error that tile code gets."""

    def __init__(self, message: str, error: type[TileError] = TileValueError) -> None:
        super().__init__(message)
        self.error = error


def fold(function: Callable[..., Any], *values: Any) -> Any:
    """``function(*values)`` by Python's rules. FoldError when it fails or leaves the range of constants."""
    if function in (operator.lshift, operator.pow) and _too_large(function, *values):
        raise FoldError("the result does not fit in 64 bits")
    try:
        result = function(*values)
    except TypeError as e:
        raise FoldError(str(e), TileTypeError) from None
    except (ArithmeticError, ValueError) as e:
        raise FoldError(str(e)) from None
    if isinstance(result, complex):
        raise FoldError("the result is a complex number")
    check_range(result)
    return result


def _too_large(function: Callable[..., Any], x: Any, y: Any) -> bool:
    unchanging = (0,) if function is operator.lshift else (0, 1, -1)
    if not (isinstance(x, int) and isinstance(y, int)) or x in unchanging or y < 0:
        return False
    return y > _MAX_SHIFT or (function is operator.pow and x.bit_length() * y > _MAX_SHIFT)


def check_range(value: Any) -> None:
    """FoldError when an integer is outside [-2**63, 2**64)."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise FoldError(f"the integer {value} does not fit in 64 bits")
