"""What a pass is."""

from __future__ import annotations

from typing import ClassVar, Protocol

from tilewright.ir.core import Function


class Pass(Protocol):
    """A frozen dataclass whose fields are its options.

    A pass that has nothing to change gives its argument back, whose analyses then stay: see ``analysis.manager``.
    """

    name: ClassVar[str]

    def run(self, function: Function) -> Function:
        """An equivalent function; ``function`` itself is not modified."""
