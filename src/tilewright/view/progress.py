"""How far the launches are that are being recorded."""

from __future__ import annotations

from tilewright.sanitizer import Access, Launch, Violation
from tilewright.system.progress import ProgressBar

_DELAY = 1.0  # seconds without a bar


class RecordingProgress:
    """A sink for ``ct.sanitize`` that shows how many blocks of the launch have begun."""

    def __init__(self) -> None:
        self._bar: ProgressBar | None = None
        self._begun: set[tuple[int, ...]] = set()

    def launch(self, event: Launch) -> None:
        self.close()
        x, y, z = event.grid
        self._bar = ProgressBar(f"recording {event.kernel}", x * y * z, delay=_DELAY)

    def access(self, event: Access) -> None:
        self._begun.add(event.block)
        if self._bar is not None:
            self._bar.show(len(self._begun), "blocks")

    def finished(self) -> None:
        self.close()

    def violation(self, violation: Violation) -> None:
        """Nothing that a bar shows."""

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None
        self._begun.clear()
