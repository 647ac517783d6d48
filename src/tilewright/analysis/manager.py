"""Analyses of a function, each computed once.

The results lie with the function that they are about, and go with it. No pass changes the function that it is given, so
none of them is ever stale: a pass that changes something gives a new function, of which nothing is known, and one that
finds nothing to change gives its argument back, with all that is known of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from tilewright.ir.core import Function

_Result = TypeVar("_Result")


class AnalysisManager:
    """The analyses of ``function``."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def get(self, analysis: Callable[..., _Result], *options: Hashable) -> _Result:
        """What ``analysis(function, *options)`` gives, computed when it is first asked for."""
        results, key = self._function.analyses, (analysis, options)
        if key not in results:
            results[key] = analysis(self._function, *options)
        found: _Result = results[key]
        return found

    def provide(self, analysis: Callable[..., Any], result: object, *options: Hashable) -> None:
        """Make ``result`` what ``get`` gives: for passes, which know of what they made more than can be seen in it."""
        self._function.analyses[analysis, options] = result
