"""A line on the terminal that says how far something is."""

from __future__ import annotations

import sys
import time

_WIDTH = 24
_INTERVAL = 0.05  # seconds between two drawings


class ProgressBar:
    """A bar on the standard error stream that is drawn over. Silent when ``quiet``, where there is no terminal, and in
    the first ``delay`` seconds."""

    def __init__(self, title: str, total: int, *, quiet: bool = False, delay: float = 0.0) -> None:
        self._title, self._total = title, total
        self._shown = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._next = time.monotonic() + delay
        self._drawn = False

    def show(self, done: int, note: str = "") -> None:
        """Draw the bar: ``done`` of the total are there."""
        now = time.monotonic()
        if not self._shown or (now < self._next and (done < self._total or not self._drawn)):
            return
        self._next, self._drawn = now + _INTERVAL, True
        filled = _WIDTH * done // max(self._total, 1)
        bar = "#" * filled + "." * (_WIDTH - filled)
        sys.stderr.write(f"\r\033[K{self._title} [{bar}] {done}/{self._total} {note}".rstrip())
        sys.stderr.flush()

    def close(self) -> None:
        """Remove the bar."""
        if self._drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        self._drawn = False
