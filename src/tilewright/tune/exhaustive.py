"""``exhaustive_search``: every configuration is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

from tilewright.language.suggestions import explains_arguments
from tilewright.runtime.launchable import Launchable
from tilewright.tune.attempts import Attempts, Failed, Procedure, checked_devices
from tilewright.tune.candidate import BATCH, Work, with_hints
from tilewright.tune.compiling import Chosen, Compilations
from tilewright.tune.gate import Gate
from tilewright.tune.progress import Progress
from tilewright.tune.results import TuningResult, no_success
from tilewright.tune.space import checked_space

T = TypeVar("T")
Failures = list[tuple[T, type[BaseException], str]]

_LEADERS = 5  # when so many have converged, others need to compete with the slowest of them


@explains_arguments
def exhaustive_search(
    search_space: Sequence[T],
    stream: Any,
    grid_fn: Callable[[T], tuple[int, ...]],
    kernel: Launchable | Callable[[T], Launchable],
    args_fn: Callable[[T], tuple[Any, ...]],
    hints_fn: Callable[[T], dict[str, Any]] | None = None,
    *,
    quiet: bool = False,
    single_run_timeout_sec: float | None = None,
    flush_l2: bool = True,
    gate: Gate | None = None,
    executor: Executor | None = None,
    devices: Sequence[Executor] | None = None,
) -> TuningResult[T]:
    """Measure every configuration of ``search_space``, and return which is the fastest.

    For a configuration, ``grid_fn`` gives the grid, ``args_fn`` the arguments (called before every run, so that it
    can make fresh ones), ``hints_fn`` hints for the compiler, and ``kernel``, where it is a function, the kernel.
    After three warm-ups, runs are timed in batches of five until their mean, without the fastest and the slowest fifth,
    is known to 1 % or 0.5 us; when five configurations are, others are given up as soon as they cannot be among the
    five fastest.

    A configuration that raises is a failure of the result, and so is one whose first run takes longer than
    ``single_run_timeout_sec``, or which ``gate`` refuses. ``executor``, any of ``concurrent.futures`` or with its
    interface, compiles configurations while others are measured; without one, processes on this machine compile for
    a GPU. ``devices`` has an executor with one worker for each
    device: configurations are measured there, one on each at a time, with copies of the arguments. ``flush_l2`` empties
    the cache of a GPU before each run.
    A progress bar and a summary are printed unless ``quiet``. TypeError for what is no space, kernel or function;
    ValueError for an empty space, and when every configuration fails. Source: behaviour of `cuda.tile` 1.7,
    whose mean is one of all runs, so that interrupted ones prolong its searches.
    """
    if not isinstance(kernel, Launchable) and not callable(kernel):
        raise TypeError(f"kernel is {kernel!r}; it must be a kernel, or a function that gives one for a configuration")
    configs = checked_space("search_space", search_space, {"grid_fn": grid_fn, "args_fn": args_fn})
    workers = checked_devices(devices)
    if single_run_timeout_sec is not None and not single_run_timeout_sec > 0:
        raise ValueError(f"single_run_timeout_sec is {single_run_timeout_sec!r}; it must be positive, or None")

    def work(config: T) -> Work:
        chosen: Any = kernel if isinstance(kernel, Launchable) else kernel(config)
        if not isinstance(chosen, Launchable):
            raise TypeError(f"kernel(config) is {chosen!r}; decorate it with @ct.kernel")
        hints = {} if hints_fn is None else hints_fn(config)
        return Work(with_hints(chosen, hints), grid_fn(config), lambda: args_fn(config))

    def choose(config: T) -> Chosen:
        found = work(config)
        return found.kernel, found.args(), found.grid

    compilations = Compilations(executor, configs, choose)
    attempts = Attempts(work, compilations, Procedure(stream, flush_l2, gate, single_run_timeout_sec, workers))
    result = _result(configs, compilations, attempts, Progress(len(configs), quiet))
    if not quiet:
        print(result)
    return result


def _result(
    configs: Sequence[T], compilations: Compilations[T], attempts: Attempts[T], bar: Progress
) -> TuningResult[T]:
    """The result of all measurements. ValueError where every configuration fails."""
    failures: Failures[T] = []
    try:
        candidates = converge(_first_runs(configs, compilations, attempts, bar, failures), bar, failures)
    finally:
        bar.close()
        compilations.close()
    if not candidates:
        raise no_success(failures)
    successes = tuple(c.measurement() for c in candidates)
    best = min(successes, key=lambda m: m.mean_us)
    return TuningResult(best=best, successes=successes, failures=tuple(failures))


def converge(candidates: Sequence[Any], bar: Progress, failures: Failures[T]) -> list[Any]:
    """``candidates`` measured until they have converged or cannot be among the fastest, the fastest first.

    Those that raise go to ``failures`` instead.
    """
    kept: list[Any] = []
    for candidate in sorted(candidates, key=lambda c: c.mean_us):
        bar.show(len(failures) + len(kept), "certain", kept[0].mean_us if kept else None, len(failures))
        try:
            while not candidate.converged and not _beaten(candidate, kept):
                candidate.measure(BATCH)
        except Exception as e:  # noqa: BLE001 - whatever a configuration raises is a result of the search
            failures.append((candidate.config, type(e), str(e)))
        else:
            kept.append(candidate)
    return sorted(kept, key=lambda c: c.mean_us)


def _beaten(candidate: Any, others: list[Any]) -> bool:
    slowest = _slowest_leader(others)
    return slowest is not None and candidate.mean_us - candidate.margin_us > slowest


def _first_runs(
    configs: Sequence[T], compilations: Compilations[T], attempts: Attempts[T], bar: Progress, failures: Failures[T]
) -> list[Any]:
    """The candidates that ran; others go to ``failures``."""
    candidates: list[Any] = []
    waiting = list(configs)
    while True:
        while waiting and attempts.idle:
            attempts.start(waiting.pop(compilations.first(waiting)), None, _slowest_leader(candidates))
        if not attempts.running:
            return candidates
        for config, outcome in attempts.finished():
            if isinstance(outcome, Failed):
                failures.append((config, *outcome))
            else:
                candidates.append(outcome)
        done = len(failures) + len(candidates)
        bar.show(done, "first runs", min((c.mean_us for c in candidates), default=None), len(failures))


def _slowest_leader(candidates: Sequence[Any]) -> float | None:
    """The time of the slowest of the fastest five that have converged; None where there are fewer."""
    leaders = sorted(c.mean_us for c in candidates if c.converged)[:_LEADERS]
    return leaders[-1] if len(leaders) == _LEADERS else None
