"""Source locations. Every op has one, and every pass keeps it."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.records import dataclass


@dataclass(frozen=True)
class Loc:
    """A range of source text, and the call that inlined it.

    ``line`` counts from 1; ``column`` and ``end_column`` count characters from 0, as ``ast`` does after
    conversion from bytes. ``function`` is the name of the enclosing function; ``caller`` is the location of
    the call through which this code was inlined, or None in the kernel itself.
    """

    file: str
    line: int
    column: int = 0
    end_line: int | None = None
    end_column: int | None = None
    function: str = ""
    caller: Loc | None = None

    def chain(self) -> Iterator[Loc]:
        """This location, then the call sites that led to it, innermost first."""
        loc: Loc | None = self
        while loc is not None:
            yield loc
            loc = loc.caller

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"


UNKNOWN = Loc("<unknown>", 0)
