"""Kernel launches in source text: ``kernel<<<grid, block>>>(arguments)``, which is no C++.

Rewritten text keeps its line numbers, and the parts of launches their columns, by line directives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.frontend.cpp.attributes import LINE, blank, mask
from tilewright.ir.errors import TileSyntaxError
from tilewright.ir.location import Loc

_OPEN, _CLOSE = "([{", ")]}"
_GROUPS = {">": ("<", ">"), ")": ("(", ")"), "]": ("[", "]")}  # by their ends
_CALLED = re.compile(
    r"\b(?!(?:if|while|for|switch|return|else|do)\b)[\w$]+\s*\Z|[]>]\s*\Z"
)  # before the arguments of a call
_LONGEST_CALLEE = 1 << 13  # characters
_NO_BRACKET = re.compile(r"(?:->|<<|<=>|<=)\Z")  # operators among template arguments, which hold < or >


@dataclass(frozen=True)
class Launch:
    """Where the parts of a launch are: ``text[start:opening]`` names the kernel, ``text[opening + 3:closing]`` is the
    configuration, and ``text[closing + 3:end]`` are the arguments with their parentheses."""

    start: int
    opening: int
    closing: int
    end: int


def without_launches(text: str, name: str) -> str:
    """``text`` with calls in place of launches that are refused in tile code, and do nothing elsewhere."""
    return _replace(text, name, lambda launch: f"::__tw_no_launch(){blank(text[launch.start : launch.end])}")


def launches_as_calls(text: str, name: str, *, marked: bool = False) -> str:
    """``text`` with launches as calls of the kernel, after a call that takes note of the configuration.

    ``marked`` puts before them, for code that is only compiled, a call that tile code refuses.
    """
    before = "::__tw_no_launch(), " if marked else ""
    places = _Places(text, name)

    def call(launch: Launch) -> str:
        kernel = text[launch.start : launch.opening]
        configuration = text[launch.opening + 3 : launch.closing]
        arguments = text[launch.closing + 3 : launch.end]
        at = places.of(launch, (launch.opening + 3, launch.start, launch.closing + 3, launch.end))
        called = f"{at[0]}{configuration}), {at[1]}{kernel}{at[2]}{arguments}"
        return f"({before}::__tw_host::configure({called}){at[3]}"

    return _replace(text, name, call)


class _Places:
    """Line directives by which the compiler finds parts of a text where they were; launches come in their order."""

    def __init__(self, text: str, name: str) -> None:
        self._text, self._position, self._start, self._line = text, 0, 0, 1
        self._name = name.replace("\\", "\\\\").replace('"', '\\"')

    def of(self, launch: Launch, positions: Sequence[int]) -> list[str]:
        """What goes before the parts of a launch that begin at ``positions``: nothing in directives, which end with
        their line."""
        text, head = self._text, self._text.rfind("\n", 0, launch.start) + 1
        while text[:head].endswith("\\\n"):
            head = text.rfind("\n", 0, head - 1) + 1
        if text[head : launch.start].lstrip().startswith("#") or "\n#" in text[launch.start : launch.end]:
            return [""] * len(positions)
        for marker in LINE.finditer(text, self._position, launch.start):
            self._line, self._start, self._name = int(marker[1]), marker.end() + 1, marker[2] or self._name
        self._position = launch.start
        return [self._directive(position) for position in positions]

    def _directive(self, position: int) -> str:
        line = self._line + self._text.count("\n", self._start, position)
        column = position - self._text.rfind("\n", 0, position) - 1
        return f'\n#line {line} "{self._name}"\n{" " * column}'


def _replace(text: str, name: str, replacement: Callable[[Launch], str]) -> str:
    masked = mask(text)
    parts, position = [], 0
    opening = masked.find("<<<")
    while opening >= 0:
        launch = _launch(masked, opening, name)
        parts += [text[position : launch.start], replacement(launch)]
        position = launch.end
        opening = masked.find("<<<", position)
    return "".join([*parts, text[position:]])


def _launch(masked: str, opening: int, name: str) -> Launch:
    """The launch whose ``<<<`` is at ``opening``. TileSyntaxError where parts of it are missing."""
    start = _callee(masked, opening)
    closing = _outside_brackets(masked, opening + 3, ">>>")
    parenthesis = re.compile(r">>>\s*\(").match(masked, closing) if closing >= 0 else None
    end = _outside_brackets(masked, parenthesis.end(), ")") if parenthesis else -1
    if start < 0 or end < 0:
        line = masked.count("\n", 0, opening) + 1
        column = opening - (masked.rfind("\n", 0, opening) + 1)
        message = "a launch is written kernel<<<grid>>>(arguments)"
        raise TileSyntaxError(message, Loc(name, line, column, line, column + 3))
    return Launch(start, opening, closing, end + 1)


def _outside_brackets(masked: str, position: int, wanted: str) -> int:
    """Where ``wanted`` is next, outside of brackets that open on the way; -1 if it is not there."""
    depth = 0
    while position < len(masked):
        if depth == 0 and masked.startswith(wanted, position):
            return position
        depth += (masked[position] in _OPEN) - (masked[position] in _CLOSE)
        if depth < 0:
            return -1
        position += 1
    return -1


def _callee(masked: str, end: int) -> int:
    """The start of the expression that ends before ``end`` and names a kernel; -1 when there is none."""
    begin, masked = max(end - _LONGEST_CALLEE, 0), masked[max(end - _LONGEST_CALLEE, 0) : end]
    start = _callee_within(masked)
    return start if start < 0 else begin + start


def _callee_within(masked: str) -> int:
    """Where the expression that ``masked`` ends with begins, as of ``_callee``."""
    end = len(masked)
    while True:
        end = len(masked[:end].rstrip())
        while end and (group := _GROUPS.get(masked[end - 1])) is not None:
            end = _group_start(masked, end, *group)
            if group == ("(", ")") and not _CALLED.search(masked[: max(end, 0)]):
                return end
            end = len(masked[: max(end, 0)].rstrip())
        word = re.search(r"(?:\btemplate\s+)?[\w$]+\s*\Z", masked[:end]) if end > 0 else None
        if word is None:
            return -1
        end = word.start()
        qualifier = re.search(r"(::|\.|->)\s*\Z", masked[:end])
        if qualifier is None:
            return end
        before = masked[: qualifier.start()].rstrip()
        if qualifier[1] == "::" and (
            not re.search(r"[\w$>]\Z", before) or re.search(r"\b(?:return|else|do)\Z", before)
        ):
            return qualifier.start()
        end = qualifier.start()


def _group_start(masked: str, end: int, opening: str, closing: str) -> int:
    """The start of the bracket group that ends before ``end``, brackets of other kinds inside it being skipped."""
    depth = 0
    position = end - 1
    while position >= 0:
        c = masked[position]
        operator = _NO_BRACKET.search(masked[max(position - 2, 0) : position + 1]) if opening == "<" else None
        if operator is not None:
            position -= len(operator.group()) - 1
        elif c == closing:
            depth += 1
        elif c == opening:
            depth -= 1
            if depth == 0:
                return position
        elif c in _CLOSE:
            position = _group_start(masked, position + 1, _OPEN[_CLOSE.index(c)], c)
        position -= 1
    return 0
