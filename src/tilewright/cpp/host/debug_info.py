"""Places in the source for functions that are made of parts of others, as metadata in LLVM text.

A function of LLVM has a subprogram of its own, which the locations of all its instructions belong to. So a part of a
function gets a copy of the subprogram, and its locations copies that lie within.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLACE = re.compile(r", !dbg !(\d+)(?=,|$)")
_ENTRY = re.compile(r"^!(\d+) = (.*)$", re.M)
_SCOPE = re.compile(r"\bscope: !(\d+)")
_CALL_SITE = re.compile(r"\binlinedAt: !(\d+)")
_SUBPROGRAM = re.compile(r" !dbg !(\d+)")
_LOOP = re.compile(r"(?<=, !llvm\.loop )!(\d+)")
_VARIABLES = re.compile(r", retainedNodes: !(?:\d+|\{\})")


class Line(str):
    """A line of LLVM text that came from a location in the source: ``location`` is its attachment."""

    __slots__ = ("location",)
    location: str

    @staticmethod
    def of(text: str) -> str:
        """``text`` without its attachment, which is kept beside it."""
        match = _PLACE.search(text)
        if match is None:
            return text
        line = Line(text[: match.start()] + text[match.end() :])
        line.location = match.group()
        return line


def location_of(line: str) -> str:
    """The attachment of a line, if it has one."""
    return line.location if isinstance(line, Line) else ""


class DebugInfo:
    """The metadata of the module ``text``, and copies of it with numbers from ``first`` on."""

    def __init__(self, text: str, first: int) -> None:
        self._entries = {int(number): entry for number, entry in _ENTRY.findall(text)}
        self._next = first
        self.lines: list[str] = []

    def subprogram(self, head: str) -> int | None:
        """The subprogram of a function, from the line that begins it; None for one without locations."""
        match = _SUBPROGRAM.search(head)
        return None if match is None else int(match[1])

    def part(self, subprogram: int | None, lines: Iterable[str]) -> tuple[str, list[str]]:
        """A function that is a part of that of ``subprogram``: the attachment of its head, and its ``lines`` with the
        locations that they came from."""
        if subprogram is None:
            return "", list(lines)
        own = self._add(_VARIABLES.sub("", self._entries[subprogram]))
        copies = {subprogram: own}

        def placed(line: str) -> str:
            location, text = location_of(line), _LOOP.sub(lambda match: f"!{self._loop(int(match[1]))}", line)
            return text if not location else f"{text}, !dbg !{self._copy(int(location.rsplit('!', 1)[1]), copies)}"

        return f" !dbg !{own}", [placed(line) for line in lines]

    def caller(self, subprogram: int | None) -> tuple[str, str]:
        """A function that calls parts of that of ``subprogram``: the attachment of its head, and of such a call."""
        if subprogram is None:
            return "", ""
        own = self._add(_VARIABLES.sub("", self._entries[subprogram]))
        line = re.search(r"\bline: (\d+)", self._entries[subprogram])
        call = self._add(f"!DILocation(line: {line[1] if line else 0}, scope: !{own})")
        return f" !dbg !{own}", f", !dbg !{call}"

    def _copy(self, number: int, copies: dict[int, int]) -> int:
        """The copy of a location, or of a scope, that lies within the subprogram of which ``copies`` has one."""
        if number in copies:
            return copies[number]
        entry = self._entries[number]
        pattern = _CALL_SITE if _CALL_SITE.search(entry) else _SCOPE
        outer = pattern.search(entry)
        if outer is None:
            return number
        inner = self._copy(int(outer[1]), copies)
        copies[number] = number
        if inner != int(outer[1]):
            copies[number] = self._add(f"{entry[: outer.start(1)]}{inner}{entry[outer.end(1) :]}")
        return copies[number]

    def _loop(self, number: int) -> int:
        """A copy of what is known of a loop, but for its location."""
        operands = re.findall(r"!(\d+)", self._entries[number])[1:]
        kept = [f"!{operand}" for operand in operands if not self._entries[int(operand)].startswith("!DILocation(")]
        return self._add(f"distinct !{{{', '.join([f'!{self._next}', *kept])}}}")

    def _add(self, entry: str) -> int:
        self.lines.append(f"!{self._next} = {entry}")
        self._next += 1
        return self._next - 1
