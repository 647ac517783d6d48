"""Source locations from the debug information of a module, without the frames of our headers and the compiler's."""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tilewright.frontend.cpp.llvm_module import fields_of
from tilewright.frontend.cpp.names import decoded
from tilewright.ir.location import UNKNOWN, Loc

INCLUDE_DIR = Path(__file__).parent / "include"

_LIBRARY = re.compile(r"/ziglang/lib/|^/usr/(?:include|lib)/")  # where compilers keep headers of theirs
_MARKER = re.compile(r'#(?: |line )(\d+)(?: "((?:[^"\\]|\\.)*)")?')


def quote(name: str, text: str) -> None:
    """Have messages quote the lines of ``text``, which is in no file, for ``name``; another one may have had that."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)


def as_written(loc: Loc, compiled: str, name: str) -> Loc:
    """``loc``, in the text ``compiled`` of the file ``name``, with the column that its word has in the line that the
    user wrote: launches and macros are longer in what is compiled."""
    written, number, file, goes_on = linecache.getline(loc.file, loc.line).rstrip("\n"), 0, name, False
    lines: list[str] = []  # of `loc`: macros may make several; launches cut them into parts, which stay at their places
    for line in compiled.split("\n"):
        if (marker := _MARKER.match(line)) is not None:
            number, file, goes_on = int(marker[1]) - 1, marker[2] or file, line.startswith("#line ")
            continue
        number += 1
        if (file, number) == (loc.file, loc.line):
            start = len(line) - len(line.lstrip())
            if start <= loc.column < len(line) and line[start : loc.column + 1] == written[start : loc.column + 1]:
                return loc
            whole = lines.pop() if goes_on and lines else ""
            lines.append(whole[:start].ljust(start) + line[start:] + whole[len(line) :])
        goes_on = False
    lines = [line for line in lines if len(line) > loc.column]
    for line in lines:
        word = next((m for m in re.finditer(r"\w+|\S", line) if m.end() > loc.column), None)
        columns = [m.start() for m in re.finditer(r"\w+|\S", written) if word is not None and m[0] == word[0]]
        if word is not None and columns:
            before = len(re.findall(rf"(?<!\w){re.escape(word[0])}(?!\w)", line[: word.start()]))
            return replace(loc, column=columns[min(before, len(columns) - 1)])
    if written and lines:  # a macro has it
        return replace(loc, column=len(written) - len(written.lstrip()))
    return loc


class Locations:
    """Turns ``!dbg`` numbers of a module into locations."""

    def __init__(self, metadata: Mapping[int, str]) -> None:
        self.metadata = metadata
        self._locs: dict[int, Loc | None] = {}
        self._fields: dict[int, dict[str, str]] = {}

    def loc(self, debug: int | None) -> Loc:
        """The innermost user code at ``debug``, with the user code that called it."""
        if debug is None:
            return UNKNOWN
        return self._loc(debug) or UNKNOWN

    def function(self, subprogram: int | None) -> Loc:
        """Where a function is declared."""
        if subprogram is None:
            return UNKNOWN
        fields = self.fields(subprogram)
        return Loc(self._file(fields), int(fields.get("line", 0)), function=fields.get("name", ""))

    def variable(self, fields: dict[str, str]) -> Loc | None:
        """Where a variable is declared, by its metadata."""
        return Loc(self._file(fields), int(fields["line"])) if "file" in fields and "line" in fields else None

    def fields(self, number: int) -> dict[str, str]:
        if number not in self._fields:
            text = self.metadata.get(number, "")
            self._fields[number] = {k: decoded(v.strip('"')) for k, v in fields_of(text).items()}
        return self._fields[number]

    def _loc(self, debug: int) -> Loc | None:
        if debug in self._locs:
            return self._locs[debug]
        fields = self.fields(debug)
        caller = self._loc(int(fields["inlinedAt"][1:])) if "inlinedAt" in fields else None
        function, file = self._scope(int(fields["scope"][1:]))
        if file.startswith(str(INCLUDE_DIR)) or (caller is not None and _LIBRARY.search(file)):
            loc = caller
        else:
            column = max(int(fields.get("column", 1)) - 1, 0)
            loc = Loc(file, int(fields["line"]), column, function=function, caller=caller)
        self._locs[debug] = loc
        return loc

    def _scope(self, number: int) -> tuple[str, str]:
        """The function and the file of a scope."""
        file = None
        while True:
            fields = self.fields(number)
            if file is None and "file" in fields:
                file = self._file(fields)
            if "DISubprogram(" in self.metadata.get(number, ""):
                return fields.get("name", ""), file or ""
            number = int(fields["scope"][1:])

    def _file(self, fields: dict[str, str]) -> str:
        record = self.fields(int(fields["file"][1:]))
        return record.get("filename", "")
