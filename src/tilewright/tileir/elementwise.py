"""Elementwise ops that CUDA Tile IR and our IR share: their operands come in one order, and so do their modes."""

from __future__ import annotations

from tilewright.ir.core import Op
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops import arith
from tilewright.tileir.optable import BY_NAME

# Ops on floats; on integers CUDA Tile IR has others.
FLOATS: dict[type[Op], str] = {
    arith.Add: "addf",
    arith.Sub: "subf",
    arith.Mul: "mulf",
    arith.Div: "divf",
    arith.Rem: "remf",
    arith.Max: "maxf",
    arith.Min: "minf",
    arith.Neg: "negf",
    arith.Abs: "absf",
}
# Ops on everything that they are for.
SHARED: dict[type[Op], str] = {
    arith.Fma: "fma",
    arith.Sqrt: "sqrt",
    arith.Pow: "fpowf",
    arith.MulHi: "mulhii",
    arith.And: "andi",
    arith.Or: "ori",
    arith.Xor: "xori",
    arith.Select: "select",
    **{getattr(arith, name.capitalize()): name for name in ("exp", "exp2", "log", "log2", "rsqrt", "floor", "ceil")},
    **{getattr(arith, name.capitalize()): name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "atan2")},
}
PREDICATES = {
    CmpPredicate.EQ: "equal",
    CmpPredicate.NE: "not_equal",
    CmpPredicate.LT: "less_than",
    CmpPredicate.LE: "less_than_or_equal",
    CmpPredicate.GT: "greater_than",
    CmpPredicate.GE: "greater_than_or_equal",
}
_MODES = {"rounding_mode": "rounding", "flush_to_zero": "flush_to_zero", "propagate_nan": "propagate_nan"}


def shared_modes(name: str) -> dict[str, str]:
    """The attributes of a shared op of CUDA Tile IR, by what ours are called."""
    spec = BY_NAME[name]
    return {theirs: _MODES[theirs] for theirs in (*(a.name for a in spec.attributes), *spec.units)}
