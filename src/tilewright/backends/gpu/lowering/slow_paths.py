"""Fast paths of functions for all elements of a thread side by side, with one branch to the slow path of rare ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from llvmlite import ir

from tilewright.backends.branches import choose
from tilewright.backends.gpu.lowering.assembly import F32, I32
from tilewright.backends.gpu.lowering.scalars import ScalarEmitter
from tilewright.ir.core import Op
from tilewright.ir.ops.arith import Sqrt, flushes_to_zero, is_plain, operand_dtype
from tilewright.ir.ops.floats import Cos, Sin

# As ptxas does for one number: from a reciprocal root, for those whose bits are in the range below.
_SQRT = """{ .reg .f32 y, root, half, rest;
rsqrt.approx.ftz.f32 y, $1; mul.rn.ftz.f32 root, $1, y; mul.rn.ftz.f32 half, y, 0f3F000000;
neg.f32 y, root; fma.rn.f32 rest, y, root, $1; fma.rn.f32 $0, rest, half, root; }""".replace("\n", " ")
_LEAST_SQUARE, _SQUARES = 0x0D000000, 0x727FFFFF


def with_slow_path(scalars: ScalarEmitter, op: Op, xs: Sequence[ir.Value]) -> list[ir.Value] | None:
    """The results of ``op`` for all elements of a thread; None for ops that are not written so."""
    fast = _fast_path(scalars, op)
    if fast is None or len(xs) < 2:
        return None
    found, rare = zip(*map(fast, xs))
    exact, b = scalars.of(op), scalars.builder
    return choose(b, functools.reduce(b.or_, rare), lambda: [exact([x]) for x in xs], lambda: found, likely=False)


def _fast_path(scalars: ScalarEmitter, op: Op) -> Callable[[ir.Value], tuple[ir.Value, ir.Value]] | None:
    """Gives the result for an element, and whether that takes the slow path."""
    if isinstance(op, (Sin, Cos)) and operand_dtype(op).short != "f64" and not flushes_to_zero(op):
        return functools.partial(scalars.circular_fast_path, op)
    if isinstance(op, Sqrt) and operand_dtype(op).short == "f32" and is_plain(op):
        return functools.partial(_sqrt, scalars)
    return None


def _sqrt(scalars: ScalarEmitter, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    b = scalars.builder
    above = b.sub(b.bitcast(x, I32), ir.Constant(I32, _LEAST_SQUARE))
    return scalars.asm(_SQRT, [x], F32), b.icmp_unsigned(">", above, ir.Constant(I32, _SQUARES))
