"""Which formula serves each mathematical op and dtype.

``docs/numerics.md`` states how accurate they are. float16 and bfloat16 are float32 results rounded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from tilewright.backends.vector import exponential, logarithm, power, trigonometry
from tilewright.backends.vector.arith import flushed
from tilewright.backends.vector.convert import round_to_dtype
from tilewright.backends.vector.request import ElementOp
from tilewright.backends.vector.types import F32, F64
from tilewright.backends.vector.value import Val, square_root
from tilewright.ir.enums import RoundingMode

Formula = Callable[..., Val]

# Formulas for float32 and float64 registers.
_NATIVE: dict[str, Formula] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "log": logarithm.log,
    "log2": logarithm.log2,
    **{name: functools.partial(trigonometry.circular, name) for name in ("sin", "cos")},
    "tanh": exponential.tanh,
    "pow": power.power,
    "rsqrt": lambda x: 1.0 / square_root(x),
}
# Formulas for float64 registers only: float32 goes through them.
_DOUBLE: dict[str, Formula] = {
    "tan": functools.partial(trigonometry.circular, "tan"),
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "atan2": trigonometry.atan2,
}
# Short enough to be repeated at each use: in float32, and in both formats.
_SHORT_F32 = frozenset({"exp", "exp2", "log", "log2", "tanh"})
_SHORT = frozenset({"rsqrt"})


def _through_double(formula: Formula) -> Formula:
    def narrow(*operands: Val) -> Val:
        if operands[0].scalar == F64:
            return formula(*operands)
        return formula(*(x.to_f64() for x in operands)).to_f32()

    return narrow


_FORMULAS = {**_NATIVE, **{name: _through_double(formula) for name, formula in _DOUBLE.items()}}


def evaluate(op: ElementOp, *operands: Val) -> Val:
    """float16 and bfloat16 are computed in float32 and rounded."""
    formula = _FORMULAS[op.name]
    if op.name == "exp" and op.rounding is RoundingMode.APPROX and operands[0].at.features.fma:
        formula = exponential.approximate_exp  # of float32 only, as its rounding is
    if op.name in _SHORT or (op.name in _SHORT_F32 and operands[0].scalar == F32):
        result = flushed(formula, op, *operands)
    else:
        result = flushed(lambda *xs: xs[0].at.outlined(f"math.{op.name}", formula, *xs), op, *operands)
    return round_to_dtype(result, op.dtype) if op.dtype.bitwidth == 16 else result


MATH_OPS: dict[str, Formula] = dict.fromkeys(_FORMULAS, evaluate)
