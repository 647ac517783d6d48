"""Debug locations of Tile IR as locations in a source."""

from __future__ import annotations

from tilewright.ir.location import Loc
from tilewright.tileir.debug import CallSite, FileLoc, LexicalBlock, Location, Subprogram

_MOST_CALLS = 64  # that a chain of inlined calls shows


class Locations:
    """Places of one module; what has none is at line 0 of ``file``."""

    def __init__(self, file: str) -> None:
        self.unknown = Loc(file or "<bytecode>", 0)
        self._made: dict[Location, Loc] = {}

    def __call__(self, location: Location | None) -> Loc:
        if location is None:
            return self.unknown
        found = self._made.get(location)
        if found is None:
            found = self._made[location] = self._convert(location)
        return found

    def _convert(self, location: Location) -> Loc:
        """The innermost location, and the calls that led to it."""
        calls: list[FileLoc] = []
        pending: list[Location | None] = [location]
        while pending and len(calls) < _MOST_CALLS:
            one = pending.pop()
            if isinstance(one, CallSite):
                pending += [one.caller, one.callee]
            elif isinstance(one, FileLoc):
                calls.append(one)
        loc: Loc | None = None
        for call in reversed(calls):
            loc = Loc(call.file, call.line, max(call.column, 0), function=_function(call), caller=loc)
        return loc or self.unknown


def _function(call: FileLoc) -> str:
    scope = call.scope
    for _ in range(_MOST_CALLS):
        if isinstance(scope, Subprogram):
            return scope.name
        scope = scope.scope if isinstance(scope, LexicalBlock) else None
    return ""
