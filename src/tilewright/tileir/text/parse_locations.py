"""Reads locations of the text form: ``loc(...)``, the debug attributes of the dialect, and aliases of both."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from tilewright.tileir.debug import CallSite, CompileUnit, File, FileLoc, LexicalBlock, Location, Subprogram
from tilewright.tileir.module import Entry
from tilewright.tileir.text.scanner import Scanner, unquoted

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[\w.$-]+|[\w.$-]+|[^\s\w]')
_NAMES = re.compile(r'"(?:[^"\\\n]|\\.)*"|#([\w$-]+)(?![\w.$-])')  # of aliases; attributes of dialects have a point
_PARENTHESES = re.compile(r'"(?:[^"\\\n]|\\.)*"|[()]')
_CLOSING = {"(": ")", "<": ">", "[": "]"}
_MOST_DEPTH = 64
_DIALECT = "#cuda_tile."


class Locations:
    """The locations of one text, in which ``aliases`` stand for others. Equal ones are one object."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self.aliases = aliases
        self.made: dict[str, Location | None] = {}

    def __call__(self, text: str, depth: int = 0) -> Location | None:
        """The location, or the debug attribute, that ``text`` describes; None where it has no location."""
        if text not in self.made:
            self.made[text] = None  # what contains itself has no location
            self.made[text] = _Reader(self, text, depth).location() if depth < _MOST_DEPTH else None
        return self.made[text]

    def read(self, s: Scanner) -> Location | None:
        """The location up to the parenthesis that closes it."""
        start, depth = s.pos, 1
        for match in _PARENTHESES.finditer(s.text, s.pos):
            depth += {"(": 1, ")": -1}.get(match.group(), 0)
            if depth == 0:
                said = s.text[start : match.start()]
                if said not in self.made:
                    self.require_aliases(s, start, match.start())
                s.pos = match.end()
                s.skip()
                return self(said)
        s.fail("a closing parenthesis of a location", start)

    def require_aliases(self, s: Scanner, start: int, end: int) -> None:
        """TextError for an alias in this part of the text that stands for nothing."""
        for match in _NAMES.finditer(s.text, start, end):
            if match[1] is not None and match[1] not in self.aliases:
                s.fail("an alias of a location that is defined", match.start())


class _Reader:
    """Reads one description from left to right. What it does not know has no location."""

    def __init__(self, all: Locations, text: str, depth: int) -> None:
        self.all, self.depth = all, depth
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def bracketed(self) -> str:
        """What stands between the bracket that comes next and the one that closes it."""
        end = [_CLOSING.get(self.next(), "")]
        start = self.at
        while end and self.at < len(self.tokens):
            token = self.next()
            if token == end[-1]:
                end.pop()
            elif token in _CLOSING:
                end.append(_CLOSING[token])
        return " ".join(self.tokens[start : self.at - 1])

    def location(self) -> Location | None:
        token = self.next()
        if token == "loc":
            return self.part(self.bracketed())
        if token == "callsite":
            callee, caller = _divided(self.bracketed(), "at")
            return CallSite(self.part(callee), self.part(caller))
        if token == "fused":
            if self.peek() == "<":
                self.bracketed()
            return self.part(_divided(self.bracketed(), ",")[0])
        if token.startswith('"'):
            if self.peek() == "(":  # a name of what stands in the brackets
                return self.part(self.bracketed())
            return self.file_loc(unquoted(token[1:-1]))
        if token.startswith(_DIALECT):
            return self.attribute(token.removeprefix(_DIALECT))
        alias = self.all.aliases.get(token[1:]) if token.startswith("#") else None
        return None if alias is None else self.part(alias)

    def part(self, text: str) -> Location | None:
        return self.all(text, self.depth + 1)

    def file_loc(self, file: str) -> Location | None:
        found: list[str] = []
        while self.peek() == ":" and len(found) < 2:
            self.next()
            found.append(self.next())
        if len(found) < 2 or not all(n.isdecimal() for n in found):
            return None
        return FileLoc(None, file, int(found[0]), int(found[1]))

    def attribute(self, name: str) -> Location | None:
        text = self.bracketed()
        if name == "di_loc":
            parsed, scope = (self.part(t) for t in _divided(text, "in"))
            return FileLoc(scope, parsed.file, parsed.line, parsed.column) if isinstance(parsed, FileLoc) else None
        if name == "di_file":
            file, folder = (unquoted(t[1:-1]) for t in _divided(text, "in"))
            return File(file, folder)
        fields = dict(_divided(t, "=") for t in _listed(text))
        file_of = self.named(fields, "file", "di_file")
        if file_of is None:
            return None
        if name == "di_compile_unit":
            return CompileUnit(file_of)
        if name == "di_lexical_block":
            scope = self.named(fields, "scope", "di_subprogram")
            line, column = _number(fields, "line"), _number(fields, "column")
            return None if scope is None else LexicalBlock(scope, file_of, line, column)
        unit = self.named(fields, "compileUnit", "di_compile_unit")
        if name == "di_subprogram" and unit is not None:
            called, linkage = (unquoted(fields.get(key, "")[1:-1]) for key in ("name", "linkageName"))
            return Subprogram(file_of, _number(fields, "line"), called, linkage, unit, _number(fields, "scopeLine"))
        return None

    def named(self, fields: Mapping[str, str], name: str, kind: str) -> Location | None:
        """A field that is an attribute, which may stand there without its ``kind``."""
        text = fields.get(name, "")
        return self.part(f"{_DIALECT}{kind} {text}" if text.startswith("<") else text)


def _number(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "")
    return int(text) if text.isdecimal() else 0


def _split(text: str, mark: str) -> list[str]:
    """The parts of ``text`` between the ``mark`` that are in no brackets."""
    found: list[list[str]] = [[]]
    depth = 0
    for token in _TOKEN.findall(text):
        depth += (token in _CLOSING) - (token in _CLOSING.values())
        if token == mark and not depth:
            found.append([])
        else:
            found[-1].append(token)
    return [" ".join(part) for part in found]


def _listed(text: str) -> list[str]:
    return [part for part in _split(text, ",") if "=" in part]


def _divided(text: str, mark: str) -> tuple[str, str]:
    """What stands before and after the first ``mark`` that is in no brackets."""
    first, *rest = _split(text, mark)
    return first, f" {mark} ".join(rest)


def give_scopes(entry: Entry) -> None:
    """Put the locations of ``entry`` that are in no scope, or in that of another function, into its own: files know no
    others. A location in an inlined function keeps its scope, if it has one."""
    here = entry.loc if isinstance(entry.loc, FileLoc) else FileLoc(None, "", 0, 0)
    old = [op.loc for op in entry.body.walk()]
    own = _function_of(here) or next((f for f in map(_function_of, old) if f and f.linkage_name == entry.name), None)
    if own is None:
        file = File(os.path.basename(here.file), os.path.dirname(here.file))
        own = Subprogram(file, here.line, entry.name, entry.name, CompileUnit(file), here.line)
    if _function_of(here) is None:
        entry.loc = FileLoc(own, here.file, here.line, here.column)
    made: dict[tuple[int, bool], Location | None] = {}  # by the identity of what the ops keep alive

    def scoped(loc: Location | None, inlined: bool) -> Location | None:
        key = id(loc), inlined
        if key not in made:
            found = loc
            if isinstance(loc, FileLoc) and _function_of(loc) is not own and not (inlined and loc.scope is not None):
                found = FileLoc(own, loc.file, loc.line, loc.column)
            elif isinstance(loc, CallSite):
                found = CallSite(scoped(loc.callee, True), scoped(loc.caller, inlined))
            made[key] = found
        return made[key]

    for op, loc in zip(entry.body.walk(), old):
        op.loc = scoped(loc, False)


def _function_of(loc: Location | None) -> Subprogram | None:
    """The function that a location is in, whatever was inlined into it."""
    for _ in range(_MOST_DEPTH):
        if isinstance(loc, CallSite):
            loc = loc.caller
        elif isinstance(loc, (FileLoc, LexicalBlock)):
            loc = loc.scope
        else:
            break
    return loc if isinstance(loc, Subprogram) else None
