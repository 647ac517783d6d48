"""Analyses of a function, each computed once.

The results lie with the function that they are about, and go with it. Nothing is known of a new function that a pass
makes; a pass that changes a function in place says which results it preserves, and one that finds nothing to change
leaves all of them: see ``transforms.base``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
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
        return results[key]

    def keep(self, analyses: Collection[Callable[..., Any]]) -> None:
        """Forget the results of all others: the function has changed."""
        results = self._function.analyses
        for key in [key for key in results if key[0] not in analyses]:
            del results[key]

    def provide(self, analysis: Callable[..., Any], result: object, *options: Hashable) -> None:
        """Make ``result`` what ``get`` gives: for passes, which know of what they made more than can be seen in it."""
        self._function.analyses[analysis, options] = result
