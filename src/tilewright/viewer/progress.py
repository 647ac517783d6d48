"""How far the launches are that are being recorded."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.sanitizer import Access, AccessTable, Launch, Violation
from tilewright.sanitizer.report import Index
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
        self._show([event.block])

    def accesses(self, table: AccessTable) -> None:
        self._show(table.blocks)

    def _show(self, begun: Sequence[Index]) -> None:
        self._begun.update(begun)
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
