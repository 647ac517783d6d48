"""Runs an example: checks it against NumPy, times both, and prints one line."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_SECONDS = 0.4  # spent on timing each side
_MIN_RUNS, _MAX_RUNS = 3, 25
HEADER = f"{'kernel':<28}{'size':<26}{'time':>12}{'NumPy':>12}{'ratio':>8}{'max error':>12}"


@dataclass(frozen=True)
class Case:
    """A computation done by a kernel and by NumPy.

    ``tolerance`` bounds the largest absolute difference, relative to the largest magnitude in NumPy's result.
    """

    name: str
    size: str
    ours: Callable[[], Array]
    numpy: Callable[[], Array]
    tolerance: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What running a case gave; times in seconds."""

    name: str
    size: str
    time: float
    numpy_time: float
    error: float
    correct: bool

    def __str__(self) -> str:
        ratio = f"{self.numpy_time / self.time:.2f}x"
        times = f"{self.time * 1e3:>9.2f} ms{self.numpy_time * 1e3:>9.2f} ms{ratio:>8}"
        return f"{self.name:<28}{self.size:<26}{times}{self.error:>12.1e}{'' if self.correct else '  WRONG'}"


def measure(case: Case) -> Outcome:
    """Run ``case`` once to compile and check it, then often enough for stable medians."""
    expected, result = case.numpy(), case.ours()
    assert result.shape == expected.shape, (result.shape, expected.shape)
    wide = expected.astype(np.float64)
    error = float(np.max(np.abs(result.astype(np.float64) - wide), initial=0.0))
    correct = error <= case.tolerance * float(np.max(np.abs(wide), initial=0.0))
    return Outcome(case.name, case.size, _median(case.ours), _median(case.numpy), error, correct)


def _median(work: Callable[[], object]) -> float:
    times: list[float] = []
    while len(times) < _MIN_RUNS or (sum(times) < _SECONDS and len(times) < _MAX_RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main(cases: Callable[[bool], Sequence[Case]]) -> None:
    """Run the cases of an example, print a line for each, and exit with status 1 when one is wrong."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--small", action="store_true", help="small arrays, for a quick look")
    outcomes = [measure(case) for case in cases(parser.parse_args().small)]
    print(HEADER, *outcomes, sep="\n")
    sys.exit(not all(o.correct for o in outcomes))


def normal(*shape: int, seed: int = 0) -> Array:
    """Random float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def by(*shape: int) -> str:
    """A shape as text."""
    return " x ".join(map(str, shape))
