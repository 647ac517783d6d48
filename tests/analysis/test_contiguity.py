"""Runs of tiles against the numbers: what the analysis says holds of the values that the reference computes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tilewright.analysis.gpu.contiguity import MOST, Contiguity, Runs, power_of_two, quotient
from tilewright.backends.reference.interpreter import BlockInterpreter
from tilewright.backends.reference.memory import Memory
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Param, Value
from tilewright.ir.dtypes import bool_, int32, int64
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.location import UNKNOWN
from tilewright.ir.ops.arith import Add, And, Cast, Cmp, Mul, Sub
from tilewright.ir.ops.control import Return
from tilewright.ir.ops.memory import AssumeDivisible
from tilewright.ir.ops.shape import Broadcast, Iota, Permute, Reshape
from tilewright.ir.types import TileType

SHAPE = (8, 16)


def _program(rng: random.Random) -> tuple[Function, list[Value]]:
    """Random index arithmetic on tiles of one shape, from lines, scalars that are promised multiples, and constants."""
    body = Block()
    scalars = [body.add_arg(TileType(int32)) for _ in range(2)]
    b = Builder(body, UNKNOWN)
    promised = [b.emit(AssumeDivisible, s, divisor=d) for s, d in zip(scalars, (16, 4))]
    tiles: list[Value] = []
    for _ in range(10):
        kind = rng.randrange(8)
        if kind == 0 or not tiles:
            axis = rng.randrange(2)
            shape = (SHAPE[0], 1) if axis == 0 else (1, SHAPE[1])
            if rng.randrange(2):
                column = b.emit(Iota, type=TileType(int32, shape))
            else:
                column = b.emit(Reshape, b.emit(Iota, type=TileType(int32, (SHAPE[axis],))), shape=shape)
            made = b.emit(Broadcast, column, shape=SHAPE)
        elif kind == 1:
            scalar = b.emit(Reshape, rng.choice(promised), shape=(1, 1))
            made = b.emit(Broadcast, scalar, shape=SHAPE)
        elif kind == 2:
            made = b.constant(rng.choice([0, 1, 2, 3, 8, -16]), int32, SHAPE)
        elif kind == 3:
            made = b.emit(Iota, type=TileType(int32, SHAPE))
        elif kind == 4:
            turned = b.emit(Permute, rng.choice(tiles), axes=(1, 0))
            made = b.emit(Permute, b.emit(Cast, b.emit(Cast, turned, dtype=int64), dtype=int32), axes=(1, 0))
        else:
            made = b.emit((Add, Sub, Mul)[kind - 5], rng.choice(tiles), rng.choice(tiles))
        tiles.append(made)
    masks = [
        b.emit(Cmp, rng.choice(tiles), rng.choice(tiles), predicate=rng.choice(list(CmpPredicate))) for _ in range(4)
    ]
    masks.append(b.emit(And, masks[0], masks[1]))
    b.emit_op(Return)
    return Function("f", body, [Param("a", "scalar"), Param("b", "scalar")], UNKNOWN), [*tiles, *masks]


@pytest.mark.parametrize("seed", range(80))
def test_what_is_said_holds(seed: int) -> None:
    rng = random.Random(seed)
    function, tiles = _program(rng)
    facts = Contiguity(function)
    arguments = {
        v: np.array(n, np.int32)
        for v, n in zip(function.body.args, (16 * rng.randrange(-3, 9), 4 * rng.randrange(-3, 9)))
    }
    block = BlockInterpreter((0, 0, 0), (1, 1, 1), Memory(()), arguments, None)
    with pytest.raises(StopIteration):
        next(block.run(function.body))
    halved = 0
    for value in tiles:
        numbers = block.values[value].astype(np.int64)
        _holds(facts.runs(value), numbers, value)
        if value.tile.element is not bool_ and (half := quotient(facts, value, 2)) is not None:
            assert not (numbers % 2).any(), value
            _holds(half, numbers // 2, value)
            halved += 1
    assert halved or seed not in (0, 1, 2)


def _holds(runs: Runs, numbers: np.ndarray[Any, Any], value: Value) -> None:
    for axis, n in enumerate(SHAPE):
        rows = np.moveaxis(numbers, axis, -1)
        run, equal = min(runs.contiguity[axis], n), min(runs.constancy[axis], n)
        assert (np.diff(rows.reshape(-1, equal), axis=1) == 0).all(), value
        if value.tile.element is bool_:
            continue
        parts = rows.reshape(-1, run)
        assert (np.diff(parts, axis=1) == 1).all(), value
        assert not (parts[:, 0] % runs.aligned(axis, run)).any(), value
        for part in (p for p in (1, 2, 4) if p <= run):
            assert not (rows.reshape(-1, part)[:, 0] % runs.aligned(axis, part)).any(), value
    if value.tile.element is not bool_:
        assert not (numbers % runs.divisor).any()


def test_powers_of_two() -> None:
    assert [power_of_two(n) for n in (0, 1, -4, 12)] == [MOST, 1, 4, 4]
