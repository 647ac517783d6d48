"""How the sides of a CPU benchmark take turns.

Hot: each side runs in blocks of its own, of calls enough that caches, worker threads and the allocator are warm; the
sides take turns by block, and the first block of each, and the first calls of every block, do not count. Cold: before
every call the program pauses until the processors are idle, so that threads sleep. Mixed: before every call another
library has just run, whose threads may still spin.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Run = Callable[[], Any]
Clock = Callable[[], float]

BLOCKS = 4  # of each side, of which the first does not count
BLOCK_SECONDS = 0.2  # a block ends after so long, but not before it has MIN_CALLS
MIN_CALLS, MAX_CALLS = 5, 200
WARM_CALLS = 2  # at the start of each block, which do not count
_PAUSE, _PATIENCE = 0.04, 6  # seconds, and how often to wait for idle processors
_STATISTICS = Path("/proc/stat")


@dataclass(frozen=True)
class Times:
    """Seconds of the calls of one side: the median, and the quartiles around it."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """The distance of the quartiles, relative to the median."""
        return (self.high - self.low) / self.median


def _times(calls: list[float]) -> Times:
    low, middle, high = statistics.quantiles(calls, n=4) if len(calls) > 1 else (calls[0],) * 3
    return Times(middle, low, high)


def hot(sides: Mapping[str, Run], clock: Clock = time.perf_counter) -> dict[str, Times]:
    found: dict[str, list[float]] = {name: [] for name in sides}
    for block in range(BLOCKS):
        for name, run in sides.items():
            calls = _block(run, clock)
            if block:
                found[name] += calls[WARM_CALLS:]
    return {name: _times(calls) for name, calls in found.items()}


def _block(run: Run, clock: Clock) -> list[float]:
    calls: list[float] = []
    end = time.perf_counter() + BLOCK_SECONDS
    while len(calls) < MIN_CALLS + WARM_CALLS or (time.perf_counter() < end and len(calls) < MAX_CALLS):
        calls.append(_call(run, clock))
    return calls


def cold(sides: Mapping[str, Run], rounds: int = 9) -> dict[str, Times]:
    return _in_turns(sides, rounds, lambda name: rest())


def mixed(sides: Mapping[str, Run], others: Mapping[str, Run], rounds: int = 15) -> dict[str, Times]:
    """``others[name]`` is what runs just before each call of the side ``name``."""
    return _in_turns(sides, rounds, lambda name: others[name]())


def _in_turns(sides: Mapping[str, Run], rounds: int, before: Callable[[str], Any]) -> dict[str, Times]:
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            before(name)
            found[name].append(_call(run))
    return {name: _times(calls[1:]) for name, calls in found.items()}


def _call(run: Run, clock: Clock = time.perf_counter) -> float:
    before = clock()
    run()
    return clock() - before


def rest() -> None:
    """Pause until the processors are idle: threads of BLAS and OpenMP wait actively for more work after a call."""
    for _ in range(_PATIENCE):
        before = _busy_ticks()
        time.sleep(_PAUSE)
        if _busy_ticks() - before <= 1:
            return


def _busy_ticks() -> int:
    """How long all processors together have been busy, in hundredths of a second; 0 where this is not told."""
    if not _STATISTICS.exists():
        return 0
    user, nice, system = _STATISTICS.read_text().split(maxsplit=4)[1:4]
    return int(user) + int(nice) + int(system)
