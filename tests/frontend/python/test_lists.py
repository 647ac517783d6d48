"""Arrays of lists are what arrays are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.ir.core import Function
from tilewright.runtime.launch import specialization

WIDE = np.zeros((32, 64, 16), np.float32)


@ct.kernel
def of_an_array(x):
    ct.store(x, (0, 0), ct.load(x, (0, 0), (4, 4)) + 1)


@ct.kernel
def of_a_list(xs):
    ct.store(xs[0], (0, 0), ct.load(xs[0], (0, 0), (4, 4)) + 1)


def known(function: Function) -> list[tuple[Any, ...]]:
    """What is known of the arrays behind the accesses: constants, divisors and whether numbers may be negative."""
    facts, found = IntegerRanges(function), []
    for op in function.walk():
        if op.name == "make_tensor_view":
            base, *numbers = op.operands
            divisor = base.op.attributes["divisor"] if base.op is not None and base.op.name == "assume_divisible" else 1
            ranges = [(facts.divisor(v), facts.range(v)[0] >= 0) for v in numbers]
            found.append((op.result.type, divisor, ranges))
    return found


@pytest.mark.parametrize(
    "array", [WIDE[0], WIDE[:, 0], WIDE[:, :, 0], WIDE[:, ::2, 0], WIDE[:5, 1:, 0], WIDE[0, :, 1:], WIDE[0, 3:4]]
)
def test_as_much_is_known_of_an_array_of_a_list(array: np.ndarray[Any, Any]) -> None:
    alone, listed = (
        specialization(k, (x,), "reference").function for k, x in ((of_an_array, array), (of_a_list, [array]))
    )
    assert known(alone) and set(map(str, known(alone))) == set(map(str, known(listed)))
