"""Turns what the compiler says about a program into one short error at the user's line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from tilewright.ir.errors import TileCompilerExecutionError, TileError, TileSyntaxError, TileTypeError
from tilewright.ir.location import Loc

_LINE = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>error|fatal error|note): (?P<text>.*)$")
_BECAUSE = re.compile(r"(?:because|and) (.*)")
_SYNTAX = re.compile(r"^(expected|unexpected|unknown type name|extraneous|missing|invalid preprocessing|unterminated)")


@dataclass(frozen=True)
class Message:
    file: str
    line: int
    column: int
    kind: str
    text: str


def parse(stderr: str) -> list[list[Message]]:
    """The errors of a compilation, each with the notes that follow it."""
    groups: list[list[Message]] = []
    for line in stderr.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        message = Message(match["file"], int(match["line"]), int(match["column"]), match["kind"], match["text"])
        if message.kind != "note":
            groups.append([message])
        elif groups:
            groups[-1].append(message)
    return groups


def raise_for(stderr: str, headers: str) -> NoReturn:
    """Raise the error that ``stderr`` describes; ``headers`` is the directory of our own headers.

    The compiler's own text is the ``compiler_output`` of the exception.
    """
    groups = parse(stderr)
    if not groups:
        raise TileCompilerExecutionError(f"the C++ compiler failed:\n{stderr.strip()}")
    error = _error(groups[0], headers)
    error.compiler_output = stderr  # type: ignore[attr-defined]
    raise error


def _error(group: list[Message], headers: str) -> TileError:
    first = group[0]
    place = next((m for m in group if not m.file.startswith(headers)), first)
    text = _plain(first.text)
    reason = _unmet_constraint(group)
    if reason and reason not in text:
        text = f"{text}: {reason}"
    cls = TileSyntaxError if _SYNTAX.match(first.text) else TileTypeError
    return cls(text, Loc(place.file, place.line, place.column - 1))


def _unmet_constraint(group: list[Message]) -> str:
    """The innermost unmet constraint of the candidate that fits best: the one whose explanation is longest."""
    chains: list[list[str]] = []
    for message in group[1:]:
        because = _BECAUSE.match(message.text)
        if "candidate" in message.text or not chains:
            chains.append([])
        if because is not None:
            chains[-1].append(because.group(1))
    best = max(chains, key=len, default=[])
    return _plain(best[0]) if best else ""


def _plain(text: str) -> str:
    """``text`` with types spelled as users write them."""
    text = text.replace("cuda::tiles::v1::", "ct::").replace("cuda::tiles::", "ct::")
    text = re.sub(r"ct::extents<(?:unsigned int|uint32_t)((?:, \d+)*)>", _shape, text)
    return text.replace("(anonymous namespace)::", "")


def _shape(match: re.Match[str]) -> str:
    return f"ct::shape<{match.group(1)[2:]}>"
