"""Reads the text form from left to right: white space and comments do not matter."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from tilewright.tileir.errors import TextError
from tilewright.tileir.types import Type

_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
_WORD = re.compile(r"[A-Za-z_][\w$]*")
_SYMBOL = re.compile(r'@(?:([A-Za-z_.$][\w.$-]*)|"((?:[^"\\]|\\.)*)")')
_NAME = re.compile(r"[A-Za-z_.$][\w.$-]*")
_VALUE = re.compile(r"%[\w.$-]+")
_RESULT = re.compile(r"#(\d+)")
_INTEGER = re.compile(r"-?\d+")
_ALIAS = re.compile(r"#[A-Za-z_][\w$-]*(?![\w$.<-])")
_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|-?[Ii]nf(?:inity)?\b|NaN\b")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|->|[^\s\w]|\w+')  # of the value of an attribute
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_ESCAPE = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|(["\\nt]))')
_T = TypeVar("_T")
PREFIX = "cuda_tile."  # which MLIR writes before what belongs to the dialect


class Scanner:
    """``text`` of the file ``file``, read up to ``pos``."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.pos = 0
        self.types: dict[str, Type] = {}  # by their aliases
        self.lines = [0, *(match.end() for match in re.finditer("\n", text))]  # where each begins
        self.skip()

    def skip(self) -> None:
        match = _SPACE.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()

    def skip_to(self, mark: str) -> None:
        """Leave out what stands before ``mark``, which may be the end."""
        end = self.text.find(mark, self.pos)
        self.pos = len(self.text) if end < 0 else end
        self.skip()

    def position(self, pos: int | None = None) -> tuple[int, int]:
        """Line, from 1 on, and column, from 0 on."""
        pos = self.pos if pos is None else pos
        line = bisect.bisect_right(self.lines, pos)
        return line, pos - self.lines[line - 1]

    def fail(self, expected: str, pos: int | None = None) -> NoReturn:
        pos = self.pos if pos is None else pos
        line, column = self.position(pos)
        found = self.text[pos : pos + 20].split("\n")[0]
        raise TextError(
            f"expected {expected}, not {found!r}" if found else f"expected {expected}", self.file, line, column
        )

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """What ``pattern`` matches here, which is then read."""
        found = pattern.match(self.text, self.pos)
        if found is not None:
            self.pos = found.end()
            self.skip()
        return found

    def peek(self, text: str) -> bool:
        """Whether ``text`` comes next; a word only as a whole."""
        if not self.text.startswith(text, self.pos):
            return False
        end = self.pos + len(text)
        word = text[-1].isalnum() or text[-1] == "_"
        return not (word and end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "_"))

    def accept(self, text: str, *rest: str) -> bool:
        """Read ``text`` if it comes next, and ``rest``, which has to follow it."""
        if not self.peek(text):
            return False
        self.pos += len(text)
        self.skip()
        self.expect(*rest)
        return True

    def expect(self, *texts: str) -> None:
        for text in texts:
            if not self.accept(text):
                self.fail(repr(text))

    def dialect(self, mark: str = "") -> None:
        """Read the prefix of the dialect after ``mark``, if it is there."""
        self.accept(f"{mark}{PREFIX}")

    def word(self, expected: str) -> str:
        found = self.match(_WORD)
        if found is None:
            self.fail(expected)
        return found.group()

    def value(self) -> str:
        """The name of a value, ``%a`` or ``%a#1``."""
        found = _VALUE.match(self.text, self.pos)
        if found is None:
            self.fail("a value, such as %0")
        self.pos = found.end()
        numbered = _RESULT.match(self.text, self.pos)
        if numbered is not None:
            self.pos = numbered.end()
        self.skip()
        return found.group() + (numbered.group() if numbered is not None else "")

    def symbol(self) -> str:
        found = self.match(_SYMBOL)
        if found is None:
            self.fail("a name, such as @kernel")
        return found[1] if found[1] is not None else unquoted(found[2])

    def name(self) -> str:
        """A name without its mark."""
        found = self.match(_NAME)
        if found is None:
            self.fail("a name")
        return found.group()

    def integer(self) -> int:
        found = self.match(_INTEGER)
        if found is None:
            self.fail("an integer")
        return int(found.group())

    def number(self) -> str:
        found = self.match(_NUMBER)
        if found is None:
            self.fail("a number")
        return found.group()

    def boolean(self) -> bool:
        if self.accept("true"):
            return True
        if not self.accept("false"):
            self.fail("true or false")
        return False

    def string(self) -> str:
        found = self.match(_STRING)
        if found is None:
            self.fail("a string")
        return unquoted(found[1])

    def aliased(self, parse: Callable[[Scanner], _T]) -> _T:
        """What ``parse`` reads here, or where the alias of an attribute is defined that stands here."""
        start = self.pos
        alias = self.match(_ALIAS)
        if alias is None:
            return parse(self)
        defined = re.search(rf"^[ \t]*{re.escape(alias.group())} = ", self.text, re.MULTILINE)
        if defined is None:
            self.fail("an alias of an attribute that is defined", start)
        end, self.pos = self.pos, defined.end()
        found = parse(self)
        self.pos = end
        return found

    def discardable(self) -> None:
        """Leave out attributes that mean nothing in the dialect, ``{foo = 1 : i32}``, if they are there."""
        if self.accept("{"):
            self.sequence("}", Scanner.unknown)

    def unknown(self) -> None:
        """Leave out one attribute."""
        if not (self.string() if self.peek('"') else self.name()) or not self.accept("="):
            return
        start, closing = self.pos, list[str]()
        while closing or not (self.peek(",") or self.peek("}")):
            found = self.match(_TOKEN)
            token = found.group() if found is not None else ""
            if token in _CLOSING:
                closing.append(_CLOSING[token])
            elif token in ("", "=", *_CLOSING.values()) and not (closing and token in (closing[-1], "=")):
                self.fail("the value of an attribute, with its brackets closed", start)
            elif closing and token == closing[-1]:
                closing.pop()
        if self.pos == start:
            self.fail("the value of an attribute")

    def more(self, first: bool, end: str) -> bool:
        """Whether another entry of a list follows, which ``end`` closes; reads the comma, or the end."""
        if self.accept(end):
            return False
        if not first:
            self.expect(",")
        return True

    def sequence(self, end: str, parse: Callable[[Scanner], _T]) -> tuple[_T, ...]:
        """Entries up to ``end``, with commas between them."""
        found: list[_T] = []
        while self.more(not found, end):
            found.append(parse(self))
        return tuple(found)

    def listed(self, parse: Callable[[Scanner], _T]) -> list[_T]:
        """Entries with commas between them, at least one."""
        found = [parse(self)]
        while self.accept(","):
            found.append(parse(self))
        return found


def unquoted(text: str) -> str:
    """What a string literal stands for; escapes are bytes of UTF-8."""

    def replace(match: re.Match[bytes]) -> bytes:
        if match[1] is not None:
            return bytes([int(match[1], 16)])
        return {b"n": b"\n", b"t": b"\t"}.get(match[2], match[2])

    return _ESCAPE.sub(replace, text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
