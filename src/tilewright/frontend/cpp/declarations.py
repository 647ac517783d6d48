"""Declarations of functions in the text of a program, and which of them may be of one function."""

from __future__ import annotations

import functools
import itertools
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tilewright.frontend.cpp.attributes import closing, pairs
from tilewright.frontend.cpp.llvm_module import split_parameters

_CLASS = re.compile(r"\b(?:struct|class|union)\b")
_NAMESPACE = re.compile(r"\bnamespace\b\s*([\w:\s]*)\Z")
_NAMED = re.compile(r"\b(?:namespace|struct|class|union)\s+(?:[\w:]*::)?(\w+)(?!\s*=)\b")
_INLINE = re.compile(r"\binline\s+namespace\s+(\w+)|::\s*inline\s+(\w+)")
_TYPES = frozenset(["bool", "char", "double", "float", "int", "long", "short", "signed", "unsigned", "void", "wchar_t"])
_SAME = frozenset(("const", "volatile", "signed"))  # no other overload, or another word of the same type


@dataclass(frozen=True)
class Declaration:
    """A declaration of a function in ``masked`` text: where it begins, where its name does, and ``head``, all of it up
    to the body."""

    masked: str
    begin: int
    named: int
    head: str

    @property
    def is_in_body(self) -> bool:
        """Whether it stands in the body of a function, and in no class there."""
        heads = [head for _, head in reversed(_around(self.masked, self.begin))]
        return any(")" in head for head in itertools.takewhile(lambda head: not _CLASS.search(head), heads))

    @functools.cached_property
    def path(self) -> tuple[str, ...]:
        """The namespaces and classes that it is declared in, by their names."""
        found = list[str]()
        for _, head in _around(self.masked, self.begin):
            if (space := _NAMESPACE.search(head)) is not None:
                found += [word for word in re.findall(r"\w+", space[1]) if word != "inline"]
            elif (kind := _CLASS.search(head)) is not None and ")" not in head:
                name = re.split(r"(?<!:):(?!:)", head[kind.end() :])[0]
                words = re.findall(r"\w+", _without_arguments(name))
                found += [word for word in words if word != "final"][-1:]
        return (*found, *self.qualifiers)

    @functools.cached_property
    def qualifiers(self) -> tuple[str, ...]:
        """The names with ``::`` before its own."""
        before = _without_arguments(self.masked[self.begin : self.named])
        chain = re.search(r"(?:\w+\s*::\s*)*\Z", before)
        return tuple(re.findall(r"\w+", chain[0] if chain is not None else ""))

    @functools.cached_property
    def parameters(self) -> list[str]:
        """The parameters, with their names and defaults."""
        start = self.masked.index("(", self.named)
        if self.masked[self.named : start + 1] == "operator(":
            start = self.masked.index("(", start + 1)
        end = closing(self.masked, start, "()")
        found = split_parameters(self.masked[start + 1 : end])
        return [] if found == ["void"] else found

    def may_be_of(self, other: Declaration, known: Collection[str], inline: Collection[str]) -> bool:
        """Whether both may declare one function. ``known`` are the namespaces and classes of the program, ``inline``
        the namespaces among them whose names may be left out."""
        qualifiers = {*self.qualifiers, *other.qualifiers}
        named_otherwise = not qualifiers <= {*known}  # by an alias
        if not named_otherwise and not re.search(r"\bfriend\b", self.head + other.head):
            ours, theirs = ([n for n in each.path if n not in inline] for each in (self, other))
            common = min(len(ours), len(theirs))
            using = common > 0 and bool(qualifiers)  # may have made shorter names of classes
            if ours != theirs and not (using and ours[-common:] == theirs[-common:]):
                return False
        if "..." in self.head + other.head:
            return True
        if len(self.parameters) != len(other.parameters):
            return False
        kinds = ((_type(one), _type(two)) for one, two in zip(self.parameters, other.parameters))
        return all(one is None or two is None or one == two for one, two in kinds)


def declarations(masked: str, function: str, begin: int = 0, end: int = sys.maxsize) -> Iterator[Declaration]:
    """The declarations of ``function`` in a part of a text without comments and strings, and its calls, which are like
    them and say nothing."""
    named = re.compile(rf"(?<![\w.]){re.escape(function)}\s*(?:<[^<>;{{}}]*>\s*)?\(")
    for match in named.finditer(masked, begin, min(end, len(masked))):
        start = declaration_begin(masked, match.start())
        body = re.compile(r"[;{]").search(masked, match.end())
        head = masked[start : body.start() if body is not None else len(masked)]
        yield Declaration(masked, start, match.start(), head)


def declaration_begin(masked: str, position: int) -> int:
    """Where a declaration begins, or where a part of one that ends with a brace has ended."""
    return max(masked.rfind(c, 0, position) for c in ";{}") + 1


def spaces_of(texts: Collection[str]) -> tuple[set[str], set[str]]:
    """The names of namespaces and classes in the texts of a program, and of its inline namespaces."""
    known = {name for text in texts for name in _NAMED.findall(text)}
    return known, {name for text in texts for each in _INLINE.findall(text) for name in each if name}


def _around(masked: str, position: int) -> list[tuple[int, str]]:
    """The opening braces around a place, the outermost first, with what stands before each."""
    starts = sorted(start for start, end in pairs(masked, "{}").items() if start < position <= end)
    return [(start, masked[declaration_begin(masked, start) : start]) for start in starts]


def _without_arguments(text: str) -> str:
    """``text`` without what stands in angle brackets."""
    while (shorter := re.sub(r"<[^<>]*>", "", text)) != text:
        text = shorter
    return text


def _type(parameter: str) -> list[str] | None:
    """What the type of a parameter is made of, where that are words of the language alone."""
    words = re.findall(r"\w+|[*&[]", parameter.partition("=")[0])
    types = [word for word in words if word in _TYPES or word in ("*", "&", "[", *_SAME)]
    others = [word for word in words if word not in types and not word.isdigit()]
    if others and (len(others) > 1 or not _TYPES & {*words[: words.index(others[0])]}):
        return None  # more than the name of the parameter
    kept = ["*" if word == "[" else word for word in types if word not in _SAME]
    return sorted(word for word in kept if word != "int" or not {"long", "short", "unsigned"} & {*kept})
