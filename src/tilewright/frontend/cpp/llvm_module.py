"""A module in LLVM text: its functions, variables, declarations and metadata, and which of them mention which."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tilewright.ir.reachable import reachable

_NAME = re.compile(r'@("[^"]*"|[-\w.$]+)(\(?)')
_BRACKET = re.compile(r'"[^"]*"|[()]')
_FIELD = re.compile(r'(\w+): ("(?:[^"\\]|\\.)*"|[^,()]+)')
_NODE = re.compile(r"^!(\d+) = (.*)$", re.MULTILINE)
_BEHIND_METADATA = re.compile(r"\n(?!!)")
_OPEN, _CLOSE = "([{<", ")]}>"


@dataclass(frozen=True)
class Definition:
    """A function: ``text`` is all of it, ``symbol`` its name as it is written."""

    text: str
    symbol: str

    @property
    def name(self) -> str:
        return self.symbol.strip('"')

    @functools.cached_property
    def head(self) -> str:
        """The line that it begins with."""
        return self.text.split("\n", 1)[0]

    @property
    def body(self) -> str:
        """What follows that line."""
        return self.text.split("\n", 1)[1]

    @functools.cached_property
    def _ends(self) -> tuple[int, int]:
        """Where the parameters begin and end."""
        start, depth = self.head.index(f"@{self.symbol}(") + len(self.symbol) + 2, 1
        for bracket in _BRACKET.finditer(self.head, start):
            depth += (bracket[0] == "(") - (bracket[0] == ")")
            if depth == 0:
                return start, bracket.start()
        raise ValueError(self.head)

    @property
    def parameters(self) -> list[str]:
        return split_parameters(self.head[slice(*self._ends)])

    def headed(self, parameters: Iterable[str]) -> str:
        """The line that it begins with, with other parameters."""
        start, end = self._ends
        return f"{self.head[:start]}{', '.join(parameters)}{self.head[end:]}"

    @property
    def attributes(self) -> str:
        """What stands behind the parameters."""
        return self.head[self._ends[1] + 1 :].rstrip("{")

    @property
    def subprogram(self) -> int | None:
        """The number of the metadata that describes it."""
        words = self.attributes.split()
        return int(words[words.index("!dbg") + 1][1:]) if "!dbg" in words else None


@dataclass(frozen=True)
class Variable:
    """A variable: ``how`` stands before ``kind``, which is ``global`` or ``constant``, and ``rest`` behind it."""

    line: str
    symbol: str
    how: str
    kind: str
    rest: str


@dataclass(frozen=True)
class Parts:
    """What a module has, by name, types by ``%`` and what follows, or by number."""

    functions: dict[str, Definition] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    declared: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)  # all that stands behind a name: variables, aliases
    types: dict[str, str] = field(default_factory=dict)
    attributes: dict[int, str] = field(default_factory=dict)
    described: list[str] = field(default_factory=list)  # the lines of metadata, in pieces

    @functools.cached_property
    def metadata(self) -> dict[int, str]:
        """The numbered nodes."""
        return {int(number): value for piece in self.described for number, value in _NODE.findall(piece)}

    @functools.cached_property
    def calls(self) -> dict[str, set[str]]:
        """The names that each function mentions."""
        return {name: names_in(each.text) for name, each in self.functions.items()}

    @property
    def mentions(self) -> dict[str, set[str]]:
        """The names that each function mentions, and each variable in its value."""
        return {name: names_in(value) for name, value in self.others.items()} | self.calls

    @functools.cached_property
    def addresses(self) -> set[str]:
        """The names that stand for addresses, and not for what is called."""
        texts = (*self.others.values(), *(each.text for each in self.functions.values()))
        return {name.strip('"') for text in texts for name, called in _NAME.findall(text) if not called}

    def free_number(self) -> int:
        """The first number of metadata that is not used."""
        return 1 + max(self.metadata, default=-1)


@functools.lru_cache(maxsize=4)
def parts_of(text: str) -> Parts:
    """What the module ``text`` has."""
    found, at = Parts(), 0
    while at < len(text):
        first = text[at]
        last = _BEHIND_METADATA.search(text, at) if first == "!" else None
        end = text.find("\n", at) if last is None else last.start()
        end = len(text) if end < 0 else end
        line = text[at:end]
        if first == "d" and line.startswith(("define ", "declare ")):
            symbol = _NAME.search(line)
            assert symbol is not None, line
            name = symbol[1].strip('"')
            if line.startswith("define "):
                end = text.index("\n}\n", end) + 2
                found.functions[name] = Definition(text[at : end + 1], symbol[1])
            else:
                found.declared[name] = line
        elif first == "!":
            found.described.append(line)  # most of a module, which few ask for
        elif first in "@%a":
            _read(found, line)
        at = end + 1
    return found


def _read(found: Parts, line: str) -> None:
    head, _, rest = line.partition(" = ")
    if line[0] == "@":
        found.others[head[1:].strip('"')] = rest
        words = rest.split(" ", 8)
        kind = next((i for i, word in enumerate(words) if word in ("global", "constant")), None)
        if kind is not None:
            how = "".join(f"{word} " for word in words[:kind])
            value = " ".join(words[kind + 1 :])
            found.variables[head[1:].strip('"')] = Variable(line, head[1:], how, words[kind], value)
    elif line[0] == "%":
        found.types[head] = rest.removeprefix("type ")
    elif line.startswith("attributes #"):
        found.attributes[int(head[len("attributes #") :])] = rest


def with_functions(text: str, names: Collection[str], edit: Callable[[Definition], str]) -> str:
    """The module ``text`` with what ``edit`` makes of its functions ``names``."""
    pieces, at = [], 0
    for name, each in parts_of(text).functions.items():
        if name in names:
            start = text.index(each.text, at)
            pieces += [text[at:start], edit(each)]
            at = start + len(each.text)
    return "".join([*pieces, text[at:]])


def names_in(text: str) -> set[str]:
    """The functions and variables that a text mentions."""
    return {name.strip('"') for name, _ in _NAME.findall(text)}


def fields_of(metadata: str) -> dict[str, str]:
    """The fields of a node of metadata, as they are written."""
    return {key: value.strip() for key, value in _FIELD.findall(metadata)}


def called_from(calls: Mapping[str, set[str]], kernels: Iterable[str]) -> set[str]:
    """The functions that ``kernels`` lead to, and these, of those that are defined."""
    return set(reachable(calls.keys() & set(kernels), lambda name: calls.keys() & calls[name]))


def split_parameters(parameters: str) -> list[str]:
    """The parameters at the commas outside of brackets."""
    parts, depth = [""], 0
    for c in parameters:
        depth += (c in _OPEN) - (c in _CLOSE)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]
