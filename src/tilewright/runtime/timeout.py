"""A limit on the time that a backend's compiler may take."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tilewright.backends.cancellation import COMPILATION, Compilation
from tilewright.ir.errors import TileCompilerTimeoutError
from tilewright.system import environment
from tilewright.system.overtime import Overtime, within

_T = TypeVar("_T")
_seconds: float | None = None
_cancelled: list[threading.Thread] = []
_PATIENCE = 20  # seconds


@contextmanager
def compiler_timeout(timeout_sec: float | None) -> Iterator[None]:
    """A context in which a compilation that takes longer raises TileCompilerTimeoutError.

    It holds for the whole process, not for one thread. None means no limit. Source: behaviour of `cuda.tile` 1.7.

    >>> @ct.kernel
    ... def clear(x):
    ...     ct.store(x, (ct.bid(0),), ct.zeros((4,), ct.int32))
    >>> x = np.ones(4, np.int32)
    >>> with ct.compiler_timeout(60):
    ...     ct.launch(None, (1,), clear, (x,))
    >>> x
    array([0, 0, 0, 0], dtype=int32)
    """
    outer = _seconds
    set_limit(timeout_sec)
    try:
        yield
    finally:
        set_limit(outer)


def set_limit(timeout_sec: float | None) -> None:
    """What ``compiler_timeout`` sets for a while. ValueError for no positive number."""
    global _seconds
    if timeout_sec is not None and not (isinstance(timeout_sec, (int, float)) and timeout_sec > 0):
        raise ValueError(f"compiler_timeout({timeout_sec!r}): the limit must be a positive number of seconds, or None")
    _seconds = timeout_sec


def limit() -> float | None:
    """The seconds that a compilation may take; None when there is no limit."""
    return environment.compiler_timeout() if _seconds is None else _seconds


def within_timeout(compile_: Callable[[], _T], kernel: str) -> _T:
    """``compile_()``, or TileCompilerTimeoutError.

    A native compiler cannot be interrupted: after the limit its thread ends by itself, and what it made is dropped.
    What it has changed in the process is undone at the limit.
    """
    seconds = limit()
    if seconds is None or seconds >= threading.TIMEOUT_MAX:  # what the system cannot wait for never comes
        return compile_()
    compilation = Compilation()

    def work() -> _T:
        COMPILATION.set(compilation)  # of this thread
        return compile_()

    try:
        return within(seconds, work, "tilewright compiler")
    except Overtime as late:
        compilation.cancel()
        _cancelled[:] = [t for t in (*_cancelled, late.thread) if t.is_alive()]
    raise TileCompilerTimeoutError(f"compiling {kernel}() took longer than the limit of {seconds:g} s")


@atexit.register
def _wait_at_exit() -> None:
    """Native code that comes back to a Python that ends aborts the process: wait for it, if not forever."""
    end = time.monotonic() + _PATIENCE
    for thread in _cancelled:
        thread.join(max(0.0, end - time.monotonic()))
