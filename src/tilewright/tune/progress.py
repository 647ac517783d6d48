"""The progress bar of a search."""

from __future__ import annotations

from tilewright.system.progress import ProgressBar


class Progress:
    """One line on the terminal that is drawn over. Silent when ``quiet``, and where there is no terminal."""

    def __init__(self, total: int, quiet: bool) -> None:
        self._bar = ProgressBar("tuning", total, quiet=quiet)

    def show(self, done: int, what: str, best_us: float | None, failed: int) -> None:
        """Draw the bar: ``done`` of the configurations are decided."""
        best = "" if best_us is None else f"  best {best_us:.1f} us"
        failures = f"  {failed} failed" if failed else ""
        self._bar.show(done, f"{what}{best}{failures}")

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()
