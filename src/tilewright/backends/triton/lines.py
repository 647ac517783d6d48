"""TTGIR, the form with layouts, as lines of text."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = re.compile(r"%\w+(?:#\d+)?")
_FOR = re.compile(r"(\s*)(?:%\w+(?::\d+)? = )?scf\.for (%\w+) = (%\w+) to (%\w+) step (%\w+) .*: (i32|i64) \{")
_TYPE = re.compile(r"(?:[^,<]|<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)+")
_VIEW = re.compile(r"\s*(%\w+) = ttg\.memdesc_\w+ ")
WAIT = re.compile(r"\s*(%\w+)(?::\d+)? = ttng\.warp_group_dot_wait (.*?) \{pendings = (\d+) : i32\} : ")


@dataclass(frozen=True)
class Loop:
    """A loop whose body is between the lines ``head`` and ``end``."""

    head: int
    end: int
    indent: str
    variable: str
    lower: str
    upper: str
    step: str
    type: str


def innermost_loops(lines: list[str]) -> list[Loop]:
    found: list[Loop] = []
    for at, line in enumerate(lines):
        head = _FOR.match(line)
        if head is not None:
            end = end_of(lines, at)
            if not any("scf.for " in inside or "scf.while " in inside for inside in lines[at + 1 : end]):
                found.append(Loop(at, end, *head.groups()))
    return found


def carried_by(head: str) -> list[str]:
    """The names in a loop of what it carries, from its first line."""
    return re.findall(r"(%\w+) = ", head.split("iter_args(", 1)[1]) if "iter_args(" in head else []


def end_of(lines: list[str], at: int) -> int:
    """The last line of the op that starts in line ``at``."""
    if not lines[at].rstrip().endswith("({" if '"(' in lines[at] else "{"):
        return at
    indent = " " * indent_of(lines[at])
    while not lines[at].startswith(indent + "}") or lines[at].rstrip().endswith("{"):
        at += 1
    return at


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def types_in(text: str) -> list[str]:
    """The types that ``text`` lists, which have commas of their own."""
    return [found.strip() for found in _TYPE.findall(text)]


def names_in(lines: list[str]) -> set[str]:
    """The values that ``lines`` mention; those of an op with several results also without their number."""
    found = {name for line in lines for name in NAME.findall(line)}
    return found | {name.split("#")[0] for name in found}


def renamed(line: str, names: dict[str, str]) -> str:
    return NAME.sub(lambda m: names.get(m[0], m[0]), line)


def view_of(line: str) -> str | None:
    """The view of memory that the op in ``line`` makes."""
    found = _VIEW.match(line)
    return found[1] if found is not None else None
