"""The table from op name to evaluator: ``evaluator(dtype, attributes, *arrays)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.ir.dtypes import DType
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.semantics import arithmetic as arith
from tilewright.ir.semantics.conversion import bitcast_op, cast_op, to_float64
from tilewright.ir.semantics.rounding import Array
from tilewright.ir.types import ElementType

Evaluator = Callable[..., Array]

_COMPARE: dict[CmpPredicate, Callable[[Array, Array], Array]] = {
    CmpPredicate.EQ: np.equal,
    CmpPredicate.NE: np.not_equal,
    CmpPredicate.LT: np.less,
    CmpPredicate.LE: np.less_equal,
    CmpPredicate.GT: np.greater,
    CmpPredicate.GE: np.greater_equal,
}
_BITWISE = {name: getattr(np, f"bitwise_{name}") for name in ("and", "or", "xor")}
_WRAPPING = {"add": np.add, "mul": np.multiply}
_EXTREMA = {"min": np.minimum, "max": np.maximum}  # of integers; those of floats drop NaNs, and tell zeros apart


def _direct(ufunc: Callable[..., Array]) -> Evaluator:
    """An op that NumPy and ml_dtypes have under the same rule for every dtype that it takes."""
    return lambda dtype, attributes, *operands: ufunc(*operands)


def _compare(dtype: ElementType, attributes: Mapping[str, Any], a: Array, b: Array) -> Array:
    if isinstance(dtype, DType) and dtype.is_restricted:
        a, b = to_float64(a, dtype), to_float64(b, dtype)
    return _COMPARE[attributes["predicate"]](a, b)


def _shift_left(dtype: DType, attributes: Mapping[str, Any], a: Array, b: Array) -> Array:
    fits = b.view(f"u{dtype.bytes}") < dtype.bitwidth
    return np.where(fits, a << np.where(fits, b, np.zeros_like(b)), np.zeros_like(a))


def _shift_right(dtype: DType, attributes: Mapping[str, Any], a: Array, b: Array) -> Array:
    fits = b.view(f"u{dtype.bytes}") < dtype.bitwidth
    if dtype.is_signed:
        return a >> np.where(fits, b, np.full_like(b, dtype.bitwidth - 1))
    return np.where(fits, a >> np.where(fits, b, np.zeros_like(b)), np.zeros_like(a))


TABLE: dict[str, Evaluator] = {
    **{name: arith.arithmetic(name) for name in ("add", "sub", "mul", "div", "sqrt", "fma")},
    "rem": arith.remainder,
    "neg": arith.negate,
    "abs": arith.absolute,
    "mulhi": arith.multiply_high,
    "min": arith.extremum(smaller=True),
    "max": arith.extremum(smaller=False),
    "pow": arith.function(np.power),
    "atan2": arith.function(np.arctan2),
    **{name: arith.function(getattr(np, name)) for name in ("exp", "exp2", "log", "log2")},
    **{name: arith.function(getattr(np, name)) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "rsqrt": arith.function(lambda x: 1.0 / np.sqrt(x)),
    **{name: _direct(getattr(np, name)) for name in ("floor", "ceil", "isnan", "isinf")},
    **{name: _direct(ufunc) for name, ufunc in _BITWISE.items()},
    "not": _direct(np.bitwise_not),
    "shl": _shift_left,
    "shr": _shift_right,
    "cmp": _compare,
    "select": _direct(np.where),
    "cast": cast_op,
    "bitcast": bitcast_op,
}


def evaluate(op_name: str, dtype: ElementType, attributes: Mapping[str, Any], arrays: Sequence[Array]) -> Array:
    """The elementwise op ``op_name`` on ``arrays``, which broadcast against each other.

    ``dtype`` is that of the operands (for ``select``, of its values); arrays hold its storage form, and pointers are
    64-bit addresses. Attributes are those of the op; absent ones take their defaults. NumPy's floating-point
    warnings stay silent. KeyError for an op that is not a numeric elementwise one.
    """
    with np.errstate(all="ignore"):
        return np.asarray(TABLE[op_name](dtype, attributes, *arrays))


def as_ufunc(op_name: str, dtype: ElementType, attributes: Mapping[str, Any]) -> np.ufunc | None:
    """The function of NumPy that alone is the op ``op_name`` on arrays of ``dtype``, None where there is none."""
    if op_name in _BITWISE:
        return _BITWISE[op_name]
    if not isinstance(dtype, DType) or dtype.is_bool or attributes.get("flush_to_zero"):
        return None
    if attributes.get("rounding", RoundingMode.RN) is not RoundingMode.RN:
        return None
    return _WRAPPING.get(op_name) or (None if dtype.is_float else _EXTREMA.get(op_name))
