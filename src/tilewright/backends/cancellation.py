"""What to undo when nobody waits for a compilation any more.

A native compiler cannot be interrupted: after its time limit it goes on in its thread. What it changed in the process,
such as where the standard error goes, must not stay changed until it ends, nor be changed by it later.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextvars import ContextVar


class Cancelled(Exception):
    """Nobody waits for the compilation of this thread."""


class Compilation:
    """One in a thread of its own, which may be cancelled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._changes: list[contextlib.ExitStack] = []

    def cancel(self) -> None:
        """Undo what it has changed, in this thread. It changes nothing more."""
        with self._lock:
            self._cancelled = True
            while self._changes:
                self._changes.pop().close()

    @contextlib.contextmanager
    def change(self, *changes: contextlib.AbstractContextManager[object]) -> Iterator[None]:
        """Make ``changes`` until the context ends or the compilation is cancelled. Cancelled when it is already."""
        with self._lock, contextlib.ExitStack() as entered:
            if self._cancelled:
                raise Cancelled
            for one in changes:
                entered.enter_context(one)
            stack = entered.pop_all()
            self._changes.append(stack)
        try:
            yield
        finally:
            with self._lock:
                if not self._cancelled:
                    self._changes.remove(stack)
                    stack.close()


COMPILATION: ContextVar[Compilation | None] = ContextVar("compilation", default=None)  # None where there is no limit


def until_cancelled(*changes: contextlib.AbstractContextManager[object]) -> contextlib.AbstractContextManager[None]:
    """A context that changes the process by ``changes`` until it ends, or until the compilation of this thread is
    cancelled."""
    return (COMPILATION.get() or Compilation()).change(*changes)
