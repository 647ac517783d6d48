"""What is done to the text of a program before the compiler sees it. Line numbers stay as they are.

SIMT kernels and kernel launches are CUDA syntax or need SIMT's own built-in variables: they are blanked, so that the
rest of a file which mixes them with tile code compiles.
"""

from __future__ import annotations

import re

from tilewright.frontend.cpp.hints import mask, rewrite_hints

_SIMT = re.compile(r"\b__global__\b")


def prepare(text: str, name: str) -> str:
    """``text`` with hints made visible to the compiler, SIMT kernels emptied and launches removed."""
    return rewrite_hints(_without_launches(_without_simt_bodies(text)), name)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _without_simt_bodies(text: str) -> str:
    masked = mask(text)
    for match in reversed(list(_SIMT.finditer(masked))):
        start = re.compile(r"[;{]").search(masked, match.end())
        if start is None or start.group() == ";":
            continue
        end = _closing(masked, start.start())
        text = f"{text[: start.start() + 1]}{_blank(text[start.start() + 1 : end])}{text[end:]}"
    return text


def _closing(masked: str, start: int) -> int:
    """The position of the brace that closes the one at ``start``."""
    depth = 0
    for i in range(start, len(masked)):
        depth += masked[i] == "{"
        depth -= masked[i] == "}"
        if depth == 0:
            return i
    return len(masked)


def _without_launches(text: str) -> str:
    """Blank the statements that contain ``<<<``."""
    masked = mask(text)
    position = masked.find("<<<")
    while position >= 0:
        start = max(masked.rfind(c, 0, position) for c in ";{}") + 1
        end = masked.find(";", position)
        if end < 0:
            return text
        text = text[:start] + _blank(text[start:end]) + text[end:]
        masked = masked[:start] + " " * (end - start) + masked[end:]
        position = masked.find("<<<", end)
    return text
