"""The persistent tuner, and the gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.tune import Gate, Refused, Tuner, candidate, space
from tilewright.tune.progress import Progress
from tilewright.tune.space import neighbours

Cost = Callable[[dict[str, Any]], float]
X = np.arange(64.0)


@ct.kernel
def doubled(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * 2)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    return tmp_path


class Bench:
    """A tuner whose times are ``cost(config)``, in microseconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, configs: list[dict[str, Any]], cost: Cost) -> None:
        self.configs = configs
        self.current: dict[str, Any] = {}
        self.tried: list[dict[str, Any]] = []
        self.cost = cost
        monkeypatch.setattr(candidate, "elapsed", self.elapsed)

    def elapsed(self, backend: Any, launch: Callable[[], None], stream: Any, *, flush_cache: bool) -> float:
        launch()
        if self.current not in self.tried:
            self.tried.append(self.current)
        return self.cost(self.current) * 1e-6

    def tuner(self, kernel: Any = doubled, **options: Any) -> Tuner[dict[str, Any]]:
        def args(config: dict[str, Any], x: Any, out: Any) -> tuple[Any, ...]:
            self.current = config
            return x, out, config["tile"]

        def grid(config: dict[str, Any], x: Any, out: Any) -> tuple[int, ...]:
            return (ct.cdiv(x.size, config["tile"]),)

        return Tuner(kernel, self.configs, grid, args, **{"quiet": True, **options})


def test_space_and_neighbours() -> None:
    configs = space(tile=(8, 16, 32), threads=(1, 2), where=lambda c: (c["tile"], c["threads"]) != (32, 2))
    assert len(configs) == 5 and {"tile": 32, "threads": 2} not in configs

    def near(**config: Any) -> list[dict[str, Any]]:
        return [configs[i] for i in neighbours(config, configs)]

    assert near(tile=16, threads=1) == [
        {"tile": 8, "threads": 1},
        {"tile": 32, "threads": 1},
        {"tile": 16, "threads": 2},
    ]
    assert near(tile=32, threads=1) == [{"tile": 16, "threads": 1}]
    assert neighbours((1, 2), [(1, 2), (1, 3)]) == []


def test_early_stopping_finds_the_valley(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = space(tile=(1, 2, 4, 8, 16, 32, 64), a=range(8), b=range(8))
    bench = Bench(
        monkeypatch, configs, lambda c: 100 + 10 * abs(c["tile"] - 16) + 7 * abs(c["a"] - 5) + 3 * abs(c["b"] - 3)
    )
    found = bench.tuner(patience=14).search(X, np.zeros_like(X))
    assert found.best.config == {"tile": 16, "a": 5, "b": 3}
    assert len(bench.tried) < len(configs) / 3


def test_patience_and_the_first_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = space(tile=(8,), a=range(50))
    bench = Bench(monkeypatch, configs, lambda c: 10.0 if c["a"] == 0 else 15.0)
    found = bench.tuner(patience=6).search(X, np.zeros_like(X))
    assert bench.tried[0] == configs[0] == found.best.config
    assert len(bench.tried) == 7


def test_hopeless_candidates_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def cost(config: dict[str, Any]) -> float:
        runs.append(config["a"])
        return 10.0 if config["a"] == 0 else 1000.0

    bench = Bench(monkeypatch, space(tile=(8,), a=(0, 1)), cost)
    result = bench.tuner().search(X, np.zeros_like(X))
    assert result.best.config["a"] == 0 and runs.count(0) >= 8
    assert runs.count(1) < 8


def test_results_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = space(tile=(8, 12, 16))
    bench = Bench(monkeypatch, configs, lambda c: float(c["tile"]))
    first = bench.tuner().search(X, np.zeros_like(X))
    assert len(bench.tried) == 2 and [f[0]["tile"] for f in first.failures] == [12]
    bench.tried.clear()
    again = bench.tuner().search(X, np.zeros_like(X))
    assert bench.tried == [] and again == first
    assert again.failures[0][1] is ct.TileTypeError
    bench.tuner().search(X, np.zeros_like(X), refresh=True)
    assert len(bench.tried) == 2


def test_results_are_shared_through_a_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "off")
    arguments, shared = (np.ones(64, np.float32), np.zeros(64, np.float32)), dict[str, bytes]()
    bench = Bench(monkeypatch, space(tile=(8, 16)), lambda config: float(config["tile"]))
    found = bench.tuner(store=shared).search(*arguments)
    assert len(shared) == 1 and bench.tried
    bench.tried.clear()
    assert bench.tuner(store=shared).search(*arguments) == found and not bench.tried
    bench.tuner(store=shared).search(*arguments, refresh=True)
    assert bench.tried
    shared[next(iter(shared))] = b"{}"
    with pytest.raises(ValueError, match="of the store is no result of a search"):
        bench.tuner(store=shared).search(*arguments)
    with pytest.raises(TypeError, match="mutable mapping"):
        bench.tuner(store=[])


@ct.kernel
def branches(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * (2 if TILE < 16 else 3))


def test_what_a_result_is_remembered_for(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, space(tile=(8, 16)), lambda c: 10.0)

    def searches(tuner: Tuner[Any], *arguments: Any) -> bool:
        bench.tried.clear()
        tuner.search(*arguments)
        return bool(bench.tried)

    assert searches(bench.tuner(), X, np.zeros_like(X))
    assert not searches(bench.tuner(), X, np.zeros_like(X))
    assert searches(bench.tuner(), np.arange(128.0), np.zeros(128)), "another shape"
    assert searches(bench.tuner(), X.astype(np.float32), np.zeros_like(X, np.float32)), "another dtype"
    assert searches(bench.tuner(branches), X, np.zeros_like(X)), "another kernel"
    assert searches(bench.tuner(hints_fn=lambda c: {"occupancy": 2}), X, np.zeros_like(X)), "other hints"
    assert searches(bench.tuner(options_fn=lambda c: {"threads": 1}), X, np.zeros_like(X)), "other options"
    bench.configs = space(tile=(8, 32))
    assert searches(bench.tuner(), X, np.zeros_like(X)), "other configurations"


def test_a_search_leaves_no_trace() -> None:
    @ct.kernel
    def accumulate(x, out, TILE: ct.Constant[int]):
        i = ct.bid(0)
        ct.store(out, (i,), ct.load(out, (i,), (TILE,)) + ct.load(x, (i,), (TILE,)))

    tuner = Tuner(
        accumulate,
        [8, 16, 32],
        lambda tile, x, out: (ct.cdiv(x.size, tile),),
        lambda tile, x, out: (x, out, tile),
        options_fn=lambda tile: {"threads": 1, "chunk": 2},
        quiet=True,
    )
    out = np.ones_like(X)
    tuner.search(X, out)
    assert (out == 1).all()
    for times in (1, 2):
        tuner.launch(None, X, out)
        np.testing.assert_array_equal(out, 1 + times * X)
    config = tuner.search(X, out).best.config
    kernel = tuner.kernel_for(config, (X, out, config))
    assert kernel.options == {"cpu": {"threads": 1, "chunk": 2}}
    assert len(kernel.inspect().specializations) == 1, "the launches run what the search compiled"


def test_configurations_that_raise_are_failures() -> None:
    def grid(tile: int, x: Any, out: Any) -> tuple[int, ...]:
        if tile == 64:
            raise RuntimeError("no grid")
        return (ct.cdiv(x.size, tile),)

    for tiles in ([12, 16, 64], [64, 16, 12]):
        tuner = Tuner(doubled, tiles, grid, lambda t, x, o: (x, o, t), quiet=True)
        for _ in range(2):
            found = tuner.search(X, np.zeros_like(X))
            assert [m.config for m in found.successes] == [16]
            assert {(f[0], f[1]) for f in found.failures} == {(12, ct.TileTypeError), (64, RuntimeError)}
    with pytest.raises(
        ValueError, match="none of the 2 configurations works; the first, 64, raised RuntimeError: no grid"
    ):
        Tuner(doubled, [64, 12], grid, lambda t, x, o: (x, o, t), quiet=True).search(X, np.zeros_like(X))


def test_wrong_options_and_limits() -> None:
    def tuner(**options: Any) -> Tuner[int]:
        return Tuner(doubled, [8], lambda t, x, o: (8,), lambda t, x, o: (x, o, t), quiet=True, **options)

    with pytest.raises(ValueError, match="the cpu backend has no option 'warps'; its options are threads, chunk"):
        tuner(options_fn=lambda c: {"warps": 4}).search(X, X.copy())
    with pytest.raises(ValueError, match="the option threads of the cpu backend is 0; it must be a positive integer"):
        tuner(options_fn=lambda c: {"threads": 0}).search(X, X.copy())
    with pytest.raises(ValueError, match="patience is 0"):
        tuner(patience=0)
    with pytest.raises(ValueError, match="configs is empty"):
        Tuner(doubled, [], lambda: (1,), lambda: ())


def test_progress_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    bar = Progress(8, quiet=False)
    bar.show(2, "searching", 12.34, 1)
    assert capsys.readouterr().err == "\r\033[Ktuning [######..................] 2/8 searching  best 12.3 us  1 failed"
    bar.close()
    assert capsys.readouterr().err == "\r\033[K"
    Progress(8, quiet=True).show(1, "", None, 0)
    assert capsys.readouterr().err == ""


# -- the gate


@ct.kernel
def half_done(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    if i % 2 == 0:
        ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * 2)


@ct.kernel
def wrong_at_16(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * (2 if TILE != 16 else 3))


@ct.kernel
def single_precision(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), (ct.load(x, (i,), (TILE,)).astype(ct.float32) * 2.1).astype(out.dtype))


def gated(kernel: Any, gate: Gate, x: np.ndarray = X) -> Any:
    out = np.zeros_like(x)
    found = ct.tune.exhaustive_search(
        [16, 32],
        None,
        lambda t: (ct.cdiv(x.size, t),),
        kernel,
        lambda t: (x, out, t),
        quiet=True,
        gate=gate,
    )
    return found


def double(x: Any, out: Any, tile: int) -> None:
    np.multiply(x, 2, out=out)


def test_right_kernels_pass() -> None:
    for x in (X, X.astype(np.float16), X.astype(np.int32), np.full(64, np.nan)):
        assert len(gated(doubled, Gate(), x).successes) == 2
        assert len(gated(doubled, Gate(reference=double), x).successes) == 2


def test_unwritten_elements() -> None:
    with pytest.raises(
        ValueError, match=r"Refused: 32 of 64 elements of 'out' are never written, the first at \(16,\)"
    ):
        gated(half_done, Gate())
    with pytest.raises(
        ValueError, match=r"Refused: 32 of 64 elements of 'out' are wrong, the first at \(16,\): 0.0 instead"
    ):
        gated(half_done, Gate(reference=double, complete=False))


def test_wrong_results() -> None:
    found = gated(wrong_at_16, Gate(reference=double))
    ((config, error, message),) = found.failures
    assert (config, error) == (16, Refused)
    assert message == "63 of 64 elements of 'out' are wrong, the first at (1,): 3.0 instead of 2.0"
    assert found.best.config == 32
    assert len(gated(wrong_at_16, Gate()).successes) == 2, "each agrees with the reference backend"


def test_tolerance() -> None:
    def exact(x: Any, out: Any, tile: int) -> None:
        np.multiply(x, 2.1, out=out)

    with pytest.raises(ValueError, match="elements of 'out' are wrong"):
        gated(single_precision, Gate(reference=exact))
    assert len(gated(single_precision, Gate(reference=exact, tolerance=1e-6)).successes) == 2


def test_a_small_problem_of_its_own() -> None:
    small = np.arange(20.0)
    seen: list[Any] = []

    def reference(x: Any, out: Any, tile: int) -> None:
        seen.append((x.size, tile))
        double(x, out, tile)

    gate = Gate(reference, grid_fn=lambda t: (ct.cdiv(20, t),), args_fn=lambda t: (small, np.empty(20), t))
    assert len(gated(doubled, gate).successes) == 2
    assert seen == [(20, 16), (20, 32)]


def test_the_tuner_has_a_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, space(tile=(16, 32)), lambda c: float(c["tile"]))
    found = bench.tuner(wrong_at_16, gate=Gate(reference=double)).search(X, np.zeros_like(X))
    assert found.best.config == {"tile": 32} and found.failures[0][1] is Refused
    again = bench.tuner(wrong_at_16, gate=Gate(reference=double)).search(X, np.zeros_like(X))
    assert again.failures[0][1] is Refused


@ct.kernel
def racing(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * 2)
    ct.store(out, (0,), ct.load(x, (0,), (TILE,)) * 2)  # what every block stores, to the same place


@ct.kernel
def overrunning(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,), check_bounds=False) * 2)


def test_undefined_behaviour() -> None:
    with pytest.raises(ValueError, match=r"Refused: .*race.* at .*test_tuner\.py:\d+:5: .*in block"):
        gated(racing, Gate(reference=double))
    assert len(gated(racing, Gate(reference=double, sanitize=False)).successes) == 2, "the values happen to be right"
    x = np.arange(40.0)
    with pytest.raises(
        ValueError, match=r"Refused: partition-\S+ at .*test_tuner\.py:\d+:25: tile \(2\) reaches outside"
    ):
        gated(overrunning, Gate(reference=double), x)
