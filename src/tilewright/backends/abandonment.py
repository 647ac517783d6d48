"""What to undo when nobody waits for a compilation any more.

A native compiler cannot be interrupted: after its time limit it goes on in its thread. What it changed in the process,
such as where the standard error goes, must not stay changed until it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

Undo = Callable[[], None]
UNDO: ContextVar[list[Undo] | None] = ContextVar("what to undo", default=None)  # None where there is no limit


def on_abandonment(undo: Undo) -> None:
    """Have ``undo`` called, in another thread, when the compilation of this thread is abandoned."""
    waiting = UNDO.get()
    if waiting is not None:
        waiting.append(undo)
