"""Loops count what Python's ``range`` does, up to the ends of their dtype, though TTIR's wrap around there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backends.triton.evaluator import Computed, Evaluator

from tilewright.backends.triton.ttir.control import normalized_loop
from tilewright.ir.dtypes import DType, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from tilewright.ir.types import TileType

MOST = 5  # iterations that are followed


def lowered(dtype: DType, bounds: tuple[int, int, int], known: bool) -> tuple[Evaluator, Any]:
    """What ``scf.for`` is given for a ``for``."""
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
        return w, normalized_loop(state, SimpleNamespace(lower=operands[0], bounds=operands))  # type: ignore[arg-type]


def counted(dtype: DType, bounds: tuple[int, int, int], known: bool) -> list[int]:
    """The first values that ``for`` takes."""
    w, loop = lowered(dtype, bounds, known)
    with np.errstate(over="ignore"):
        i, found = loop.lower.array, []
        while i < loop.upper.array and len(found) < MOST:
            found.append(int(loop.value_of(w.value(i, loop.lower.element)).array.astype(dtype.storage)))
            i = i + loop.step.array
    return found


DTYPES = pytest.mark.parametrize("dtype", [int8, int16, int32, int64, uint8, uint16, uint32, uint64], ids=str)


def ranges(dtype: DType) -> Iterator[tuple[int, int, int]]:
    middle = (dtype.min + dtype.max + 1) // 2
    ends = [dtype.min, dtype.min + 1, middle - 1, middle, middle + 3, dtype.max - 2, dtype.max]
    steps = [1, 2, 3, dtype.max // 3, dtype.max // 2 + 1, dtype.max]
    for bounds in itertools.product(ends, ends, steps):
        if (bounds[1] - bounds[0]) // bounds[2] < 1 << 62:  # nobody waits for more
            yield bounds


@DTYPES
def test_every_range(dtype: DType) -> None:
    for bounds, known in itertools.product(ranges(dtype), (False, True)):
        assert counted(dtype, bounds, known) == list(range(*bounds)[:MOST]), (bounds, known)
