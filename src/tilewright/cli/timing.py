"""How commands time launches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

_MIN_CALLS = 5
_WARM_CALLS = 2


@dataclass(frozen=True)
class Times:
    """Seconds of ``calls`` calls: the median, and the quartiles around it."""

    median: float
    low: float
    high: float
    calls: int


def timed(run: Callable[[], object], seconds: float) -> Times:
    """The times of calls for about ``seconds``, five of them at least, after two that do not count."""
    for _ in range(_WARM_CALLS):
        run()
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < _MIN_CALLS or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    low, median, high = statistics.quantiles(found, n=4)
    return Times(median, low, high, len(found))
