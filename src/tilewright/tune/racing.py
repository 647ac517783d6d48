"""A search that does not measure everything."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tilewright.tune.candidate import BATCH, Candidate
from tilewright.tune.exhaustive import Failures, converge
from tilewright.tune.progress import Progress
from tilewright.tune.space import neighbours

T = TypeVar("T")

_BETTER = 0.99  # of the best time: what counts as an improvement
_HOPELESS = 2.0  # times the best time: a candidate whose first run takes that long gets no other
_FINALISTS = 4


@dataclass(frozen=True)
class Limits:
    """When a search ends, and how long one run may take."""

    patience: int
    budget_sec: float
    run_sec: float | None


class Race(Generic[T]):
    """A search among ``configs``; ``begin`` makes a candidate, and raises what is wrong with a configuration."""

    def __init__(self, configs: Sequence[T], begin: Callable[[T], Candidate[T]], limits: Limits) -> None:
        self._configs = configs
        self._begin = begin
        self._limits = limits
        self.failures: Failures[T] = []
        self.candidates: list[Candidate[T]] = []

    def run(self, bar: Progress) -> None:
        """Search, and then measure the fastest few until their times are certain."""
        deadline = time.monotonic() + self._limits.budget_sec
        rest = list(range(1, len(self._configs)))
        random.Random(0).shuffle(rest)
        pending = dict.fromkeys([0, *rest])  # an ordered set
        near: list[int] = []
        best: Candidate[T] | None = None
        idle = 0
        while pending and idle < self._limits.patience and (best is None or time.monotonic() < deadline):
            near = [i for i in near if i in pending]
            i = near[0] if near else next(iter(pending))
            del pending[i]
            candidate = self._try(self._configs[i], best)
            idle += 1
            if candidate is not None and (best is None or candidate.mean_us < _BETTER * best.mean_us):
                best, idle = candidate, 0
                near = neighbours(candidate.config, self._configs)
            done = len(self._configs) - len(pending)
            bar.show(done, "searching", None if best is None else best.mean_us, len(self.failures))
        self.candidates.sort(key=lambda c: c.mean_us)
        finalists, others = self.candidates[:_FINALISTS], self.candidates[_FINALISTS:]
        self.candidates = [*converge(finalists, bar, self.failures), *others]

    def _try(self, config: T, best: Candidate[T] | None) -> Candidate[T] | None:
        try:
            candidate = self._begin(config)
            first_us = candidate.warm_up(self._limits.run_sec, None if best is None else _HOPELESS * best.mean_us)
            candidate.measure(BATCH if best is None or first_us <= _HOPELESS * best.mean_us else 1)
        except Exception as e:  # noqa: BLE001 - whatever a configuration raises is a result of the search
            self.failures.append((config, type(e), str(e)))
            return None
        self.candidates.append(candidate)
        return candidate
