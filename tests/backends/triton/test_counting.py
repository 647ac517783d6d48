"""Loops count what Python's ``range`` does, up to the ends of their dtype, though TTIR's wrap around there."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backends.triton.evaluator import Computed, Evaluator

from tilewright.backends.triton.ttir.counting import counting
from tilewright.ir.dtypes import DType, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from tilewright.ir.types import TileType

MOST = 5  # iterations that are followed


def counted(dtype: DType, bounds: tuple[int, int, int], known: bool) -> list[int]:
    """The first values that ``for`` takes, ``scf.for`` being given what it is given."""
    w = Evaluator()
    operands = [SimpleNamespace(tile=TileType(dtype), number=n) for n in bounds]
    values = {id(v): w.constant(v.number, f"i{dtype.bitwidth}") for v in operands}

    class State:
        facts = SimpleNamespace(range=lambda v: (v.number, v.number) if known else (dtype.min, dtype.max))

        def __getitem__(self, v: Any) -> Computed:
            return values[id(v)]

    state: Any = State()
    state.w = w
    with np.errstate(over="ignore"):
        loop: Any = counting(state, SimpleNamespace(operands=operands))  # type: ignore[arg-type]
        i, found = loop.lower.array, []
        while i < loop.upper.array and len(found) < MOST:
            found.append(int(loop.value_of(w.value(i, loop.lower.element)).array.astype(dtype.storage)))
            i = i + loop.step.array
    return found


@pytest.mark.parametrize("dtype", [int8, int16, int32, int64, uint8, uint16, uint32, uint64], ids=str)
def test_every_range(dtype: DType) -> None:
    middle = (dtype.min + dtype.max + 1) // 2
    ends = [dtype.min, dtype.min + 1, middle - 1, middle, middle + 3, dtype.max - 2, dtype.max]
    steps = [1, 2, 3, dtype.max // 3, dtype.max // 2 + 1, dtype.max]
    for bounds in itertools.product(ends, ends, steps):
        if (bounds[1] - bounds[0]) // bounds[2] >= 1 << 62:
            continue  # nobody waits for that many
        for known in (False, True):
            assert counted(dtype, bounds, known) == list(range(*bounds)[:MOST]), (bounds, known)
