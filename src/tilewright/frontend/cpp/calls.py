"""Which functions of a module of LLVM call which, from its text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

NAME = r'@("[^"]*"|[-\w.$]+)'
FUNCTION = re.compile(rf"^define [^\n]*?{NAME}\([^\n]*\{{\n(?:.*?\n)?\}}\n", re.M | re.S)


def call_graph(text: str) -> dict[str, set[str]]:
    """The names that each function mentions."""
    return {m[1].strip('"'): {n.strip('"') for n in re.findall(NAME, m.group())} for m in FUNCTION.finditer(text)}


def called_from(calls: Mapping[str, set[str]], kernels: Iterable[str]) -> set[str]:
    """The functions that ``kernels`` lead to, and these, of those that are defined."""
    found: set[str] = set()
    pending = list(kernels)
    while pending:
        name = pending.pop()
        if name in calls and name not in found:
            found.add(name)
            pending += calls[name]
    return found
