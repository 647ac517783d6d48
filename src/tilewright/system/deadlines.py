"""Limits on the time that the launches of a thread may take."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator

_lock = threading.Lock()
LIMITED = ctypes.c_int64(0)  # how many threads have a limit now: code that cannot ask for it looks here


class _Deadline(threading.local):
    at = 0


_DEADLINE = _Deadline()


def _find_clock() -> Callable[[], int]:
    """The nanoseconds of the clock that machine code reads, too."""
    if os.name != "nt":
        return time.monotonic_ns
    ticks = getattr(ctypes, "windll").kernel32.GetTickCount64  # noqa: B009 - exists on Windows only
    ticks.restype = ctypes.c_uint64
    return lambda: int(ticks()) * 1_000_000


now = _find_clock()


def deadline() -> int:
    """When launches of this thread are to be cancelled, as ``now`` counts; 0 where there is no limit."""
    return _DEADLINE.at


class LaunchTimeout(TimeoutError):
    """A launch was cancelled at the time limit of its thread."""

    def __init__(self) -> None:
        super().__init__("the launch was cancelled at its time limit")


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """A context in which launches of this thread that are not over after ``seconds`` raise LaunchTimeout,
    on backends that can cancel a launch."""
    before = _DEADLINE.at
    ours = now() + int(min(seconds, 1e9) * 1e9)
    with _lock:
        LIMITED.value += 1
    try:
        _DEADLINE.at = min(before or ours, ours)
        yield
    finally:
        _DEADLINE.at = before
        with _lock:
            LIMITED.value -= 1
