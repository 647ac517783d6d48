"""Statements that C++ has and tile code has not: ``return`` in a loop (guide, 2.4.7) and ``try``.

A module of LLVM no longer has statements, so they are looked for in the text; that code of a kernel comes from them
says its debug information, as templates may leave them out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from tilewright.frontend.cpp.attributes import location_at, mask, without_directives
from tilewright.frontend.cpp.llvm_instruction import debug_of
from tilewright.frontend.cpp.llvm_module import called_from, parts_of
from tilewright.frontend.cpp.locations import Locations
from tilewright.ir.errors import TileUnsupportedFeatureError

_RETURN = "return inside of a loop is not available in tile code; leave the loop by break, and return after it"
_TRY = "exceptions are not available in tile code; remove try and its handlers"
_WORD = re.compile(r"\s*(?:\[\s*\[.*?\]\s*\]\s*)*(\w+)?", re.DOTALL)
_HEADED = ("for", "while", "switch", "if", "catch")
_LOOPS = ("for", "while", "do")
_NEXT = re.compile(r"[;{}()]")


class _Refused(NamedTuple):
    """A statement of a text, and what is said of it."""

    start: int
    end: int
    message: str


def refuse_statements(llvm: str, kernels: Collection[str], texts: Mapping[str, str], *, columns: bool) -> None:
    """TileUnsupportedFeatureError for such a statement in the functions that ``kernels`` of a module lead to.
    ``texts`` are the files of the user; ``columns`` says whether the module has their columns, not only their lines."""
    refused = {name: list(_statements(text)) for name, text in texts.items()}
    if not any(refused.values()):
        return
    parts = parts_of(llvm)
    locations, reached = Locations(parts.metadata), called_from(parts.calls, kernels)
    code = (line for name in reached for line in parts.functions[name].body.split("\n") if "!dbg" in line)
    lines: dict[str, set[tuple[int, int]]] = {}
    for debug in set(map(debug_of, code)):
        loc = locations.loc(debug)
        lines.setdefault(loc.file, set()).add((loc.line, loc.column if columns else 0))
    for name, found in refused.items():
        for each in found:
            first, last = (location_at(texts[name], at, name) for at in (each.start, each.end))
            begin, end = (first.line, first.column if columns else 0), (last.line, last.column if columns else 1)
            if any(begin <= line < end for line in lines.get(name, ())):
                raise TileUnsupportedFeatureError(each.message, first)


def _statements(text: str) -> Iterator[_Refused]:
    if re.search(r"\b(?:try|return)\b", text) is not None:
        yield from _Parser(without_directives(mask(text))).block(0, looped=False)


class _Parser:
    """Finds the statements of a text without comments, literals and directives. Braces within an expression or a
    declaration begin a function or a list: what stands there is in no loop around them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def block(self, start: int, *, looped: bool) -> Iterator[_Refused]:
        """The statements from ``start`` to the brace that ends the block, behind which the position is then."""
        self.position = start
        while self.position < len(self.text) and not self._takes("}"):
            yield from self.statement(looped=looped)

    def statement(self, *, looped: bool) -> Iterator[_Refused]:
        match = _WORD.match(self.text, self.position)
        assert match is not None
        word, begin = match[1], match.start(1) if match[1] else match.end()
        self.position = match.end()
        if word in _HEADED:
            self._takes("constexpr")
            yield from self._parentheses()
            yield from self.statement(looped=looped or word in _LOOPS)
        elif word == "do":
            yield from self.statement(looped=True)
            yield from self._rest()
        elif word == "else":
            yield from self.statement(looped=looped)
        elif word == "try":
            yield from self.statement(looped=looped)
            yield _Refused(begin, self.position, _TRY)
        elif word is None and self._takes("{"):
            yield from self.block(self.position, looped=looped)
        elif word in ("case", "default") or (word is not None and re.match(r"\s*:(?!:)", self.text[self.position :])):
            self.position = self.text.find(":", self.position) + 1 or len(self.text)
        else:
            if word == "return" and looped:
                yield _Refused(begin, begin + len(word), _RETURN)
            yield from self._rest()

    def _rest(self) -> Iterator[_Refused]:
        """The rest of a statement that a semicolon ends, or the end of the block that it is in."""
        while (match := _NEXT.search(self.text, self.position)) is not None and match.group() != "}":
            self.position = match.end()
            if match.group() == ";":
                return
            if match.group() == "{":
                yield from self.block(self.position, looped=False)
        self.position = len(self.text) if match is None else match.start()

    def _parentheses(self) -> Iterator[_Refused]:
        """What is in the parentheses that begin here, if there are any, such as the bodies of lambdas."""
        depth = 0
        while (match := re.compile(r"\s*[({]|[)}]").search(self.text, self.position)) is not None:
            if depth == 0 and match.start() != self.position:
                return
            self.position = match.end()
            if match.group()[-1] == "{":
                yield from self.block(self.position, looped=False)
            else:
                depth += 1 if match.group()[-1] == "(" else -1
            if depth <= 0:
                return

    def _takes(self, what: str) -> bool:
        match = re.compile(rf"\s*{re.escape(what)}").match(self.text, self.position)
        if match is not None:
            self.position = match.end()
        return match is not None
