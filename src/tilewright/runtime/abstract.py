"""Launches without arrays: what a launch would run, for programs that embed kernels in other compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tilewright.backends.base import Capabilities, Executable
from tilewright.ir.core import Function
from tilewright.runtime.arrays import RuntimeValues
from tilewright.runtime.grid import checked_grid
from tilewright.runtime.launchable import Launchable


class RecordedLaunch(NamedTuple):
    """A launch that was not run. ``values`` are those of the parameters of ``function``, each address being an
    ``AbstractAddress``; ``written`` names the arguments that it stores to."""

    kernel: Launchable
    grid: tuple[int, int, int]
    function: Function
    executable: Executable
    capabilities: Capabilities  # of the backend
    values: Sequence[Any]
    written: frozenset[str]


def record_launches(run: Callable[[Any], None]) -> list[RecordedLaunch]:
    """The launches that ``run`` makes on the stream that it is given, compiled but not run.

    It raises what ``ct.launch`` raises; ValueError for lists of arrays.
    """
    recorder = LaunchRecorder()
    run(recorder)
    return recorder.launches


class LaunchRecorder:
    """Takes the place of a stream, to learn of the launches."""

    def __init__(self) -> None:
        self.launches: list[RecordedLaunch] = []

    def record_launch(self, grid: Any, kernel: Launchable, args: Any, backend: str | None) -> None:
        """Note a launch: ``ct.launch`` calls this."""
        blocks, runtime = checked_grid(grid), RuntimeValues()
        plan = kernel.plan_for(args, backend, runtime)
        if plan.takes_lists:
            raise ValueError(f"{kernel.name}() takes a list of arrays, which cannot be recorded; pass them one by one")
        found, values = plan.specialization, plan.arguments(runtime).values
        launch = found.function, found.launcher, plan.capabilities, values, found.written
        self.launches.append(RecordedLaunch(kernel, blocks, *launch))
