"""The progress bar of a search."""

from __future__ import annotations

import sys
import time

_WIDTH = 24
_INTERVAL = 0.05  # seconds between two drawings


class Progress:
    """One line on the terminal that is drawn over. Silent when ``quiet``, and where there is no terminal."""

    def __init__(self, total: int, quiet: bool) -> None:
        self._total = total
        self._shown = not quiet and sys.stderr.isatty()
        self._drawn = 0.0

    def show(self, done: int, what: str, best_us: float | None, failed: int) -> None:
        """Draw the bar: ``done`` of the configurations are decided."""
        now = time.monotonic()
        if not self._shown or (now - self._drawn < _INTERVAL and done < self._total):
            return
        self._drawn = now
        filled = _WIDTH * done // max(self._total, 1)
        best = "" if best_us is None else f"  best {best_us:.1f} us"
        failures = f"  {failed} failed" if failed else ""
        bar = "#" * filled + "." * (_WIDTH - filled)
        sys.stderr.write(f"\r\033[Ktuning [{bar}] {done}/{self._total} {what}{best}{failures}")
        sys.stderr.flush()

    def close(self) -> None:
        """Remove the bar."""
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
