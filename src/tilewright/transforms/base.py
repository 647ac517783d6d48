"""What a pass is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function
from tilewright.ir.rewrite import clone_function


class Pass(Protocol):
    """A rewriting of functions. One with options is a frozen dataclass, whose fields they are."""

    name: ClassVar[str]

    def run(self, function: Function) -> Function:
        """An equivalent function: ``function``, which is not modified, where nothing is to be changed."""


class InPlacePass:
    """A pass that changes the function that it is given, in which what it does not touch stays the same.

    ``preserves`` are the analyses whose results hold afterwards, for the values and ops that are still there. Of all
    others nothing is known any more.
    """

    preserves: ClassVar[frozenset[Callable[..., Any]]] = frozenset()

    def change(self, function: Function) -> bool:
        """Change ``function``; False where nothing is to be changed."""
        raise NotImplementedError

    def apply(self, function: Function) -> bool:
        """Change ``function``, and forget the analyses of it that do not hold any more; whether it has changed."""
        changed = self.change(function)
        if changed:
            AnalysisManager(function).keep(self.preserves)
        return changed

    def run(self, function: Function) -> Function:
        """``function``, or a changed copy."""
        copied = clone_function(function)
        return copied if self.apply(copied) else function
