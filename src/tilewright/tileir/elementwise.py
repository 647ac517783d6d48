"""What CUDA Tile IR and our IR share: elementwise ops, whose operands come in one order, as do their modes; terminators
and hints."""

from __future__ import annotations

from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.ops import arith, control, floats
from tilewright.tileir.optable import BY_NAME

_OF_NUMBERS = (arith.Add, arith.Sub, arith.Mul, arith.Div, arith.Rem, arith.Max, arith.Min, arith.Neg, arith.Abs)
_FUNCTIONS = (
    *(arith.Fma, arith.Sqrt, arith.Select, floats.Rsqrt, floats.Floor, floats.Ceil, floats.Atan2),
    *(floats.Exp, floats.Exp2, floats.Log, floats.Log2),
    *(floats.Sin, floats.Cos, floats.Tan, floats.Sinh, floats.Cosh, floats.Tanh),
)
# Ops on floats; on integers CUDA Tile IR has others.
FLOATS: dict[type[Op], str] = {cls: f"{cls.spec.name}f" for cls in _OF_NUMBERS}
# Ops on everything that they are for.
SHARED: dict[type[Op], str] = {
    **{cls: cls.spec.name for cls in _FUNCTIONS},
    **{cls: f"{cls.spec.name}i" for cls in (arith.And, arith.Or, arith.Xor)},
    arith.MulHi: "mulhii",
    floats.Pow: "fpowf",
}
PREDICATES = {
    CmpPredicate.EQ: "equal",
    CmpPredicate.NE: "not_equal",
    CmpPredicate.LT: "less_than",
    CmpPredicate.LE: "less_than_or_equal",
    CmpPredicate.GT: "greater_than",
    CmpPredicate.GE: "greater_than_or_equal",
}
TERMINATORS: dict[type[Op], str] = {control.Yield: "yield", control.Continue: "continue", control.Break: "break"}
ENTRY_HINTS = {"num_ctas": "num_cta_in_cga", "occupancy": "occupancy", "num_worker_warps": "num_worker_warps_per_cta"}
_MODES = {"rounding_mode": "rounding", "flush_to_zero": "flush_to_zero", "propagate_nan": "propagate_nan"}


def shared_modes(name: str) -> dict[str, str]:
    """The attributes of a shared op of CUDA Tile IR, by what ours are called."""
    spec = BY_NAME[name]
    return {theirs: _MODES[theirs] for theirs in (*(a.name for a in spec.attributes), *spec.units)}


_STANDARD = ("f16", "bf16", "tf32")


def is_exact(source: DType, target: DType) -> bool:
    return target.exponent_bits >= source.exponent_bits and target.mantissa_bits >= source.mantissa_bits


def rounding_modes(source: DType, target: DType) -> tuple[RoundingMode, ...]:
    """How CUDA Tile IR can round a conversion between floating-point formats."""
    modes = RoundingMode
    if is_exact(source, target):
        return (modes.RN,)
    if target.short == "f32":
        return modes.RN, modes.RZ, modes.RM, modes.RP
    if target.short == "f8e8m0fnu":
        return modes.RZ, modes.RP
    if target.short == "tf32" and source.short == "f32":
        return modes.RN, modes.RZ, modes.RA
    return (modes.RN, modes.RZ) if target.short in _STANDARD else (modes.RN,)
