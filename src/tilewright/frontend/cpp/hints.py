"""Optimization hints: ``[[cutile::hint(...)]]`` (section 2.16).

Clang drops attributes that it does not know, so each hint is rewritten into something that reaches the LLVM module:
an annotation on a kernel, a pair of calls around an expression statement. Line numbers stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tilewright.frontend.cpp.intrinsics import by_target, constant_text
from tilewright.frontend.cpp.llvm_text import LLVMModule
from tilewright.ir.errors import TileSyntaxError
from tilewright.ir.location import Loc

# hint kind of the C++ language -> kernel hint of the IR, and the values that it takes
_KERNEL_HINTS: dict[str, tuple[str, frozenset[int]]] = {
    "num_cta_in_cga": ("num_ctas", frozenset((1, 2, 4, 8, 16))),
    "occupancy": ("occupancy", frozenset(range(1, 33))),
}

_SKIP = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'', re.DOTALL)
_OPEN = re.compile(r"\[\s*\[")
_IN_A_ROW = re.compile(r"\s*(\[)\s*\[")
_DECLARATION = re.compile(
    r"""\s*(?:::)?\w+(?:\s*::\s*\w+)*    # a type,
    (?:\s*<[^=;]*>)?(?:\s*::\s*\w+)*    # with template arguments and nested names,
    (?:\s+(?:const|volatile)\b)*[\s*&]+\w+\s*(?:[=;{(\[]|\Z)  # a name, and what may follow one""",
    re.VERBOSE,
)
_CONTROLLED = re.compile(r"(?:\)|\belse|\bdo)\s*\Z")  # what stands before a statement that needs no braces
_FUNCTION_WORDS = re.compile(r"\b__tile_global__\b|\b__tile__\b|\b__global__\b")
_NOT_EXPRESSIONS = frozenset(
    [
        "if",
        "for",
        "while",
        "do",
        "switch",
        "return",
        "break",
        "continue",
        "goto",
        "case",
        "default",
        "try",
        "auto",
        "const",
        "constexpr",
        "static",
        "using",
        "typedef",
        "struct",
        "class",
        "enum",
        "union",
        "namespace",
        "template",
        "volatile",
        "void",
        "bool",
        "char",
        "short",
        "int",
        "long",
        "float",
        "double",
        "signed",
        "unsigned",
        "typename",
        "decltype",
    ]
)


@dataclass(frozen=True)
class Hint:
    """One ``hint(architecture, kind = value, ...)``; the parts are C++ expressions. ``expands`` marks a pack."""

    architecture: str
    pairs: tuple[tuple[str, str], ...]
    expands: bool


def rewrite_hints(text: str, name: str) -> str:
    """``text`` with every ``cutile::hint`` replaced. Raises TileSyntaxError for one that is malformed."""
    if "cutile" not in text:
        return text
    masked = mask(text)
    out: list[str] = []
    position = 0
    while (match := _OPEN.search(masked, position)) is not None:
        start = match.start()
        hints, end = _hints_at(text, masked, start, name)
        if hints:
            replacement, end = _replacement(text, masked, start, end, hints)
        else:
            end = _close(masked, start)
            replacement = text[start:end]
        out += [text[position:start], replacement]
        position = end
    return "".join([*out, text[position:]])


def _hints_at(text: str, masked: str, start: int, name: str) -> tuple[list[Hint], int]:
    """The hints of the attributes in a row at ``start``, and where the last of them ends."""
    hints: list[Hint] = []
    end = start
    while (match := _IN_A_ROW.match(masked, end)) is not None:
        close = _close(masked, match.start(1))
        body = text[match.end() : masked.rindex("]", 0, close - 1)]
        if "cutile" not in body:
            break
        hints += _parse(_without_comments(body), Loc(name, text.count("\n", 0, match.start(1)) + 1))
        end = close
    return hints, end


def _replacement(text: str, masked: str, start: int, end: int, hints: list[Hint]) -> tuple[str, int]:
    """What stands for the attributes from ``start`` to ``end``, and where the text goes on after it."""
    newlines = "\n" * text.count("\n", start, end)
    if _on_function(masked, start, end):
        return _as_annotations(hints) + newlines, end
    stop = _statement_end(masked, end)
    if stop is None:
        return newlines, end
    begin, finish = _as_calls(hints)
    statement = f"{begin}{newlines}{text[end:stop]}{finish}"
    return (f"{{{statement}}}" if _CONTROLLED.search(masked[:start]) else statement), stop


def mask(text: str) -> str:
    """``text`` with comments and literals blanked, position by position."""
    return _SKIP.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def _close(masked: str, start: int) -> int:
    """The position after the bracket group that starts at ``start``."""
    depth = 0
    for i in range(start, len(masked)):
        depth += masked[i] == "["
        depth -= masked[i] == "]"
        if depth == 0:
            return i + 1
    return len(masked)


def _split(text: str, separator: str = ",") -> list[str]:
    """``text`` at the separators outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "([{"
        depth -= c in ")]}"
        if c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in [*parts, text[start:]]]


def _parse(body: str, loc: Loc) -> list[Hint]:
    """The hints of one attribute list."""
    prefix = re.match(r"\s*using\s+cutile\s*:", body)
    found = []
    for part in _split(body[prefix.end() :] if prefix else body):
        match = re.match(r"(?:cutile\s*::\s*)?hint\s*\((.*)\)\s*(\.\.\.)?\Z", part, re.DOTALL)
        if match is None or (prefix is None and not part.startswith("cutile")):
            raise TileSyntaxError(f"'{part}' is not a cutile::hint attribute", loc)
        arguments = _split(match.group(1))
        pairs = []
        for argument in arguments[1:]:
            pair = re.match(r"(\w+)\s*=(?!=)\s*(.+)\Z", argument, re.DOTALL)
            if pair is None:
                raise TileSyntaxError(f"'{argument}' in a cutile::hint is not of the form kind = value", loc)
            pairs.append((pair.group(1), pair.group(2)))
        if not arguments[0] or not pairs:
            raise TileSyntaxError("cutile::hint needs an architecture and at least one kind = value", loc)
        found.append(Hint(arguments[0], tuple(pairs), match.group(2) is not None))
    return found


def _on_function(masked: str, start: int, end: int) -> bool:
    """Whether an attribute at ``start`` belongs to a function declaration."""
    after = re.search(r"[;{}]", masked[end:])
    before = max((masked.rfind(c, 0, start) for c in ";{}"), default=-1)
    nearby = masked[before + 1 : start] + masked[end : end + after.start() if after else len(masked)]
    return _FUNCTION_WORDS.search(nearby) is not None


def _statement_end(masked: str, start: int) -> int | None:
    """Where the expression statement that starts at ``start`` ends; None for any other statement."""
    first = re.compile(r"\s*(\w+)?").match(masked, start)
    if first is None or first.group(1) in _NOT_EXPRESSIONS or masked[first.end() : first.end() + 1] == "{":
        return None
    depth = 0
    for i in range(start, len(masked)):
        depth += masked[i] in "([{"
        depth -= masked[i] in ")]}"
        if masked[i] == ";" and depth == 0:
            return None if _is_declaration(masked[start:i]) else i + 1
        if depth < 0:
            return None
    return None


def _is_declaration(statement: str) -> bool:
    """A type followed by a name, which no expression starts with."""
    return _DECLARATION.match(statement) is not None


def _as_annotations(hints: list[Hint]) -> str:
    parts = []
    for hint in hints:
        for kind, value in hint.pairs:
            if hint.expands:
                parts.append(f'clang::annotate("cutile.hints", "{kind}", ({hint.architecture})..., ({value})...)')
            else:
                parts.append(f'clang::annotate("cutile.hint", "{kind}", {hint.architecture}, {value})')
    return f"[[{', '.join(parts)}]]"


def _as_calls(hints: list[Hint]) -> tuple[str, str]:
    calls = []
    for hint in hints:
        for kind, value in hint.pairs:
            call = f'::__tw_hint_begin(({hint.architecture}), "{kind}", ({value}))'
            calls.append(f"(({call}), ...);" if hint.expands else f"{call};")
    return "".join(calls), "::__tw_hint_end();"


def kernel_hints(module: LLVMModule, notes: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The hints of a kernel from its annotations; kinds and values that do not exist are ignored."""
    values: dict[str, dict[int, int]] = {}
    for note, definition in notes:
        if note not in ("cutile.hint", "cutile.hints"):
            continue
        name = re.search(r"ptr @([-\w.$]+)", definition[definition.rfind("{") :])
        numbers = [int(n) for n in re.findall(r"i\d+ (-?\d+)", definition[definition.rfind("{") :])]
        kind = constant_text(module.globals.get(name.group(1), "")).rstrip("\0") if name else ""
        if kind not in _KERNEL_HINTS or not numbers:
            continue
        half = len(numbers) // 2
        ir_name, allowed = _KERNEL_HINTS[kind]
        for architecture, value in zip(numbers[:half], numbers[half:]):
            if value in allowed and not (kind == "num_cta_in_cga" and architecture == 800 and value != 1):
                values.setdefault(ir_name, {})[architecture] = value
    return {name: by_target(by_arch) for name, by_arch in values.items()}
