"""The entry point: one elementwise IR operation to LLVM instructions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir

from tilewright.backends.vector import arith, integer, logic, storage, trigonometry, types
from tilewright.backends.vector.convert import cast
from tilewright.backends.vector.division import Divisor
from tilewright.backends.vector.features import HostFeatures
from tilewright.backends.vector.functions import MATH_OPS
from tilewright.backends.vector.request import ElementOp
from tilewright.backends.vector.types import Number
from tilewright.backends.vector.value import Val, VectorBuilder, magnitude, where
from tilewright.ir.dtypes import DType
from tilewright.ir.types import ElementType


def _cast(op: ElementOp, x: Val) -> Val:
    assert isinstance(op.result, DType)
    return cast(x, op.dtype, op.result, op.rounding)


_EMIT: dict[str, Callable[..., Val]] = {
    **dict.fromkeys(("add", "sub", "mul", "sqrt"), arith.arithmetic),
    "div": arith.divide,
    "fma": arith.multiply_add,
    "rem": arith.remainder,
    "neg": lambda op, x: -x,
    "abs": arith.absolute,
    "mulhi": lambda op, a, b: integer.multiply_high(a, b),
    **dict.fromkeys(("floor", "ceil"), lambda op, x: x.at.intrinsic(op.name, x)),
    **dict.fromkeys(("min", "max"), logic.extremum),
    "and": lambda op, a, b: a & b,
    "or": lambda op, a, b: a | b,
    "xor": lambda op, a, b: a ^ b,
    "not": lambda op, x: ~x,
    "shl": lambda op, a, b: integer.shift_left(a, b),
    "shr": lambda op, a, b: integer.shift_right(a, b, op.dtype),
    "cmp": logic.compare,
    "select": lambda op, condition, x, y: where(condition, x, y),
    "isnan": lambda op, x: x.is_nan(),
    "isinf": lambda op, x: magnitude(x).eq(math.inf),
    "cast": _cast,
    "bitcast": logic.bitcast,
    **MATH_OPS,
}
ELEMENTWISE_OPS = frozenset(_EMIT)


class VectorEmitter:
    """Emits element arithmetic at the position of ``builder``.

    Values are LLVM values of ``register_type(dtype, lanes)``: vectors of ``lanes`` elements, or scalars when
    ``lanes`` is None. Code that is too large to repeat becomes internal functions of the builder's module. The
    current block of ``builder`` never changes, so emission is safe in the middle of a loop body.
    """

    def __init__(self, builder: ir.IRBuilder, lanes: int | None, features: HostFeatures) -> None:
        self._at = VectorBuilder(builder, lanes, features)
        self.lanes = lanes

    def emit(
        self,
        name: str,
        dtype: ElementType,
        operands: Sequence[ir.Value],
        attrs: Mapping[str, Any],
        result_dtype: ElementType,
    ) -> ir.Value:
        """The result of the elementwise op ``name`` on ``operands`` of ``dtype``, as a register of ``result_dtype``.

        For ``select`` the first operand is the bool condition and ``dtype`` that of the other two. ``attrs`` are the
        attributes of the IR op; a missing one has the default of the IR. KeyError when there is no such op.
        """
        return self.emit_op(ElementOp(name, dtype, result_dtype, attrs), operands)

    def emit_op(self, op: ElementOp, operands: Sequence[ir.Value]) -> ir.Value:
        """``emit`` for an op that many of its elements share."""
        return _EMIT[op.name](op, *(Val(self._at, x) for x in operands)).value

    def circular_fast_path(self, name: str, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The ``name``, sin or cos, of ``x``, and where that is too large for this result."""
        found, large = trigonometry.circular_fast_path(name, Val(self._at, x))
        return found.value, large.value

    def to_bfloat(self, x: ir.Value) -> ir.Value | None:
        """``emit("cast", ...)`` of float32 to bfloat16, to nearest; None where the processor has nothing for it.

        Unlike ``emit`` this splits the current block.
        """
        found = storage.to_bfloat(Val(self._at, x))
        return None if found is None else found.value

    def divisor(self, b: ir.Value) -> Divisor | None:
        """What ``divide`` divides float32 by, again and again; None where ``emit("div", ...)`` is as fast."""
        return Divisor.of(Val(self._at, b)) if self._at.features.slow_division and self._at.wide else None

    def divide(self, a: ir.Value, b: Divisor) -> ir.Value:
        """``emit("div", ...)`` of float32 to nearest. Unlike that, this splits the current block."""
        return b.divide(Val(self._at, a)).value

    def to_register(self, dtype: ElementType, stored: ir.Value) -> ir.Value:
        """The register form of ``stored``, a value of ``storage_type(dtype, lanes)``."""
        return storage.to_register(dtype, Val(self._at, stored)).value

    def to_storage(self, dtype: ElementType, register: ir.Value) -> ir.Value:
        """The memory form of ``register``, a value of ``register_type(dtype, lanes)``."""
        return storage.to_storage(dtype, Val(self._at, register)).value

    def register_type(self, dtype: ElementType) -> ir.Type:
        return types.register_type(dtype, self.lanes)

    def storage_type(self, dtype: ElementType) -> ir.Type:
        return types.storage_type(dtype, self.lanes)

    def constant(self, dtype: ElementType, value: Number) -> ir.Constant:
        """``value`` in every lane: integers wrap, floats are rounded to nearest, ties to even."""
        return types.constant(dtype, value, self.lanes)
