"""Attempts at configurations: measured here one after another, or on several devices at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import replace
from typing import Any, Generic, TypeVar

from tilewright.records import NamedTuple, dataclass
from tilewright.runtime.backend_choice import requested
from tilewright.tune.candidate import BATCH, Candidate, Work
from tilewright.tune.compiling import Compilations
from tilewright.tune.devices import measured, packed
from tilewright.tune.gate import Gate
from tilewright.tune.results import Measurement

T = TypeVar("T")
HOPELESS = 2.0  # times the best time: a candidate whose first run takes that long gets no other


class Procedure(NamedTuple):
    """How configurations are measured. ``devices`` has an executor with one worker for each device."""

    stream: Any
    flush_cache: bool
    gate: Gate | None
    run_sec: float | None  # the longest that one run may take
    devices: Sequence[Executor]


class Failed(NamedTuple):
    """What a configuration raised."""

    kind: type[BaseException]
    message: str


@dataclass(frozen=True)
class Elsewhere:
    """A candidate whose time is known from another device."""

    config: Any
    measured: Measurement[None]
    converged: bool = True

    @property
    def mean_us(self) -> float:
        return self.measured.mean_us

    @property
    def margin_us(self) -> float:
        return self.measured.error_margin_us

    def measure(self, count: int) -> None:
        """Its time is certain already."""

    def measurement(self) -> Measurement[Any]:
        return replace(self.measured, config=self.config)


class Attempts(Generic[T]):
    """Attempts at configurations under way, at most ``width`` at a time; ``work`` says what one runs, or raises."""

    def __init__(self, work: Callable[[T], Work], compilations: Compilations[T], plan: Procedure) -> None:
        self._work, self._compilations, self._plan = work, compilations, plan
        self._free: list[Executor | None] = [*plan.devices] or [None]
        self._running: dict[Future[Any], tuple[T, Executor | None]] = {}
        self.width = len(self._free)

    @property
    def idle(self) -> int:
        """How many can be started now."""
        return len(self._free)

    @property
    def running(self) -> int:
        return len(self._running)

    def start(self, config: T, best_us: float | None, rival_us: float | None = None) -> None:
        """Begin with ``config``. With a best time, it gets one run only where that takes ``HOPELESS`` times as long.

        Another device gives it up as soon as it is certain to take longer than ``rival_us``.
        """
        device = self._free.pop()
        future: Future[Any] = Future()
        enough_us = None if best_us is None else HOPELESS * best_us
        try:
            self._compilations.finish(config)
            work = self._work(config)
            if self._plan.gate is not None:
                self._plan.gate.check(config, work, self._plan.stream)
            if device is None:
                future.set_result(self._measured_here(config, work, enough_us))
            else:
                future = self._sent(device, work, enough_us, rival_us)
        except Exception as e:  # noqa: BLE001 - whatever a configuration raises is a result of the search
            future.set_result(Failed(type(e), str(e)))
        self._running[future] = config, device

    def finished(self) -> list[tuple[T, Candidate[T] | Elsewhere | Failed]]:
        """Wait for one or more. Raises what an executor does that cannot run anything."""
        found: list[tuple[T, Candidate[T] | Elsewhere | Failed]] = []
        for future in wait(self._running, return_when=FIRST_COMPLETED).done:
            config, device = self._running.pop(future)
            self._free.append(device)
            outcome = future.result()
            if isinstance(outcome, Measurement):
                outcome = Elsewhere(config, outcome)
            elif type(outcome) is tuple:
                outcome = Failed(*outcome)
            found.append((config, outcome))
        return found

    def _measured_here(self, config: T, work: Work, enough_us: float | None) -> Candidate[T]:
        candidate = Candidate(config, work, self._plan.stream, self._plan.flush_cache)
        first_us = candidate.warm_up(self._plan.run_sec, enough_us)
        candidate.measure(BATCH if enough_us is None or first_us <= enough_us else 1)
        return candidate

    def _sent(self, device: Executor, work: Work, enough_us: float | None, rival_us: float | None) -> Future[Any]:
        (kernel, given), plan = packed(work.kernel, work.args()), self._plan
        how = plan.flush_cache, plan.run_sec, enough_us, rival_us
        return _awaited(device.submit(measured, kernel, work.grid, given, requested(), *how))


def _awaited(found: Any) -> Future[Any]:
    """A future of ``concurrent.futures`` for what an executor gave; a thread waits for one of another kind."""
    if isinstance(found, Future):
        return found
    future: Future[Any] = Future()

    def follow() -> None:
        try:
            future.set_result(found.result())
        except BaseException as e:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(e)

    threading.Thread(target=follow, daemon=True, name="tilewright tuner").start()
    return future


def checked_devices(devices: Sequence[Executor] | None) -> Sequence[Executor]:
    """TypeError for what is no sequence of executors."""
    found = [] if devices is None else list(devices)
    for device in found:
        if not hasattr(device, "submit"):
            raise TypeError(f"devices has {device!r}; pass an executor with one worker for each device")
    return found
