"""What is said of blocks that can never progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar

from tilewright.ir.errors import TileError
from tilewright.ir.location import Loc
from tilewright.ir.ops.control import Loop
from tilewright.records import NamedTuple

Index = tuple[int, int, int]
SHOWN = 8
TEXT = "deadlock: every block that is left waits for memory that none of them changes: "  # and which blocks
OF_LOOPS = "; waiting for another block needs a load with a memory order"  # where one of them is in a loop without any


class Others(NamedTuple):
    """What a program with other threads and launches is told of a launch whose blocks may wait for each other, by a
    number that is its own."""

    takes_part: Callable[[int, bool], object]  # the calling thread begins to run its blocks, or no longer does
    is_stuck: Callable[[int, bool], int]  # whether all wait; returns whether that is so for ever


OTHERS: ContextVar[Others | None] = ContextVar("who else may change memory", default=None)


def describe_blocks(blocks: Sequence[tuple[Index, Loc | None, str]]) -> str:
    """Where each block is, at which operation: of the first ones, and how many there are besides."""
    shown = [f"block {index} at {loc} ({op})" for index, loc, op in blocks[:SHOWN] if loc is not None]
    more = f"; and {len(blocks) - SHOWN} more" if len(blocks) > SHOWN else ""
    return "; ".join(shown) + more


class Deadlock(TileError):
    """Every block that is left waits for memory that none of them changes."""

    def __init__(self, blocks: Sequence[tuple[Index, Loc | None, str]]) -> None:
        """``blocks`` says which block waits, where, and at which operation."""
        loops = any(op == Loop.spec.name for _, _, op in blocks)
        super().__init__(f"{TEXT}{describe_blocks(blocks)}{OF_LOOPS * loops}", blocks[0][1])
