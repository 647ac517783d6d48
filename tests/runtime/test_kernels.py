"""Kernel objects, launches and the choice of the backend."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright as ct
from tilewright.runtime import timeout
from tilewright.runtime.launch import specialization


@ct.kernel
def double(x, out):
    """Twice x."""
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (8,)) * 2)


@ct.kernel
def count_blocks(out):
    ct.atomic_add(out, (ct.bid(0), ct.bid(1), ct.bid(2)), 1)


def helper(x: Any) -> Any:
    return x


# -- the decorator


def test_kernel_keeps_the_looks_of_its_function() -> None:
    assert double.__name__ == "double" and double.__doc__ == "Twice x." and "double" in repr(double)


def test_a_kernel_shows_its_parameters_and_what_is_compiled() -> None:
    @ct.kernel(occupancy=2)
    def shown(x, N: ct.Constant[int], more=0.5):
        ct.store(x, (0,), ct.full((1,), N, x.dtype))

    line = shown.function.__code__.co_firstlineno
    start = f"<kernel shown(x, N, more=0.5), occupancy=2 at test_kernels.py:{line}, "
    assert repr(shown) == start + "not compiled yet>"
    for n in (1, 1, 2):
        ct.launch(None, (1,), shown, (np.zeros(1), n), backend="reference")
    assert repr(shown) == start + "2 specializations>"


def test_completion_offers_public_names() -> None:
    assert set(dir(ct)) == set(ct.__all__)


def test_calling_a_kernel_shows_the_launch() -> None:
    with pytest.raises(TypeError, match=r"launch it: ct.launch\(stream, grid, double, \(x, out\)\)"):
        double(1, 2)
    with pytest.raises(TypeError, match=r"ct.launch\(stream, grid, count_blocks, \(out,\)\)"):
        count_blocks()


@pytest.mark.parametrize("thing", [3, "f", print, int, double])
def test_only_functions_become_kernels(thing: Any) -> None:
    with pytest.raises(TypeError, match=r"@ct.kernel marks a Python function, not"):
        ct.kernel(thing)


GOOD = [{"num_ctas": 16}, {"occupancy": 32}, {"opt_level": 0}, {"num_worker_warps": 8}, {"num_ctas": None}]
GOOD += [{"num_ctas": ct.ByTarget(sm_90=4, default=1), "occupancy": ct.ByTarget(sm_100=2)}]
BAD = [{"num_ctas": 3}, {"num_ctas": 32}, {"occupancy": 0}, {"occupancy": 33}, {"opt_level": 4}, {"opt_level": True}]
BAD += [
    {"num_worker_warps": 3},
    {"num_ctas": 2.0},
    {"num_ctas": ct.ByTarget(sm_90=3)},
    {"occupancy": ct.ByTarget(default=0)},
]


@pytest.mark.parametrize("hints", GOOD, ids=str)
def test_good_hints(hints: dict[str, Any]) -> None:
    assert ct.kernel(**hints)(helper).name == "helper"
    assert set(double.replace_hints(**hints).hints) <= set(hints)


@pytest.mark.parametrize("hints", BAD, ids=str)
def test_bad_hints(hints: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="it must be"):
        ct.kernel(**hints)
    with pytest.raises(ValueError, match="it must be"):
        double.replace_hints(**hints)


def test_unknown_hints() -> None:
    with pytest.raises(TypeError, match=r"'warps'; it is called as kernel\(function=None, /, \*, num_ctas=None"):
        ct.kernel(warps=3)
    with pytest.raises(TypeError, match="unknown kernel hint 'warps'; the hints are num_ctas"):
        double.replace_hints(warps=3)


def test_replaced_hints_reach_the_ir(backend: str) -> None:
    changed = double.replace_hints(num_ctas=ct.ByTarget(sm_90=2), opt_level=3)
    x, out = np.arange(8.0), np.zeros(8)
    ct.launch(None, (1,), changed, (x, out))
    np.testing.assert_array_equal(out, 2 * x)
    assert specialization(changed, (x, out)).function.hints == {"num_ctas": ct.ByTarget(sm_90=2)}
    assert specialization(double, (x, out)).function.hints == {}


# -- launching


@pytest.mark.parametrize("grid", [(), (3,), (3, 2), (3, 2, 4), (np.int64(3), 2)], ids=str)
def test_every_block_runs_once(backend: str, grid: tuple[int, ...]) -> None:
    out = np.zeros((4, 4, 4), np.int32)
    ct.launch(None, grid, count_blocks, (out,))
    x, y, z = (*grid, 1, 1, 1)[:3]
    expected = np.zeros_like(out)
    expected[:x, :y, :z] = 1
    np.testing.assert_array_equal(out, expected)


class Extents(NamedTuple):
    x: int
    y: int


class Arguments(NamedTuple):
    x: np.ndarray
    out: np.ndarray


def test_tuples_with_names() -> None:
    """The grid may be a shape of PyTorch, and the arguments a record."""
    out = np.zeros((4, 4, 4), np.int32)
    for _ in range(8):  # repeated launches go another way
        ct.launch(None, Extents(3, 2), count_blocks, (out,))
    assert out.sum() == 48
    x, doubled = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    for _ in range(8):
        ct.launch(None, (1,), double, Arguments(x, doubled))
    np.testing.assert_array_equal(doubled, 2 * x)


BAD_GRIDS = [
    ([1], TypeError, "must be a tuple"),
    (1, TypeError, "must be a tuple"),
    ((1.0,), TypeError, "entry 0 of the grid (1.0,) is no integer"),
    ((1, True), TypeError, "entry 1"),
    ((1, "2"), TypeError, "entry 1"),
    ((1, 1, 1, 1), ValueError, "has 4 dimensions; there are at most three"),
    ((1, -1), OverflowError, "entry 1 of the grid (1, -1) is negative"),
    ((0,), ValueError, "is 0: there is no block to run"),
    ((1, 1, 1 << 24), ValueError, "more than 16777215 blocks"),
    ((1 << 22, 1 << 21, 1 << 20), ValueError, "has 9223372036854775808 blocks, more than 2**63 - 1"),
    ((1 << 22, 1 << 21, 1 << 21), ValueError, "has 18446744073709551616 blocks"),
    (((1 << 24) - 1,) * 3, ValueError, "more than 2**63 - 1"),
]


@pytest.mark.parametrize("grid, error, words", BAD_GRIDS, ids=[str(g) for g, _, _ in BAD_GRIDS])
def test_bad_grids(grid: Any, error: type[Exception], words: str) -> None:
    out = np.zeros((4, 4, 4), np.int32)
    with pytest.raises(error) as caught:
        ct.launch(None, grid, count_blocks, (out,))
    assert words in str(caught.value)
    with pytest.raises(error):
        count_blocks.bind(grid, (out,))
    assert not out.any()
    for _ in range(8):  # repeated launches go another way
        ct.launch(None, (1,), count_blocks, (out,))
    with pytest.raises(error):
        ct.launch(None, grid, count_blocks, (out,))
    assert out[0, 0, 0] == out.sum() > 0


def test_wrong_launches() -> None:
    x, out = np.arange(8.0), np.zeros(8)
    with pytest.raises(TypeError, match="helper is not a kernel; decorate it with @ct.kernel"):
        ct.launch(None, (1,), helper, (x,))
    with pytest.raises(TypeError, match="must be a kernel, not 3"):
        ct.launch(None, (1,), 3, (x,))
    with pytest.raises(TypeError, match=r"double\(\) takes 2 arguments \(x, out\), but 1 was given"):
        ct.launch(None, (1,), double, (x,))
    with pytest.raises(TypeError, match=r"must be a tuple, not list"):
        ct.launch(None, (1,), double, [x, out])
    with pytest.raises(TypeError, match=r"for one argument write \(x,\)"):
        ct.launch(None, (1,), count_blocks, out)
    with pytest.raises(TypeError, match="the first argument of ct.launch is the stream"):
        ct.launch((1,), (1,), double, (x, out))
    with pytest.raises(TypeError, match="programmatic_dependent_launch is 1"):
        ct.launch(None, (1,), double, (x, out), programmatic_dependent_launch=1)
    assert not out.any()


class Stream:
    cuda_stream = 0


@pytest.mark.parametrize("stream", [None, 0, Stream()], ids=["None", "0", "object"])
def test_streams_are_accepted(stream: Any) -> None:
    x, out = np.arange(8.0), np.zeros(8)
    ct.launch(stream, (1,), double, (x, out), programmatic_dependent_launch=True)
    np.testing.assert_array_equal(out, 2 * x)


def test_overlap_is_found_when_asked_for(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = np.arange(32.0)
    ct.launch(None, (1,), double, (memory[:8], memory[4:12]), check_overlap=False)
    words = r"argument 'out' of double\(\) is written but overlaps 'x'"
    with pytest.raises(ValueError, match=words):
        ct.launch(None, (1,), double, (memory[:8], memory[4:12]), check_overlap=True)
    monkeypatch.setenv("TILEWRIGHT_CHECK_OVERLAP", "1")
    for x, out in ((memory[:8], memory[:8]), (memory[15::-2], memory[1::2])):
        with pytest.raises(ValueError, match=words):
            ct.launch(None, (1,), double, (x, out))
    ct.launch(None, (1,), double, (memory[:16:2], memory[1:16:2]))
    ct.launch(None, (1,), double, (memory[:8], memory[8:16]))
    ct.launch(None, (1,), double, (memory[:0], memory[:0]))


# -- backends


def test_choice_of_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    def backend_used(**options: Any) -> str:
        found = type(specialization(double, (np.zeros(8), np.zeros(8)), **options).executable).__name__
        return {"CpuExecutable": "cpu", "ReferenceExecutable": "reference"}[found]

    assert backend_used() == "cpu"
    monkeypatch.setenv("TILEWRIGHT_BACKEND", "reference")
    assert backend_used() == "reference"
    with ct.use_backend("cpu"):
        assert backend_used() == "cpu"
        with ct.use_backend("reference"):
            assert backend_used() == "reference"
            assert backend_used(backend="cpu") == "cpu"
        assert backend_used() == "cpu"
    assert backend_used() == "reference"


def test_unknown_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(ValueError, match="unknown backend 'cuda'; choose one of reference, cpu"),
        ct.use_backend("cuda"),
    ):
        pass
    args = (np.zeros(8), np.zeros(8))
    with pytest.raises(ValueError, match="unknown backend 'cuda'"):
        ct.launch(None, (1,), double, args, backend="cuda")
    monkeypatch.setenv("TILEWRIGHT_BACKEND", "cuda")
    with pytest.raises(ValueError, match="unknown backend 'cuda'"):
        ct.launch(None, (1,), double, args)


# -- threads and time


def test_launches_from_many_threads(backend: str) -> None:
    @ct.kernel
    def add(x, out, n: ct.Constant[int]):
        ct.store(out, (0,), ct.load(x, (0,), (8,)) + n)

    failures: list[Any] = []

    def work(number: int) -> None:
        for n in range(4):
            x, out = np.full(8, number), np.zeros(8, np.int64)
            ct.launch(None, (1,), add, (x, out, n), backend=backend)
            if not (out == number + n).all():
                failures.append((number, n, out))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_compiler_timeout() -> None:
    with ct.compiler_timeout(60):
        x, out = np.arange(8.0), np.zeros(8)
        ct.launch(None, (1,), double.replace_hints(), (x, out), backend="cpu")
        np.testing.assert_array_equal(out, 2 * x)
        with pytest.raises(ZeroDivisionError):
            timeout.within_timeout(lambda: 1 // 0, "f")
    released = threading.Event()
    with (
        ct.compiler_timeout(0.01),
        pytest.raises(ct.TileCompilerTimeoutError, match=r"f\(\) took longer than .* 0.01 s"),
    ):
        timeout.within_timeout(lambda: released.wait(300), "f")
    released.set()
    with pytest.raises(ValueError, match="positive number of seconds"), ct.compiler_timeout(0):
        pass
    assert timeout.within_timeout(time.time, "f") > 0


@ct.kernel
def _scaled(x: Any, out: Any, factor: Any = 2.0, TILE: ct.Constant[int] = 16) -> None:
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * factor)


def test_arguments_by_name_and_by_default(backend: str) -> None:
    x = np.arange(32, dtype=np.float32)
    out = np.zeros_like(x)
    for _ in range(6):  # later launches go another way
        for args, keywords, factor in (
            ((x, out), {}, 2),
            ((x, out), {"factor": 3.0}, 3),
            ((x, out), {"TILE": 32, "factor": 5.0}, 5),
            ((x,), {"out": out}, 2),
            ((x, out, 4.0), {}, 4),
            ((x, out, 4.0, 8), {}, 4),
        ):
            out[...] = -1
            ct.launch(None, (4,), _scaled, args, **keywords)
            assert np.array_equal(out, factor * x)
    out[...] = -1
    _scaled.bind((2,), (x, out))()
    assert np.array_equal(out, 2 * x)


@pytest.mark.parametrize(
    ("args", "keywords", "error", "words"),
    [
        (1, {}, TypeError, r"takes 4 arguments \(x, out, factor=2.0, TILE=16\), but 1 was given"),
        (0, {"x": 1.0}, TypeError, "but 1 was given"),
        (5, {}, TypeError, "but 5 were given"),
        (2, {"x": 1.0}, TypeError, "gets its argument 'x' twice"),
        (
            2,
            {"Factor": 1.0},
            RuntimeError,
            r"has no keyword 'Factor'; did you mean factor\?; it has .* and the names of the kernel's parameters",
        ),
    ],
)
def test_wrong_arguments_by_name(args: int, keywords: dict[str, Any], error: type[Exception], words: str) -> None:
    arrays = (np.zeros(32, np.float32),) * args
    with pytest.raises(error, match=words):
        ct.launch(None, (2,), _scaled, arrays, **keywords)


def test_other_ways_to_launch_are_explained() -> None:
    x = np.zeros(32, np.float32)
    with pytest.raises(TypeError, match=r"the first is the stream: ct.launch\(None, grid, kernel"):
        ct.launch((1,), _scaled, (x, x))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Triton's way .* here it is ct.launch\(stream, \(1,\), _scaled"):
        _scaled[(1,)](x, x)
