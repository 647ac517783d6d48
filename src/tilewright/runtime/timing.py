"""How long a launch takes, on any backend."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from tilewright.backends.base import Backend
from tilewright.runtime.streams import stream_handle


def elapsed(backend: Backend, launch: Callable[[], None], stream: Any, *, flush_cache: bool) -> float:
    """The seconds that ``launch`` takes on ``backend``.

    By the clock of the host where launches return when they have ended; otherwise the backend times it on ``stream``.
    ``flush_cache`` asks for cold caches, which only backends with a stopwatch of their own can provide.
    """
    timed = _stopwatch(backend)  # type: ignore[arg-type]  # backends are hashable
    if timed is not None:
        return timed(launch, stream_handle(stream), flush_cache)
    if backend.device != "cpu":
        raise RuntimeError(f"the backend {backend.name!r} cannot time its launches, which end after they return")
    start = time.perf_counter()
    launch()
    return time.perf_counter() - start


@functools.lru_cache(maxsize=16)
def _stopwatch(backend: Backend) -> Callable[[Callable[[], None], int, bool], float] | None:
    """The stopwatch of ``backend``, asked for once: saying what it can do may take it longer than a launch."""
    return backend.capabilities.elapsed
