"""Runs the blocks of a launch: one after the other, unless they wait for each other or a schedule mixes them."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from tilewright.backends import deadlock
from tilewright.backends.reference.interpreter import Index, Running
from tilewright.backends.reference.memory import Memory
from tilewright.backends.schedule import Schedule
from tilewright.ir.ops.memory import MemoryOp
from tilewright.records import dataclass

# A block that has made this many strong memory operations lets the next one run. Blocks that pause at weak ones, too,
# make as many of these as count for one strong operation. It hardly matters: 40 blocks that meet at a barrier take the
# same time, within 3 %, when they pause after 1, 8, 64 or 512 operations.
TURN = 64
WEAK_PER_STRONG = 64
# When so many turns, and this many by each waiting block, pass in which no block ends and no byte changes, the
# launch is stuck.
STUCK_TURNS = 1600
STUCK_TURNS_EACH = 4
# How many blocks are under way at a time when a schedule mixes them.
MIXED = 48


@dataclass
class Waiting:
    """A block that has started: its index, and the memory operation ``op`` that it stands before."""

    index: Index
    running: Running
    op: MemoryOp | None = None


class Deadlock(deadlock.Deadlock):
    """The deadlock of the blocks ``waiting``."""

    def __init__(self, waiting: Sequence[Waiting]) -> None:
        self.waiting = sorted(waiting, key=lambda w: w.index[::-1])
        super().__init__([(w.index, w.op.loc if w.op else None, w.op.name if w.op else "") for w in self.waiting])


def run_blocks(
    blocks: Iterator[tuple[Index, Running]], memory: Memory, schedule: Schedule | None = None, turn: int = TURN
) -> None:
    """Run every block to its end; blocks that spin take turns, of ``turn`` operations, with the following ones.

    Deadlock when all of them wait for a change of memory that none makes.
    """
    with _asking_others() as is_final:
        if schedule is not None and schedule.mixes:
            _run_mixed(blocks, memory, schedule, turn, is_final)
        else:
            _run_in_order(blocks, memory, turn, is_final)


@contextlib.contextmanager
def _asking_others() -> Iterator[Callable[[bool], bool]]:
    """Gives what is told whether all blocks wait, and says whether that is so for ever."""
    others = deadlock.OTHERS.get()
    if others is None:
        yield lambda stuck: stuck
        return
    launch = object()
    others.takes_part(id(launch), True)
    try:
        yield lambda stuck: bool(others.is_stuck(id(launch), stuck))
    finally:
        others.takes_part(id(launch), False)


def _run_in_order(
    blocks: Iterator[tuple[Index, Running]], memory: Memory, turn: int, is_final: Callable[[bool], bool]
) -> None:
    queue: deque[Waiting] = deque()
    idle_turns, changes = 0, memory.changes
    retry = False
    while True:
        fresh = None if retry else next(blocks, None)
        if fresh is not None:
            block = Waiting(*fresh)
        elif queue:
            block = queue.popleft()
        else:
            return
        ended, spins = _take_turn(block, turn * WEAK_PER_STRONG)
        if not ended:
            queue.append(block)
        # What a new block waits for may be in the hands of one that lost its turn before.
        retry = fresh is not None and not ended
        if ended or fresh is not None or not spins or memory.changes != changes:
            if idle_turns >= STUCK_TURNS:
                is_final(False)
            idle_turns, changes = 0, memory.changes
            continue
        idle_turns += 1
        if idle_turns >= max(STUCK_TURNS, STUCK_TURNS_EACH * len(queue)) and is_final(True):
            raise Deadlock(queue)


def _run_mixed(
    blocks: Iterator[tuple[Index, Running]],
    memory: Memory,
    schedule: Schedule,
    turn: int,
    is_final: Callable[[bool], bool],
) -> None:
    """Run up to MIXED blocks at a time; more of them when those wait for one that has not started."""
    choose = random.Random(schedule.seed)
    live: list[Waiting] = []
    room, position, idle, changes = MIXED, -1, 0, memory.changes
    while True:
        live.extend(Waiting(*fresh) for fresh in itertools.islice(blocks, max(room - len(live), 0)))
        if not live:
            return
        interleave = schedule.order == "interleave"
        position = (position + 1) % len(live) if interleave else choose.randrange(len(live))
        pauses = 1 if interleave else choose.randint(1, 8)
        ended, spins = _take_turn(live[position], pauses * WEAK_PER_STRONG, weak=WEAK_PER_STRONG)
        if ended:
            del live[position]
            position -= 1
        if ended or not spins or memory.changes != changes:
            if idle >= STUCK_TURNS:
                is_final(False)
            idle, changes = 0, memory.changes
            continue
        idle += 1
        if idle >= max(STUCK_TURNS, STUCK_TURNS_EACH * turn * len(live)):
            fresh = next(blocks, None)
            if fresh is not None:
                live.append(Waiting(*fresh))
                room, idle = room + 1, 0
            elif is_final(True):
                raise Deadlock(live)


def _take_turn(block: Waiting, budget: int, weak: int = 1) -> tuple[bool, bool]:
    """Advance ``block`` until its memory operations cost ``budget``, ``weak`` being the cost of a weak one.

    Returns whether it ended, and whether it may be spinning: it made strong operations only.
    """
    spins = True
    while budget > 0:
        try:
            block.op = next(block.running)
        except StopIteration:
            return True, False
        if block.op.is_weak:
            spins = False
            budget -= weak
        else:
            budget -= WEAK_PER_STRONG
    return False, spins
