"""Facts about MMA ops against their definitions, op by op."""

from __future__ import annotations

import random

import pytest

from tilewright.analysis.mma_graph import chained_mmas
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op
from tilewright.ir.dtypes import float32
from tilewright.ir.location import UNKNOWN
from tilewright.ir.ops.arith import Add, Neg
from tilewright.ir.ops.linear import Mma
from tilewright.ir.reachable import operands_within, reachable
from tilewright.ir.types import TileType

OPS = 14


def _block(rng: random.Random) -> Block:
    block = Block()
    values = [block.add_arg(TileType(float32, (16, 16))) for _ in range(4)]
    b = Builder(block, UNKNOWN)
    for _ in range(OPS):
        x, y, z = (rng.choice(values[-6:]) for _ in range(3))
        kind = rng.randrange(4)
        values.append(b.emit(Mma, x, y, z) if kind < 2 else b.emit(Add, x, y) if kind == 2 else b.emit(Neg, x))
    return block


def _by_definition(block: Block) -> set[Op]:
    mmas = [op for op in block.ops if isinstance(op, Mma)]
    feeds = [(m, op) for op in mmas for v in reachable([op.x], operands_within) for m in mmas if v is m.result]
    found: set[Op] = {op for pair in feeds for op in pair}
    while True:
        more = {a for a in mmas for b in mmas if b in found and (a.acc is b.result or b.acc is a.result)} - found
        if not more:
            return found
        found |= more


@pytest.mark.parametrize("seed", range(20))
def test_chained_mma_ops(seed: int) -> None:
    block = _block(random.Random(seed))
    assert chained_mmas(block) == _by_definition(block)


def test_the_random_blocks_differ() -> None:
    shares = [len(_by_definition(block)) for block in map(_block, map(random.Random, range(20)))]
    assert len(set(shares)) > 3
