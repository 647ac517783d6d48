"""``exhaustive_search`` and what a search returns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.tune import Measurement, TuningResult, candidate, exhaustive_search

X = np.arange(64.0)


@ct.kernel
def doubled(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * 2)


class Stopwatch:
    """The CPU backend with times that tests choose: ``cost`` maps the tile size to the times of successive runs, in us."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost: Callable[[int, int], float]) -> None:
        self.runs: list[tuple[int, bool]] = []
        self.tile = 0
        self.cost = cost
        monkeypatch.setattr(candidate, "elapsed", self.elapsed)

    def elapsed(self, backend: Any, launch: Callable[[], None], stream: Any, *, flush_cache: bool) -> float:
        launch()
        self.runs.append((self.tile, flush_cache))
        return self.cost(self.tile, sum(t == self.tile for t, _ in self.runs)) * 1e-6

    def search(self, tiles: Any, **options: Any) -> TuningResult[int]:
        def args(tile: int) -> tuple[Any, ...]:
            self.tile = tile
            return X, np.zeros_like(X), tile

        return exhaustive_search(tiles, None, lambda t: (64 // t,), doubled, args, **{"quiet": True, **options})


def test_the_fastest_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Stopwatch(monkeypatch, lambda tile, run: {8: 30.0, 16: 10.0, 32: 20.0}[tile] + 90 * (run <= 3))
    found = watch.search([8, 16, 32])
    assert [m.config for m in found.successes] == [16, 32, 8]
    assert found.best == Measurement(config=16, mean_us=pytest.approx(10), num_samples=5, error_margin_us=0)
    assert found.failures == ()
    assert all(flushed for _, flushed in watch.runs), "the caches are flushed unless told otherwise"
    assert len(watch.runs) == 3 * (3 + 5)
    watch.runs.clear()
    watch.search([8], flush_l2=False)
    assert not any(flushed for _, flushed in watch.runs)


def test_samples_are_taken_until_the_mean_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0).normal(0, 100, 2000)
    watch = Stopwatch(monkeypatch, lambda tile, run: 1000 + float(noise[run]))
    (found,) = watch.search([8]).successes
    assert found.error_margin_us <= 0.01 * found.mean_us
    assert found.num_samples > 300 and found.error_margin_us == pytest.approx(196 / np.sqrt(found.num_samples), rel=0.2)


def test_interrupted_runs_neither_count_nor_prolong_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every ninth run takes ten times as long, as on a machine with others."""
    noise = np.random.default_rng(0).normal(0, 2, 2000)
    watch = Stopwatch(monkeypatch, lambda tile, run: 100 / tile + float(noise[run]) + 1000 * (run % 9 == 0))
    found = watch.search([1, 2, 4])
    assert [m.config for m in found.successes] == [4, 2, 1]
    assert found.best.mean_us == pytest.approx(25, abs=1)
    assert sum(m.num_samples for m in found.successes) < 600


def test_a_slow_configuration_stops_after_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Stopwatch(monkeypatch, lambda tile, run: 1.5e6 * (1 + run % 2))
    (found,) = watch.search([8]).successes
    assert found.num_samples == 3


def test_the_clearly_slower_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = {tile: (5.0 if tile <= 16 else 400.0) for tile in (1, 2, 4, 8, 16, 32)}
    watch = Stopwatch(monkeypatch, lambda tile, run: 100.0 * (1 if tile <= 16 else 20) + noise[tile] * (run % 2))
    found = watch.search([1, 2, 4, 8, 16, 32])
    slow = next(m for m in found.successes if m.config == 32)
    assert slow.num_samples == 5 and slow.error_margin_us > 0.01 * slow.mean_us


def test_failures_are_results(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Stopwatch(monkeypatch, lambda tile, run: 1.0)
    found = watch.search([8, 12, 16])
    assert [m.config for m in found.successes] == [8, 16]
    ((config, error, message),) = found.failures
    assert (config, error) == (12, ct.TileTypeError) and "dimension 0 of the tile shape" in message
    text = found.summary()
    assert text.startswith("2 succeeded, 1 failed\n* 8 ") and "! 12  TileTypeError: " in text
    with pytest.raises(ValueError, match="none of the 2 configurations works; the first, 12, raised TileTypeError"):
        watch.search([12, 24])
    with pytest.raises(ValueError, match="the only configuration, 12, does not work: it raised TileTypeError"):
        watch.search([12])
    with pytest.raises(ValueError, match="search_space is empty"):
        watch.search([])
    with pytest.raises(ValueError, match="single_run_timeout_sec is 0; it must be positive"):
        watch.search([8], single_run_timeout_sec=0)


def test_what_is_no_search() -> None:
    def search(space: Any, grid: Any, kernel: Any, args: Any) -> None:
        ct.tune.exhaustive_search(space, None, grid, kernel, args, quiet=True)

    def fine(config: int) -> tuple[int]:
        return (config,)

    with pytest.raises(TypeError, match="search_space is None; it must be a sequence of configurations"):
        search(None, fine, doubled, fine)
    with pytest.raises(TypeError, match=r"grid_fn is \(4,\); it must be a function of the configuration"):
        search([8], (4,), doubled, fine)
    with pytest.raises(TypeError, match="kernel is 5; it must be a kernel"):
        search([8], fine, 5, fine)
    with pytest.raises(ValueError, match=r"raised TypeError: kernel\(config\) is \(8,\); decorate it with @ct.kernel"):
        search([8], fine, fine, fine)
    with pytest.raises(TypeError, match="args_fn is None; it must be a function"):
        ct.tune.Tuner(doubled, [8], fine, None)  # type: ignore[arg-type]


def limit(monkeypatch: pytest.MonkeyPatch, seconds: float, is_late: Callable[[], bool]) -> None:
    """Runs that are late get ``seconds``, the others time enough on any machine."""
    within = candidate.timed_within
    monkeypatch.setattr(candidate, "timed_within", lambda _, work: within(seconds if is_late() else 300, work))


def test_a_run_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = threading.Event()
    watch = Stopwatch(monkeypatch, lambda tile, run: 1.0 if tile == 8 else float(not stuck.wait(300)))
    limit(monkeypatch, 0.1, lambda: watch.tile == 16)
    found = watch.search([8, 16], single_run_timeout_sec=0.1)
    stuck.set()
    ((config, error, message),) = found.failures
    assert (config, error, message) == (16, TimeoutError, "one run took longer than single_run_timeout_sec=0.1")
    assert found.best.config == 8


def test_kernels_and_hints_of_each_configuration() -> None:
    seen: list[Any] = []

    def kernel(config: tuple[int, int]) -> Any:
        seen.append(config)
        return doubled

    hints = exhaustive_search(
        [(8, 1), (8, 2)],
        None,
        lambda c: (8,),
        kernel,
        lambda c: (X, np.zeros_like(X), c[0]),
        lambda c: {"occupancy": c[1]},
        quiet=True,
    )
    assert seen == [(8, 1), (8, 2)] and len(hints.successes) == 2
    with pytest.raises(ValueError, match="raised ValueError: occupancy is 99"):
        exhaustive_search([1], None, lambda c: (8,), doubled, lambda c: (X, X.copy(), 8), lambda c: {"occupancy": 99})


def test_summary_shows_both_ends(capsys: pytest.CaptureFixture[str]) -> None:
    measured = [Measurement(config=i, mean_us=float(i), num_samples=5, error_margin_us=0.1) for i in range(20)]
    result = TuningResult(best=measured[0], successes=measured, failures=[(99, KeyError, "long " * 40)])
    lines = result.summary(top_k=3, bottom_k=2).splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["*", "0"],
        ["1", "1.0"],
        ["2", "2.0"],
        ["...", "15"],
        ["18", "18.0"],
        ["19", "19.0"],
        ["!", "99"],
    ]
    assert lines[-1].endswith("...") and str(result) == result.summary()


def test_a_search_prints_its_summary(capsys: pytest.CaptureFixture[str]) -> None:
    result = exhaustive_search([64], None, lambda t: (1,), doubled, lambda t: (X, X.copy(), t))
    out, err = capsys.readouterr()
    assert out == f"{result}\n" and err == "", "the bar is for terminals"


@ct.kernel
def endless(out, steps):
    total = 0
    for i in range(steps):
        total = total * 3 + i
    ct.store(out, (ct.bid(0),), ct.full((4,), total | 1, ct.int32))


def test_a_run_that_takes_too_long_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads compute no more: the array stays as it is, and the thread of the tuner ends."""
    arrays = {steps: np.zeros(8, np.int32) for steps in (3, 2**31 - 1)}
    begun: list[int] = []
    limit(monkeypatch, 0.1, lambda: begun[-1] > 3)
    found = ct.tune.exhaustive_search(
        list(arrays),
        None,
        lambda _: (2,),
        endless,
        lambda steps: begun.append(steps) or (arrays[steps], steps),
        quiet=True,
        single_run_timeout_sec=0.1,
    )
    ((config, error, message),) = found.failures
    assert (config, error, message) == (2**31 - 1, TimeoutError, "one run took longer than single_run_timeout_sec=0.1")
    for thread in threading.enumerate():
        if thread.name == "tilewright tuner":
            thread.join(300)
            assert not thread.is_alive()
    assert not arrays[config].any() and arrays[3].all()
