"""Runs the blocks of a launch: one after the other, unless they wait for each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.backends.reference.interpreter import Index, Running
from tilewright.backends.reference.memory import Memory
from tilewright.ir.core import Op
from tilewright.ir.errors import TileError

# A block that has made this many strong memory operations lets the next one run.
TURN = 64
# When so many turns, and this many by each waiting block, pass in which no block ends and no byte changes, the
# launch is stuck.
STUCK_TURNS = 1600
STUCK_TURNS_EACH = 4


@dataclass
class _Waiting:
    index: Index
    running: Running
    op: Op | None = None  # the strong memory operation that it stands before


def run_blocks(blocks: Iterator[tuple[Index, Running]], memory: Memory) -> None:
    """Run every block to its end, in order; blocks that spin take turns with the following ones.

    TileError when all of them wait for a change of memory that none makes.
    """
    queue: deque[_Waiting] = deque()
    idle_turns, changes = 0, memory.changes
    retry = False
    while True:
        fresh = None if retry else next(blocks, None)
        if fresh is not None:
            block = _Waiting(*fresh)
        elif queue:
            block = queue.popleft()
        else:
            return
        ended = _take_turn(block)
        if not ended:
            queue.append(block)
        # What a new block waits for may be in the hands of one that lost its turn before.
        retry = fresh is not None and not ended
        if ended or fresh is not None or memory.changes != changes:
            idle_turns, changes = 0, memory.changes
            continue
        idle_turns += 1
        if idle_turns >= max(STUCK_TURNS, STUCK_TURNS_EACH * len(queue)):
            raise _deadlock(queue)


def _take_turn(block: _Waiting) -> bool:
    """Advance ``block`` by one turn; True when it ended."""
    for _ in range(TURN):
        try:
            block.op = next(block.running)
        except StopIteration:
            return True
    return False


def _deadlock(queue: deque[_Waiting]) -> TileError:
    shown = sorted(queue, key=lambda w: w.index[::-1])
    places = "; ".join(f"block {w.index} at {w.op.loc} ({w.op.name})" for w in shown[:8] if w.op is not None)
    more = f"; and {len(shown) - 8} more" if len(shown) > 8 else ""
    loc = shown[0].op.loc if shown[0].op is not None else None
    return TileError(
        f"deadlock: every block that is left waits for memory that none of them changes: {places}{more}", loc
    )
