"""Refusing configurations that compute something wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import sanitizer
from tilewright.analysis.argument_effects import argument_effects
from tilewright.analysis.manager import AnalysisManager
from tilewright.records import dataclass
from tilewright.runtime.launch import launch, specialization
from tilewright.runtime.launchable import Launchable
from tilewright.tune.arrays import Args, as_numpy, copy_of, named_arrays, on_host, with_arrays
from tilewright.tune.candidate import Work

# Largest difference that the order of additions explains, relative to the largest expected value, by element bytes.
_TOLERANCE = {1: 0.25, 2: 2e-2, 4: 1e-4, 8: 1e-9}


class Refused(Exception):
    """A configuration that the gate does not let through; the message says what it does wrong."""


@dataclass(frozen=True)
class Gate:
    """What a configuration must fulfil before it is measured.

    With ``sanitize`` a run on the reference backend under the sanitizer must find no undefined behaviour: no race, no
    access outside of an array, and none of its other categories. With ``complete`` it must write every element of
    the arrays that it only writes. And its results must agree with ``reference(*args)``, which is called with
    arguments like the kernel's and stores into them as the kernel does; by default the reference backend runs the
    kernel. Floats may differ by ``tolerance``, relative to the largest expected magnitude of the array; None chooses
    it by the dtype. Other numbers must be equal.

    The check works on copies. It is slow, so give it a small problem: ``grid_fn`` and ``args_fn`` map a configuration
    to the grid and the arguments of the check; None takes those of the search.
    """

    reference: Callable[..., Any] | None = None
    tolerance: float | None = None
    complete: bool = True
    sanitize: bool = True
    grid_fn: Callable[[Any], tuple[int, ...]] | None = None
    args_fn: Callable[[Any], Args] | None = None

    def check(self, config: Any, work: Work, stream: Any) -> None:
        """Refused, with the reason, when the configuration does not pass. Also what running it raises."""
        grid = work.grid if self.grid_fn is None else self.grid_fn(config)
        kernel, args = work.kernel, work.args() if self.args_fn is None else self.args_fn(config)
        found = specialization(kernel, args)
        read = AnalysisManager(found.function).get(argument_effects).read
        problem = _Problem(kernel, grid, args, stream, found.written)
        if self.sanitize:
            problem.require_defined()
        first = problem.run(fill=0, keep=read)
        if self.complete:
            problem.require_complete(first, problem.run(fill=1, keep=read), keep=read)
        expected = problem.copies()
        if self.reference is None:
            expected = with_arrays(kernel, expected, lambda _, array: on_host(array))
            launch(None, grid, kernel, expected, backend="reference")
        else:
            self.reference(*expected)
        problem.require_equal(first, expected, self.tolerance)


@dataclass(frozen=True)
class _Problem:
    """A launch that can be repeated, since it works on copies of the arrays that it writes."""

    kernel: Launchable
    grid: tuple[int, ...]
    args: Args
    stream: Any
    written: frozenset[str]

    def copies(self) -> Args:
        return with_arrays(self.kernel, self.args, lambda name, a: copy_of(a) if name in self.written else a)

    def run(self, *, fill: int, keep: frozenset[str]) -> Args:
        """The arguments after a run. Arrays that are written, and not among ``keep``, held ``fill`` before."""
        args = self.copies()
        for name, array in self._outputs(args):
            if name not in keep:
                array[...] = fill
        launch(self.stream, self.grid, self.kernel, args)
        return args

    def require_defined(self) -> None:
        """Refused when the sanitizer finds something."""
        args = with_arrays(self.kernel, self.copies(), lambda _, array: on_host(array))
        with sanitizer.sanitize() as report:
            launch(None, self.grid, self.kernel, args)
        if report.violations:
            first = report.violations[0]
            where = "" if first.block is None else f", in block {first.block}"
            raise Refused(f"{first.category.name} at {first.loc}: {first.message}{where}; {report.summary()}")

    def require_complete(self, first: Args, second: Args, keep: frozenset[str]) -> None:
        """Refused when an element still holds what two runs found there."""
        for (name, a), (_, b) in zip(self._outputs(first), self._outputs(second)):
            if name in keep:
                continue
            untouched = (as_numpy(a) == 0) & (as_numpy(b) == 1)
            if untouched.any():
                raise Refused(f"{_count(untouched, name)} never written, the first at {_first_index(untouched)}")

    def require_equal(self, found: Args, expected: Args, tolerance: float | None) -> None:
        """Refused when a written array differs from what is expected."""
        for (name, a), (_, b) in zip(self._outputs(found), self._outputs(expected)):
            ours, theirs = as_numpy(a), as_numpy(b)
            if ours.dtype.kind in "biu":
                wrong = ours != theirs
            else:
                relative = _TOLERANCE[int(a.dtype.itemsize)] if tolerance is None else tolerance
                largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)
                both_nan = np.isnan(ours) & np.isnan(theirs)
                with np.errstate(invalid="ignore"):
                    close = (np.abs(ours - theirs) <= relative * largest) | (ours == theirs) | both_nan
                wrong = ~close
            if wrong.any():
                first = _first_index(wrong)
                raise Refused(
                    f"{_count(wrong, name)} wrong, the first at {first}: {ours[first]} instead of {theirs[first]}"
                )

    def _outputs(self, args: Args) -> list[tuple[str, Any]]:
        return [(name, array) for name, array in named_arrays(self.kernel, args) if name in self.written]


def _count(where: np.ndarray[Any, Any], name: str) -> str:
    count = int(where.sum())
    return f"{count} of {where.size} elements of '{name}' {'is' if count == 1 else 'are'}"


def _first_index(where: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(where.argmax()), where.shape))
