"""The induction variable of a ``for``. TTIR compares it with its sign, and lets the last step wrap around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.trip_counts import max_trip_count
from tilewright.backends.triton.ttir.state import LoweringState
from tilewright.backends.triton.ttir.text import Val
from tilewright.ir.dtypes import DType
from tilewright.ir.ops.control import For


@dataclass(frozen=True)
class NormalizedLoop:
    """``scf.for`` from ``lower`` to ``upper`` by ``step``; ``value_of`` makes the induction variable of its own."""

    lower: Val
    upper: Val
    step: Val
    value_of: Callable[[Val], Val]


def normalized_loop(s: LoweringState, op: For) -> NormalizedLoop:
    """How to count what the ``for`` counts, even at the ends of its dtype."""
    w, dtype = s.w, op.lower.tile.element
    lower, upper, step = (s[v] for v in op.bounds)
    if _stays_inside(s.facts, op, dtype):
        return NormalizedLoop(lower, upper, step, lambda i: i)
    if dtype.bitwidth < 32:
        lower, upper, step = (w.resize(v, 32, signed=dtype.is_signed) for v in (lower, upper, step))
        return NormalizedLoop(lower, upper, step, lambda i: w.resize(i, dtype.bitwidth))
    # The number of iterations; one of 2**63 or more is never reached.
    bits = 32 if max_trip_count(s.facts, op) < 1 << 31 else 64
    steps = w.op("arith.divui", w.op("arith.subi", w.op("arith.subi", upper, lower), w.like(1, lower)), step)
    some = w.compare("slt" if dtype.is_signed else "ult", lower, upper)
    zero, one = w.constant(0, f"i{bits}"), w.constant(1, f"i{bits}")
    count = w.select(some, w.op("arith.addi", w.resize(steps, bits, signed=False), one), zero)

    def value_of(i: Val) -> Val:
        return w.op("arith.addi", lower, w.op("arith.muli", w.resize(i, lower.bits, signed=False), step))

    return NormalizedLoop(zero, count, one, value_of)


def _stays_inside(facts: IntegerRanges, op: For, dtype: DType) -> bool:
    """Whether no bound has the bit of the sign set that has none, and the step after the last one does not wrap."""
    lower, upper, step = (facts.range(v) for v in op.bounds)
    most = (1 << (dtype.bitwidth - 1)) - 1
    return upper[1] + step[1] - 1 <= most and (dtype.is_signed or lower[1] <= most)
