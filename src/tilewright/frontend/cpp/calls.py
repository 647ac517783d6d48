"""Which functions of a module of LLVM call which, from its text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tilewright.ir.reachable import reachable

NAME = r'@("[^"]*"|[-\w.$]+)'
_OTHER = re.compile(rf"^{NAME} = ([^\n]*)$", re.M)  # a variable, or another name
GLOBAL = re.compile(rf"^{NAME} = (?P<how>[^\n]*?)\b(?P<kind>global|constant) (?P<rest>[^\n]*)$", re.M)
FUNCTION = re.compile(rf"^define [^\n]*?{NAME}\([^\n]*\{{\n(?:.*?\n)?\}}\n", re.M | re.S)


def call_graph(text: str) -> dict[str, set[str]]:
    """The names that each function mentions."""
    return {m[1].strip('"'): {n.strip('"') for n in re.findall(NAME, m.group())} for m in FUNCTION.finditer(text)}


def leading_to(text: str) -> dict[str, set[str]]:
    """The names that each function mentions, and each variable in its value."""
    others = {m[1].strip('"'): {n.strip('"') for n in re.findall(NAME, m[2])} for m in _OTHER.finditer(text)}
    return others | call_graph(text)


def called_from(calls: Mapping[str, set[str]], kernels: Iterable[str]) -> set[str]:
    """The functions that ``kernels`` lead to, and these, of those that are defined."""
    return set(reachable(calls.keys() & set(kernels), lambda name: calls.keys() & calls[name]))
