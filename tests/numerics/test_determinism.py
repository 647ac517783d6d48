"""The same bits whatever the number of threads, the schedule, the options of the kernel, and the width of vectors."""

from __future__ import annotations

import ctypes
import math
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from support.elementwise import BACKENDS, apply

import tilewright as ct
from tilewright.backends.cpu import compiler
from tilewright.backends.cpu.target import host

M, N, K = 96, 80, 64


@ct.kernel
def normalize(x, y, out):
    """Several reductions of a row, elementwise functions, a scan."""
    row = ct.load(x, (ct.bid(0), 0), (1, 128))
    centered = row - ct.sum(row, 1, keepdims=True) / 128
    scale = ct.rsqrt(ct.sum(centered * centered, 1, keepdims=True) + 1e-6)
    e = ct.exp(centered * scale)
    ct.store(out, (ct.bid(0), 0), ct.cumsum(e / ct.sum(e, 1, keepdims=True), 1) + ct.prod(scale))


@ct.kernel
def columns(x, y, out):
    """Reductions along an outer axis, and of a whole tile."""
    tile = ct.load(x, (0, ct.bid(0)), (64, 32))
    ct.store(out, (ct.bid(0), 0), ct.sum(tile, 0, keepdims=True) * ct.tanh(ct.sum(tile)) + ct.sin(ct.max(tile)))


@ct.kernel
def product(x, y, out):
    acc = ct.zeros((32, 16), ct.float32)
    for k in range(ct.cdiv(K, 32)):
        a = ct.load(x, (ct.bid(0), k), (32, 32))
        b = ct.load(y, (k, ct.bid(1)), (32, 16))
        acc = ct.mma(a, b, acc)
    ct.store(out, (ct.bid(0), ct.bid(1)), acc)


@ct.kernel
def custom(x, y, out):
    """A function that is not associative, over a row; arg-maxima with ties."""
    row = ct.load(x, (ct.bid(0), 0), (1, 128))
    folded = ct.reduce(row, 1, lambda a, b: a * 0.75 + b, 0.0)
    place = ct.argmax(ct.floor(row), 1).astype(ct.float32)
    ct.store(out, (ct.bid(0), 0), ct.reshape(folded + place, (1, 1)) + ct.scan(row, 1, lambda a, b: a * 0.5 - b, 0.0))


def arrays(rows: int, columns: int, seed: int, dtype: Any = np.float32) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((rows, columns)) * 3).astype(dtype)


Program = tuple[Any, tuple[int, ...], Callable[[], tuple[np.ndarray, ...]]]
PROGRAMS: dict[str, Program] = {
    "normalize": (
        normalize,
        (1000,),
        lambda: (arrays(1000, 128, 1), arrays(1, 1, 0), np.zeros((1000, 128), np.float32)),
    ),
    "columns": (columns, (40,), lambda: (arrays(64, 1280, 2), arrays(1, 1, 0), np.zeros((40, 32), np.float32))),
    "product": (product, (3, 5), lambda: (arrays(M, K, 3), arrays(K, N, 4), np.zeros((M, N), np.float32))),
    "product of halves": (
        product,
        (3, 5),
        lambda: (arrays(M, K, 3, np.float16), arrays(K, N, 4, np.float16), np.zeros((M, N), np.float32)),
    ),
    "custom": (custom, (500,), lambda: (arrays(500, 128, 5), arrays(1, 1, 0), np.zeros((500, 128), np.float32))),
}


def run(backend: str, name: str, kernel: Any = None) -> bytes:
    """The output of a program; the reference backend computes the first few blocks of it only."""
    program, grid, make = PROGRAMS[name]
    arguments = make()
    if backend == "reference":
        grid = tuple(min(n, 6) for n in grid)
    with ct.use_backend(backend):
        ct.launch(None, grid, program if kernel is None else kernel, arguments)
    assert np.isfinite(arguments[2]).all() and arguments[2][: grid[0]].any()
    return arguments[2].tobytes()


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_and_schedules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for threads in (1, 2, 3, 8, 32):
        monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", str(threads))
        found |= {run("cpu", name) for _ in range(3)}
    assert len(found) == 1


OPTIONS: tuple[dict[str, Any], ...] = (
    {"num_ctas": 4, "occupancy": 8},
    {"opt_level": 0},
    {"num_worker_warps": 8, "opt_level": 1},
    {"num_ctas": 2, "occupancy": 3, "opt_level": 2},
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_options_of_the_kernel(backend: str, name: str) -> None:
    kernel = PROGRAMS[name][0]
    assert len({run(backend, name), *(run(backend, name, kernel.replace_hints(**hints)) for hints in OPTIONS)}) == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_options_of_the_backend(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tuner chooses among."""
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "6")
    found = {run("cpu", name)}
    for threads, chunk in ((1, 7), (2, 1), (2, 1000), (5, 1), (5, 7)):
        found.add(run("cpu", name, PROGRAMS[name][0].replace_options("cpu", threads=threads, chunk=chunk)))
    assert len(found) == 1


def fresh(name: str) -> Any:
    """The kernel of a program again: one that no other test has compiled."""
    return PROGRAMS[name][0].replace_hints(occupancy=1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_widths_of_vectors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors with shorter vectors and fewer registers, but the same arithmetic instructions."""
    found = set()
    for vector_bytes in (16, 32, 64):
        for registers in (16, 32):
            processor = host()._replace(vector_bytes=vector_bytes, vector_registers=registers)
            monkeypatch.setattr(compiler, "host", lambda processor=processor: processor)
            found.add(run("cpu", name, fresh(name)))
    assert len(found) == 1


@pytest.mark.parametrize("name", ["columns", "product", "product of halves", "custom"])
def test_both_backends_agree_where_only_order_matters(name: str) -> None:
    """Sums, products and custom folds round alike; of the functions that are involved only the last bits differ."""
    reference, ours = (np.frombuffer(run(backend, name), np.float32) for backend in BACKENDS)
    ours = np.where(reference == 0, 0, ours)  # of the blocks that have run on both
    if name == "custom":
        np.testing.assert_array_equal(ours, reference)
    else:
        np.testing.assert_allclose(ours, reference, rtol=4e-7)


@pytest.mark.parametrize("backend", BACKENDS)
def test_twice_the_same(backend: str) -> None:
    for name in PROGRAMS:
        assert run(backend, name) == run(backend, name)


UPWARD, TO_NEAREST = 0x800, 0  # of fesetround, on x86


@contextmanager
def rounding_upward() -> Iterator[None]:
    """The rounding mode of the calling thread, as another library may leave it."""
    library = ctypes.CDLL(None)
    library.fesetround(UPWARD)
    try:
        yield
    finally:
        library.fesetround(TO_NEAREST)


@pytest.mark.skipif(platform.machine() != "x86_64" or platform.system() != "Linux", reason="sets the x86 rounding mode")
def test_the_rounding_mode_of_the_caller_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.full(64, 1.0)
    third = [lambda v: v / 3.0, lambda v: ct.exp(v)]
    for threads in ("1", "4"):
        monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", threads)
        plain = apply("cpu", third, [x], [np.float64] * 2)
        with rounding_upward():
            assert ctypes.CDLL(None).fegetround() == UPWARD
            upward = apply("cpu", third, [x], [np.float64] * 2)
            assert ctypes.CDLL(None).fegetround() == UPWARD, "and it is left as it was"
        for a, b in zip(plain, upward):
            np.testing.assert_array_equal(a, b)
    assert math.isclose(plain[0][0], 1 / 3)
