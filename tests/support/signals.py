"""Signals that come while a kernel runs."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def alarm(handler: Callable[..., None], *, repeat: float = 0.0) -> Iterator[None]:
    """Within this context ``handler`` is called soon, and again every ``repeat`` seconds; also where what it raises is
    lost, as Python loses what is raised while an object is destroyed."""
    raised: list[BaseException] = []

    def noted(*given: Any) -> None:
        try:
            handler(*given)
        except BaseException as e:
            raised.append(e)
            raise

    def begin() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.05, repeat)

    before, unraisable = signal.signal(signal.SIGALRM, noted), sys.unraisablehook
    try:
        sys.unraisablehook = lambda lost: begin() if lost.exc_value in raised else unraisable(lost)
        begin()
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = unraisable
        signal.signal(signal.SIGALRM, before)
