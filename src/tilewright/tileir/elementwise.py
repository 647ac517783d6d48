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
    arith.Exp: "exp",
    arith.Exp2: "exp2",
    arith.Log: "log",
    arith.Log2: "log2",
    arith.Rsqrt: "rsqrt",
    arith.Floor: "floor",
    arith.Ceil: "ceil",
    arith.Sin: "sin",
    arith.Cos: "cos",
    arith.Tan: "tan",
    arith.Sinh: "sinh",
    arith.Cosh: "cosh",
    arith.Tanh: "tanh",
    arith.Atan2: "atan2",
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
