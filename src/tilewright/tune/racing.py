"""A search that does not measure everything."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from tilewright.records import dataclass
from tilewright.tune.attempts import Attempts, Failed
from tilewright.tune.exhaustive import Failures, converge
from tilewright.tune.progress import Progress
from tilewright.tune.space import neighbours

T = TypeVar("T")

_BETTER = 0.99  # of the best time: what counts as an improvement
# Measured to the end. Of 100 candidates within a factor of three, measured once with an error of 5 %, the best of four
# is 0.3 % slower than the best of all, on average; of two it is 1 %, of eight 0.06 % (simulated).
_FINALISTS = 4


@dataclass(frozen=True)
class Limits:
    """When a search ends."""

    patience: int
    budget_sec: float


class Race(Generic[T]):
    """A search among ``configs`` by ``attempts`` at them."""

    def __init__(self, configs: Sequence[T], attempts: Attempts[T], limits: Limits) -> None:
        self._configs = configs
        self._attempts = attempts
        self._limits = limits
        self.failures: Failures[T] = []
        self.candidates: list[Any] = []

    def run(self, bar: Progress) -> None:
        """Search, and then measure the fastest few until their times are certain."""
        deadline = time.monotonic() + self._limits.budget_sec
        rest = list(range(1, len(self._configs)))
        random.Random(0).shuffle(rest)
        pending = dict.fromkeys([0, *rest])  # an ordered set
        near: list[int] = []
        best: Any = None
        idle = 0
        attempts = self._attempts
        while True:
            goes_on = idle < self._limits.patience and (best is None or time.monotonic() < deadline)
            while pending and goes_on and attempts.idle:
                near = [i for i in near if i in pending]
                i = near[0] if near else next(iter(pending))
                del pending[i]
                attempts.start(self._configs[i], None if best is None else best.mean_us)
            if not attempts.running:
                break
            for config, outcome in attempts.finished():
                idle += 1
                if isinstance(outcome, Failed):
                    self.failures.append((config, *outcome))
                    continue
                self.candidates.append(outcome)
                if best is None or outcome.mean_us < _BETTER * best.mean_us:
                    best, idle = outcome, 0
                    near = neighbours(config, self._configs)
            done = len(self._configs) - len(pending)
            bar.show(done, "searching", None if best is None else best.mean_us, len(self.failures))
        self.candidates.sort(key=lambda c: c.mean_us)
        finalists, others = self.candidates[:_FINALISTS], self.candidates[_FINALISTS:]
        self.candidates = [*converge(finalists, bar, self.failures), *others]
