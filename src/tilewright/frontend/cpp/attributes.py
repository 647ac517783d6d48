"""Optimization hints in source text: ``[[cutile::hint(...)]]`` (section 2.16.1).

Clang drops attributes that it does not know, so each hint is rewritten into something that reaches the LLVM module:
an annotation on a function, calls around an expression statement. The user's text keeps its lines and columns.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from tilewright.ir.errors import TileSyntaxError
from tilewright.ir.location import Loc

_SKIP = re.compile(
    "|".join(
        (
            r"//(?:[^\n\\]|\\.)*",
            r"/\*.*?\*/",
            r'R"(?P<tag>[^\s()\\]*)\(.*?\)(?P=tag)"',
            r'"(?:[^"\\\n]|\\.)*"',
            r"(?P<number>\b\d(?:'?\w)*)",  # its separators begin no character
            r"'(?:[^'\\\n]|\\.)+'",
        )
    ),
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\(?:.|\n))*", re.MULTILINE)
LINE = re.compile(r'^[ \t]*#[ \t]*(?:line[ \t]+)?(\d+)(?:[ \t]+"([^"\n]*)")?[^\n]*$', re.MULTILINE)
_OPEN = re.compile(r"\[\s*\[")
_IN_A_ROW = re.compile(r"\s*(\[)\s*\[")
_FUNCTION_WORDS = re.compile(r"\b__tile_global__\b|\b__tile__\b|\b__global__\b")
# What may stand before a statement, and a label that attributes may precede.
_BEFORE_STATEMENT = re.compile(r"(?:[;{}):]|\belse|\bdo)\s*\Z")
_LABEL = re.compile(r"\s*\w+\s*:(?!:)")
_DECLARATION_SCOPE = re.compile(r"\b(?:namespace|struct|class|union|enum|extern)\b")
_ATTRIBUTES = re.compile(r"\[\s*\[.*?\]\s*\]", re.DOTALL)
_PARAMETER_LIST = re.compile(
    r"\b(?!(?:requires|decltype|alignas|sizeof|noexcept|explicit|__attribute__)\b)\w+\s*\(|\]\s*(?:<.*>)?\s*\(",
    re.DOTALL,
)
_DECLARATION = re.compile(
    r"""\s*(?:::)?\w+(?:\s*::\s*\w+)*    # a type,
    (?:\s*<[^=;]*>)?(?:\s*::\s*\w+)*    # with template arguments and nested names,
    (?:\s+(?:const|volatile)\b)*[\s*&]+\w+\s*(?:[=;{(\[]|\Z)  # a name, and what may follow one""",
    re.VERBOSE,
)
_NOT_AN_EXPRESSION = re.compile(
    r"""\s*(?:if|for|while|do|switch|return|break|continue|goto|case|default|try|auto|const|constexpr|constinit|static|
    extern|inline|thread_local|alignas|static_assert|using|typedef|struct|class|enum|union|namespace|template|volatile|
    void|bool|char|short|int|long|float|double|signed|unsigned|typename|decltype)\b | \s*\{""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Hint:
    """One ``hint(architecture, kind = value, ...)``; the parts are C++ expressions. ``expands`` marks a pack."""

    architecture: str
    pairs: tuple[tuple[str, str], ...]
    expands: bool

    def constants(self) -> list[tuple[str, str]]:
        """Kind and constant of each pair; what is no integral constant expression is refused by the compiler."""
        return [(kind, f"::__tw::hint<({self.architecture}), ({value})>") for kind, value in self.pairs]


@dataclass
class Attributes:
    """Attribute lists in a row: the hints among them, the text of the others, and where they end."""

    hints: list[Hint]
    others: str
    end: int


def rewrite_hints(text: str, name: str) -> str:
    """``text`` with every ``cutile::hint`` replaced. Raises TileSyntaxError for one that is malformed."""
    if "cutile" not in text:
        return text
    return _rewrite(text, without_directives(mask(text)), 0, len(text), name)


def _rewrite(text: str, masked: str, begin: int, stop: int, name: str) -> str:
    out: list[str] = []
    position = begin
    while (match := _OPEN.search(masked, position, stop)) is not None:
        start = match.start()
        found = _attributes(text, masked, start, name)
        out.append(text[position:start])
        if found.hints:
            replacement, position = _replacement(text, masked, start, found, name)
            out.append(replacement)
        else:
            # Not always an attribute list: the brackets of a lambda inside of others look the same.
            position = match.end()
            out.append(text[start:position])
    return "".join([*out, text[position:stop]])


def _attributes(text: str, masked: str, start: int, name: str) -> Attributes:
    found = Attributes([], "", start)
    while (match := _IN_A_ROW.match(masked, found.end)) is not None:
        close = closing(masked, match.start(1), "[]")
        body = text[match.end() : masked.rindex("]", 0, close)]
        hints: list[Hint] = []
        others = [body.strip()]
        if "cutile" in body:
            hints, others = _parse(without_comments(body), location_at(text, match.start(1), name))
        found.hints += hints
        found.others += f"[[{', '.join(others)}]]" if others else ""
        found.end = close + 1
    return found


def _replacement(text: str, masked: str, start: int, found: Attributes, name: str) -> tuple[str, int]:
    """What stands for the attributes at ``start``, and where the text goes on after it."""
    at = _LineDirectives(text, masked, start)
    kept = found.others
    if not _in_block(masked, start):
        if _on_function(masked, start, found.end):
            kept += _as_annotations(found.hints, masked[found.end :].lstrip().startswith("("))
        return (kept + at(found.end) if kept else blank(text[start : found.end])), found.end
    stop = _statement_end(masked, start, found.end)
    if stop is None:
        return (kept + at(found.end) if kept else blank(text[start : found.end])), found.end
    calls = "".join(f"{at(start)}{call}" for call in _as_calls(found.hints))
    statement = _rewrite(text, masked, found.end, stop, name)
    # The end is where the semicolon is: what follows may begin right after it.
    return f"{{{calls}{kept}{at(found.end)}{statement}{at(stop - 1)}::__tw_hint_end();}}{at(stop)}", stop


class _LineDirectives:
    """Directives that make what follows them lie where it was in ``text``, whatever was put before it."""

    def __init__(self, text: str, masked: str, start: int) -> None:
        self.text = text
        self.start = start
        # The arguments of a macro cannot hold directives; there, only lines stay as they are.
        self.exact = masked.count("(", 0, start) <= masked.count(")", 0, start)

    def __call__(self, position: int) -> str:
        if not self.exact:
            lines = self.text.count("\n", self.start, position)
            self.start = max(self.start, position)
            return "\n" * lines
        column = len(self.text[self.text.rfind("\n", 0, position) + 1 : position].encode())
        return f"\n#line {location_at(self.text, position, '').line}\n{' ' * column}"


def blank(text: str) -> str:
    """``text`` with all but its line ends blanked."""
    return "\n".join(" " * len(line) for line in text.split("\n"))


@functools.lru_cache(maxsize=1 << 11)  # of headers, as several checks of a file ask
def mask(text: str) -> str:
    """``text`` with comments and literals blanked, position by position."""
    return _SKIP.sub(lambda m: m.group().replace("'", "_") if m["number"] else blank(m.group()), text)


def without_directives(text: str) -> str:
    """``text`` with the directives of the preprocessor blanked, position by position."""
    return _DIRECTIVE.sub(lambda m: blank(m.group()), text)


def without_comments(text: str) -> str:
    """``text``, which has no strings, with blanks in the place of comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def closing(masked: str, start: int, brackets: str = "{}") -> int:
    """The position of the bracket that closes the one at ``start``."""
    return pairs(masked, brackets).get(start, len(masked))


def opening(masked: str, end: int) -> int:
    """The position of the brace that the one at ``end`` closes."""
    return next((start for start, closes in pairs(masked, "{}").items() if closes == end), 0)


@functools.lru_cache(maxsize=8)
def pairs(masked: str, brackets: str) -> dict[int, int]:
    """The positions of brackets, and of those that close them."""
    found, opened = dict[int, int](), list[int]()
    for match in re.finditer(f"[{re.escape(brackets)}]", masked):
        if match.group() == brackets[0]:
            opened.append(match.start())
        elif opened:
            found[opened.pop()] = match.start()
    return found


def location_at(text: str, position: int, name: str) -> Loc:
    """Where ``position`` is, as the line directives of the preprocessor tell."""
    line, start = 1, 0
    for marker in LINE.finditer(text, 0, position):
        line, start, name = int(marker.group(1)), marker.end() + 1, marker.group(2) or name
    column = position - text.rfind("\n", 0, position) - 1
    return Loc(name, line + text.count("\n", start, position), column)


# -- what the attributes say


def _split(text: str) -> list[str]:
    """``text`` at the commas that separate arguments."""
    parts, depth, conditions, start = [], 0, 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth == 0 and c == "?":
            conditions += 1
        elif depth == 0 and conditions and c == ":" and ":" not in (text[i - 1], text[i + 1 : i + 2]):
            conditions -= 1
        elif c == "," and depth == 0 and not conditions and not _in_template_arguments(text[start:i]):
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in [*parts, text[start:]]]


def _in_template_arguments(text: str) -> bool:
    """Whether a template argument list that begins in ``text`` is still open, as far as a name before it tells."""
    text = re.sub(r"\([^()]*\)|->|<<|<=|>=", "", text)
    return len(re.findall(r"\w\s*<", text)) > text.count(">")


def _parse(body: str, loc: Loc) -> tuple[list[Hint], list[str]]:
    """The hints of one attribute list, and its other attributes."""
    prefix = re.match(r"\s*using\s+(\w+)\s*:(?!:)", body)
    found, others = [], []
    for part in _split(body[prefix.end() :] if prefix else body):
        in_cutile = re.match(r"cutile\s*::\s*" if prefix is None else "", part)
        if in_cutile is None or (prefix and prefix.group(1) != "cutile"):
            others.append(f"{prefix.group(1)}::{part}" if prefix else part)
        elif re.match(r"hint\b", part[in_cutile.end() :]):
            found.append(_hint(part, part[in_cutile.end() :], loc))
    return found, [p for p in others if p]


def _hint(written: str, text: str, loc: Loc) -> Hint:
    match = re.match(r"hint\s*\((.*)\)\s*(\.\.\.)?\Z", text, re.DOTALL)
    if match is None:
        raise TileSyntaxError(f"'{written}' is not of the form cutile::hint(architecture, kind = value, ...)", loc)
    architecture, *arguments = _split(match.group(1))
    pairs = []
    for argument in arguments:
        pair = re.match(r"(\w+)\s*=(?!=)\s*(.+)\Z", argument, re.DOTALL)
        if pair is None:
            raise TileSyntaxError(f"'{argument}' in a cutile::hint is not of the form kind = value", loc)
        pairs.append((pair.group(1), pair.group(2)))
    if not architecture or not pairs:
        raise TileSyntaxError("cutile::hint needs an architecture and at least one kind = value", loc)
    return Hint(architecture, tuple(pairs), match.group(2) is not None)


# -- what they belong to


def _in_block(masked: str, position: int) -> bool:
    """Whether ``position`` is inside a function, and not in a class or at namespace scope."""
    depth = 0
    for i in range(position - 1, -1, -1):
        depth += (masked[i] == "}") - (masked[i] == "{")
        if depth < 0:
            before = max(masked.rfind(c, 0, i) for c in ";{}")
            head = _without_template_header(_ATTRIBUTES.sub("", masked[before + 1 : i]))
            return _DECLARATION_SCOPE.search(head) is None or _PARAMETER_LIST.search(head) is not None
    return False


def _on_function(masked: str, start: int, end: int) -> bool:
    """Whether attributes outside of functions belong to a function, and not to its type or to a parameter."""
    after = re.compile(r"[;{}]").search(masked, end)
    before = masked[max(masked.rfind(c, 0, start) for c in ";{}") + 1 : start]
    if before.count("(") > before.count(")") or _PARAMETER_LIST.search(_without_template_header(before)):
        return False
    return _FUNCTION_WORDS.search(before + masked[end : after.start() if after else len(masked)]) is not None


def _without_template_header(text: str) -> str:
    match = re.match(r"\s*(?:#[^\n]*\n\s*)*template\s*<", text)
    depth, i = 1, match.end() if match else 0
    while match and depth and i < len(text):
        depth += (text[i] == "<") - (text[i] == ">")
        i += 1
    return text[i:]


def _statement_end(masked: str, before: int, start: int) -> int | None:
    """Where the expression statement that starts at ``start`` ends; None for any other statement."""
    if _BEFORE_STATEMENT.search(masked[:before]) is None:
        return None
    if _NOT_AN_EXPRESSION.match(masked, start) or _LABEL.match(masked, start):
        return None
    depth = 0
    for i in range(start, len(masked)):
        depth += (masked[i] in "([{") - (masked[i] in ")]}")
        if masked[i] == ";" and depth == 0:
            # A type followed by a name, which no expression starts with, is a declaration.
            return None if _DECLARATION.match(masked[start:i]) else i + 1
        if depth < 0:
            return None
    return None


# -- what they become


def _as_annotations(hints: list[Hint], after_name: bool) -> str:
    """Attributes of a function. After its name there are no GNU attributes, and before it not always standard ones."""
    parts = ", ".join(
        f'annotate("cutile.hint", "{kind}", {constant}{"..." if hint.expands else ""})'
        for hint in hints
        for kind, constant in hint.constants()
    )
    return f"[[using clang: {parts}]]" if after_name else f"__attribute__(({parts}))"


def _as_calls(hints: list[Hint]) -> list[str]:
    calls = []
    for hint in hints:
        for kind, constant in hint.constants():
            call = f'::__tw_hint("{kind}", {constant})'
            calls.append(f"({call}, ...);" if hint.expands else f"{call};")
    return calls
