"""Places in the source for functions that are made of parts of others, as metadata in LLVM text.

A function of LLVM has a subprogram of its own, which the locations of all its instructions belong to. So a part of a
function gets a copy of the subprogram, and its locations copies that lie within.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tilewright.frontend.cpp.llvm_instruction import instruction
from tilewright.frontend.cpp.llvm_module import fields_of

_LOOP = ", !llvm.loop "


class Line(str):
    """A line of LLVM text that came from a location in the source: ``location`` is its attachment."""

    __slots__ = ("location",)
    location: str

    @staticmethod
    def of(text: str) -> str:
        """``text`` without its attachment, which is kept beside it."""
        number = instruction(text).debug
        if number is None:
            return text
        location = f", !dbg !{number}"
        line = Line(text.replace(location, "", 1))
        line.location = location
        return line


def location_of(line: str) -> str:
    """The attachment of a line, if it has one."""
    return line.location if isinstance(line, Line) else ""


class DebugInfo:
    """The ``metadata`` of a module, and copies of it with numbers from ``first`` on, whose ``lines`` are added."""

    def __init__(self, metadata: Mapping[int, str], first: int) -> None:
        self._entries = metadata
        self.next = first
        self.lines: list[str] = []

    def add_lines(self, lines: Sequence[str]) -> None:
        """Add lines of metadata that have the next numbers."""
        self.lines += lines
        self.next += len(lines)

    def part(self, subprogram: int | None, lines: Iterable[str]) -> tuple[str, list[str]]:
        """A function that is a part of that of ``subprogram``: the attachment of its head, and its ``lines`` with the
        locations that they came from."""
        if subprogram is None:
            return "", list(lines)
        own = self._own(subprogram)
        copies = {subprogram: own}

        def placed(line: str) -> str:
            (text, mark, rest), location = line.partition(_LOOP), location_of(line)
            if mark:
                loop, *others = rest.split(",", 1)
                text = ",".join([f"{text}{mark}!{self._loop(int(loop[1:]))}", *others])
            return text if not location else f"{text}, !dbg !{self._copy(int(location.rsplit('!', 1)[1]), copies)}"

        return f" !dbg !{own}", [placed(line) for line in lines]

    def caller(self, subprogram: int | None) -> tuple[str, str]:
        """A function that calls parts of that of ``subprogram``: the attachment of its head, and of such a call."""
        if subprogram is None:
            return "", ""
        own = self._own(subprogram)
        line = fields_of(self._entries[subprogram]).get("line", "0")
        call = self._add(f"!DILocation(line: {line}, scope: !{own})")
        return f" !dbg !{own}", f", !dbg !{call}"

    def _copy(self, number: int, copies: dict[int, int]) -> int:
        """The copy of a location, or of a scope, that lies within the subprogram of which ``copies`` has one."""
        if number in copies:
            return copies[number]
        entry = self._entries[number]
        fields = fields_of(entry)
        key = "inlinedAt" if "inlinedAt" in fields else "scope"
        if key not in fields:
            return number
        outer = int(fields[key][1:])
        inner = self._copy(outer, copies)
        copies[number] = number
        if inner != outer:
            copies[number] = self._add(entry.replace(f"{key}: !{outer}", f"{key}: !{inner}", 1))
        return copies[number]

    def _own(self, subprogram: int) -> int:
        """A copy of a subprogram, but for its variables."""
        entry = self._entries[subprogram]
        return self._add(entry.replace(f", retainedNodes: {fields_of(entry).get('retainedNodes')}", "", 1))

    def _loop(self, number: int) -> int:
        """A copy of what is known of a loop, but for its location; itself where a part has it from elsewhere."""
        if number not in self._entries:
            return number
        _, *operands = self._entries[number].removeprefix("distinct !{").removesuffix("}").split(", ")
        kept = [operand for operand in operands if not self._entries[int(operand[1:])].startswith("!DILocation(")]
        return self._add(f"distinct !{{{', '.join([f'!{self.next}', *kept])}}}")

    def _add(self, entry: str) -> int:
        self.add_lines([f"!{self.next} = {entry}"])
        return self.next - 1
