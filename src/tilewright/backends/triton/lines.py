"""TTGIR, the form with layouts, as lines of text."""

from __future__ import annotations

import re

NAME = re.compile(r"%\w+(?:#\d+)?")
_TYPE = re.compile(r"(?:[^,<]|<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)+")
WAIT = re.compile(r"\s*(%\w+)(?::\d+)? = ttng\.warp_group_dot_wait (.*?) \{pendings = (\d+) : i32\} : ")


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
