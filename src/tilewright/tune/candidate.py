"""A configuration that is being measured."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from tilewright.records import dataclass
from tilewright.runtime.launch import launch, specialization
from tilewright.runtime.launchable import Launchable
from tilewright.runtime.timing import elapsed
from tilewright.system.deadlines import LaunchTimeout, time_limit
from tilewright.system.overtime import Overtime, within
from tilewright.tune.estimate import trimmed_mean
from tilewright.tune.results import Measurement

T = TypeVar("T")

_WARM_UPS = 3  # launches: one loads the code, the next one finds caches warm, and the third is as those to come
_GRACE = 1.0  # seconds in which a launch that is cancelled ends: polls see it within 0.2
BATCH = 5  # the fewest of which ``trimmed_mean`` leaves out one at each end
# An error margin within one of them is small enough: the second is how exact events of CUDA are
# (CUDA Runtime API, cudaEventElapsedTime).
_RELATIVE, _ABSOLUTE_US = 0.01, 0.5
_MAX_SAMPLES = 1000  # with which the error of times that scatter by 30 % is 1 %
_MAX_US = 5_000_000.0  # what BATCH launches of a second take


def timed_within(seconds: float, work: Callable[[], float]) -> float:
    """``work()``. TimeoutError when it takes longer than ``seconds``; on a CPU the launch is cancelled then."""

    def limited() -> float:
        with time_limit(seconds):
            return work()

    with contextlib.suppress(LaunchTimeout):
        try:
            return within(seconds, limited, "tilewright tuner")
        except Overtime as late:
            late.thread.join(_GRACE)
    raise TimeoutError(f"one run took longer than single_run_timeout_sec={seconds:g}")


@dataclass(frozen=True)
class Work:
    """What a configuration runs. ``args`` makes fresh arguments for every run."""

    kernel: Launchable
    grid: tuple[int, ...]
    args: Callable[[], tuple[Any, ...]]


def with_hints(kernel: Launchable, hints: Mapping[str, Any]) -> Launchable:
    """``kernel`` with ``hints``; TypeError for a kernel that takes none, as those of Tile C++."""
    if not hints:
        return kernel
    if not isinstance(hints, Mapping):
        raise TypeError(f"the hints for {kernel.name}() are {hints!r}; they must be a dictionary of kernel hints")
    replace: Any = getattr(kernel, "replace_hints", None)
    if replace is None:
        raise TypeError(f"{kernel.name}() takes no hints from Python; write them in its source")
    return replace(**hints)


class Candidate(Generic[T]):
    """The time of a configuration as samples tell it, in microseconds: their trimmed mean, and its margin."""

    def __init__(self, config: T, work: Work, stream: Any, flush_cache: bool) -> None:
        self.config = config
        self.work = work
        self.mean_us = 0.0
        self.margin_us = math.inf
        self._samples: list[float] = []
        self._stream = stream
        self._flush_cache = flush_cache
        _, self._backend = work.kernel.described(work.args(), None)

    def warm_up(self, timeout_sec: float | None, enough_us: float | None = None) -> float:
        """Compile, and run until caches and threads are warm; returns the microseconds of the first run.

        When those are more than ``enough_us``, that was the only run. TimeoutError when it takes longer than
        ``timeout_sec``, which cancels it on a CPU; elsewhere its thread goes on.
        """
        args = self.work.args()
        specialization(self.work.kernel, args)  # so that the limit is for the run, not for the compiler
        first = self._time(args) if timeout_sec is None else timed_within(timeout_sec, lambda: self._time(args))
        if enough_us is None or first <= enough_us:
            for _ in range(_WARM_UPS - 1):
                self.run()
        return first

    def run(self) -> float:
        """The microseconds of one run."""
        return self._time(self.work.args())

    def _time(self, args: tuple[Any, ...]) -> float:
        kernel, grid, stream = self.work.kernel, self.work.grid, self._stream
        seconds = elapsed(
            self._backend, lambda: launch(stream, grid, kernel, args), stream, flush_cache=self._flush_cache
        )
        return seconds * 1e6

    def measure(self, count: int) -> None:
        """Take up to ``count`` samples, or fewer when the candidate has converged."""
        for _ in range(count):
            if self._samples and self.converged:
                return
            self._samples.append(self.run())
            self.mean_us, self.margin_us = trimmed_mean(self._samples)

    @property
    def samples(self) -> int:
        return len(self._samples)

    @property
    def converged(self) -> bool:
        """Whether more samples would tell little, or cost too much."""
        if self.samples >= _MAX_SAMPLES or self.samples * self.mean_us >= _MAX_US:
            return True
        return self.samples >= BATCH and self.margin_us <= max(_RELATIVE * self.mean_us, _ABSOLUTE_US)

    def measurement(self) -> Measurement[T]:
        margin = self.margin_us
        return Measurement(
            config=self.config,
            mean_us=self.mean_us,
            num_samples=self.samples,
            error_margin_us=margin if math.isfinite(margin) else self.mean_us,
        )
