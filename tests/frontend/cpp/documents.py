"""The documents that define the language, where they are at hand."""

from __future__ import annotations

import re
from pathlib import Path

DOCUMENTS = Path(__file__).parents[4] / "shared" / "spec"
GUIDE = DOCUMENTS / "programming-guide-tile-kernels.txt"
REFERENCE = DOCUMENTS / "tile-cpp-api-reference.txt"


def closing(text: str, start: int) -> int:
    """The position after the brace that closes the first one after ``start``."""
    depth = 0
    for i in range(text.index("{", start), len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise AssertionError("unbalanced braces")


def guide_kernels() -> dict[str, str]:
    """The kernels of the guide in C++, with their hints, but for those with a placeholder for a body."""
    text = GUIDE.read_text()
    found = {}
    for match in re.finditer(r"^(?:\[\[ cutile::hint\(900[^]]*\]\][^\n]*\n)?__tile_global__ void (\w+)\(", text, re.M):
        if match.group(1) != "my_kernel":
            found[match.group(1)] = text[match.start() : closing(text, match.end())]
    return found


def guide_functions() -> list[str]:
    """The functions of the guide in C++ that are no kernels."""
    text = GUIDE.read_text()
    return [text[m.start() : closing(text, m.end())] for m in re.finditer(r"^__tile__ \w+ \w+\(", text, re.M)]


def guide_fragment(start: str) -> str:
    """The C++ statements of the guide from the line that starts with ``start`` to what is no C++ any more."""
    text = GUIDE.read_text()
    assert text.count(f"\n{start}") == 1, start
    lines = text[text.index(f"\n{start}") + 1 :].split("\n")
    code = r"$|//|[} ]|(?:auto|using|int|for|ct::\w+|x \+ 2|\w+<<<)\b.*(?:[;{,]|;? *//.*)$|\w+\*? \w+ += .*;"
    ends = (i for i, line in enumerate(lines) if re.match(code, line) is None or " = ct." in line or "#" in line)
    count = next(ends, len(lines))
    return "\n".join(lines[:count]).rstrip("\n") + "\n"
