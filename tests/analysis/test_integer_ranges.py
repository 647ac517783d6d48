"""What is known of integer scalars holds for every value that they take, and is as narrow as it can be."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from support.irbuild import KernelBuilder

from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, int8, int32, int64, uint8, uint32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Add, And, Bitcast, Cast, Div, Max, Min, Mul, Rem, Sub
from tilewright.ir.ops.memory import AssumeBounded, AssumeDivisible
from tilewright.ir.semantics import constant_array, evaluate

RZ, RM, RP = RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP
BINARY = (Add, Sub, Mul, Min, Max, And)
DTYPES = (int8, int32, int64, uint8, uint32)


class Program:
    """Operations on scalars of which bounds and divisors are promised, with the values that they have in one run."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.k = KernelBuilder()
        self.values: dict[Value, np.ndarray] = {}
        for number in range(3):
            low = rng.choice((0, 1, -5, rng.randint(-200, 200), rng.randint(-(2**31), 2**31 - 1)))
            high, step = min(low + rng.choice((0, 3, 40, 2**20)), 2**31 - 1), rng.choice((1, 1, 2, 16))
            x = self.k.emit(AssumeBounded, self.k.scalar(f"x{number}", int32), lower=low, upper=high)
            multiples = range(-(-low // step) * step, high + 1, step)
            if multiples:
                x = self.k.emit(AssumeDivisible, x, divisor=step)
            self.values[x] = np.array(rng.choice(multiples or (low,)), np.int32)
        for number in (1, 8, rng.randint(-40, 40)):
            self.values[self.k.constant(number)] = constant_array(number, int32, ())

    def extend(self) -> None:
        """One more operation, on operands of one dtype."""
        rng = self.rng
        x = rng.choice(list(self.values))
        y = rng.choice([v for v in self.values if v.type == x.type])
        kind = rng.randrange(10)
        if kind < 5:
            result = self.k.emit(rng.choice(BINARY), x, y)
        elif kind < 8:
            result = self.k.emit(rng.choice((Div, Rem)), x, y, rounding=rng.choice((RZ, RM, RP)))
        elif kind == 8:
            result = self.k.emit(Cast, x, dtype=rng.choice([d for d in DTYPES if d is not x.tile.element]))
        else:
            same_size = [d for d in DTYPES if d.bitwidth == x.tile.element.bitwidth]
            result = self.k.emit(Bitcast, x, dtype=rng.choice(same_size))
        op = result.op
        assert op is not None
        operands = [self.values[v] for v in op.operands]
        self.values[result] = evaluate(op.name, x.tile.element, op.attributes, operands)


@pytest.mark.parametrize("first", range(0, 1200, 200))
def test_facts_hold(first: int) -> None:
    for seed in range(first, first + 200):
        program = Program(random.Random(seed))
        for _ in range(12):
            program.extend()
        facts = IntegerRanges(program.k.function())
        for value, array in program.values.items():
            low, high = facts.range(value)
            assert low <= int(array) <= high, (seed, value, value.op, low, high, array)
            assert int(array) % facts.divisor(value) == 0, (seed, value, value.op, facts.divisor(value), array)


def bounded(k: KernelBuilder, low: int | None, high: int | None, dtype: DType = int32) -> Value:
    return k.emit(AssumeBounded, k.scalar(f"x{len(k.params)}", dtype), lower=low, upper=high)


CASES: dict[str, tuple[Callable[[KernelBuilder], Value], tuple[int, int], int]] = {
    "sum": (lambda k: k.emit(Add, bounded(k, -3, 5), bounded(k, 10, 20)), (7, 25), 1),
    "difference": (lambda k: k.emit(Sub, bounded(k, -3, 5), bounded(k, 10, 20)), (-23, -5), 1),
    "product": (lambda k: k.emit(Mul, bounded(k, -3, 5), k.constant(-8)), (-40, 24), 8),
    "product that may wrap": (lambda k: k.emit(Mul, bounded(k, 0, 2**30), k.constant(4)), (-(2**31), 2**31 - 1), 4),
    "least": (lambda k: k.emit(Min, bounded(k, -3, 5), bounded(k, 0, 9)), (-3, 5), 1),
    "largest": (lambda k: k.emit(Max, bounded(k, -3, 5), bounded(k, 0, 9)), (0, 9), 1),
    "quotient to zero": (lambda k: k.emit(Div, bounded(k, -7, 9), k.constant(2), rounding=RZ), (-3, 4), 1),
    "quotient down": (lambda k: k.emit(Div, bounded(k, -7, 9), k.constant(2), rounding=RM), (-4, 4), 1),
    "quotient up": (lambda k: k.emit(Div, bounded(k, -7, 9), k.constant(2), rounding=RP), (-3, 5), 1),
    "remainder down": (lambda k: k.emit(Rem, bounded(k, -7, 9), k.constant(8), rounding=RM), (0, 7), 1),
    "remainder of what is not negative": (lambda k: k.emit(Rem, bounded(k, 0, 9), k.constant(8)), (0, 7), 1),
    "mask": (lambda k: k.emit(And, k.scalar("x", int32), k.constant(15)), (0, 15), 1),
    "narrowed": (lambda k: k.emit(Cast, bounded(k, -3, 5), dtype=int8), (-3, 5), 1),
    "narrowed too far": (lambda k: k.emit(Cast, bounded(k, -3, 500), dtype=int8), (-128, 127), 1),
    "bounded below": (lambda k: bounded(k, 4, None), (4, 2**31 - 1), 1),
    "constant": (lambda k: k.constant(48), (48, 48), 16),
}


@pytest.mark.parametrize(("make", "range_", "divisor"), CASES.values(), ids=CASES)
def test_facts_are_narrow(make: Callable[[KernelBuilder], Value], range_: tuple[int, int], divisor: int) -> None:
    k = KernelBuilder()
    value = make(k)
    facts = IntegerRanges(k.function())
    assert (facts.range(value), facts.divisor(value)) == (range_, divisor)
