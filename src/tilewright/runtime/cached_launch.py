"""Launches that repeat the previous one of their kernel with other addresses and numbers, as most launches do.

Describing every argument and looking the description up takes several times as long as the launch itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.backends import native
from tilewright.backends.base import DirectLaunch
from tilewright.runtime.backend_choice import settings
from tilewright.runtime.grid import checked_grid
from tilewright.runtime.native_guards import native_launch
from tilewright.runtime.python_guards import guarded_values, never
from tilewright.runtime.rules import Rule
from tilewright.runtime.streams import stream_handle
from tilewright.runtime.versions import Path, noter_of_writes

# Launches after which machine code is made: it takes as long as many launches, and longer if LLVM is not loaded, as it
# is not on a CPU for kernels from the disk cache.
_SOON, _LATER = 4, 1000


class CachedLaunch:
    """Runs launches that need the code of an earlier one, if they had the same ``settings`` and like arguments."""

    def __init__(
        self,
        given: tuple[Any, ...],
        rules: Sequence[Rule],
        args: Sequence[Any],
        template: Sequence[Any],
        executable: DirectLaunch,
        device: int | None,
        tables: Sequence[np.ndarray[Any, Any]] = (),
        written: Sequence[Path] = (),
    ) -> None:
        """``template`` has the values of the function parameters, with a RUNTIME_SLOT for each address, number and
        table; ``device`` is the index of the GPU, None for a CPU; ``tables`` are the rows of tables without their
        addresses; ``written`` lead to the arguments whose version a launch increments.
        """
        self._note_writes = noter_of_writes(args, written)
        self.settings = given
        self._changed = frozenset(path[0] for path in written)
        self.values = guarded_values(rules, args, template, tables, self._changed)
        self.launch = self._launch
        self._rules, self._template, self._executable, self._device = rules, template, executable, device
        self._count = 0  # of repeated launches
        self._settled = False  # whether there is machine code, or can be none

    def stream_for(self, stream: Any) -> Any:
        """The stream to launch on: a CPU accepts any, and uses none."""
        return None if self._device is None else stream

    def recognizes(self, args: Any) -> bool:
        """Whether it runs launches with the settings of the earlier one and ``args``, which are like its arguments."""
        if self.values is not never:
            return self.values(args) is not None
        self._repeated(args)
        return True

    def _launch(self, stream: Any, grid: Any, args: Any, backend: str | None, /) -> bool:
        """Run a launch if it is like the earlier one; False, and nothing has happened, if not.

        After some launches, a function in machine code takes the place of this one where there can be one.
        """
        if self.settings != settings(backend):
            return False
        values, device = self.values(args), self._device
        if values is None or (stream is not None and device is None):
            return False
        self._executable.run(checked_grid(grid), values, stream_handle(stream), device or 0)
        if self._note_writes is not None:
            self._note_writes(args)
        self._repeated(args)
        return True

    def _repeated(self, args: Any) -> None:
        self._count += 1
        soon = self._device is not None or native.loaded()
        if not self._settled and self._count >= (_SOON if soon else _LATER):
            self._settled = True
            if native.available():
                given = self._rules, args, self._template, self._executable, self._device, self._changed
                made = native_launch(self.settings, *given)
                if made is not None:
                    self.launch = made if self._note_writes is None else _noting(made, self._note_writes)


def _noting(launch: Callable[..., bool], note_writes: Callable[[Any], object]) -> Callable[..., bool]:
    """``launch``, and ``note_writes`` of its arguments after it."""

    @functools.wraps(launch)
    def run(stream: Any, grid: Any, args: Any, backend: str | None, /) -> bool:
        if not launch(stream, grid, args, backend):
            return False
        note_writes(args)
        return True

    return run
