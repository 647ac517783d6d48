"""Where in the program eager code is being called."""

from __future__ import annotations

import functools
import itertools
import linecache
import sys
import types
from typing import Any

from tilewright.ir.location import UNKNOWN, Loc

# Modules between a kernel and what it calls that are no part of the program.
_PLUMBING = {__name__.partition(".")[0], "bdb", "contextlib", "functools"}
# The function that calls a kernel has this local variable, which ends the chain of callers.
KERNEL_CALL = "the_kernel_is_called_here"


def call_site() -> Loc:
    """The innermost location outside of this package; in a kernel with the calls that led there from its body."""
    frame: types.FrameType | None = sys._getframe(1)
    frames = []
    in_kernel = False
    while frame is not None:
        if not _is_plumbing(frame):
            frames.append(frame)
        elif KERNEL_CALL in frame.f_code.co_varnames:
            in_kernel = True
            break
        frame = frame.f_back
    if not frames:
        return UNKNOWN
    found: Loc | None = None
    for f in reversed(frames if in_kernel else frames[:1]):
        line, column, end_line, end_column = _range(f.f_code, f.f_lasti, f.f_lineno)
        found = Loc(f.f_code.co_filename, line, column, end_line, end_column, f.f_code.co_name, found)
    assert found is not None
    return found


def _is_plumbing(frame: types.FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return isinstance(name, str) and name.partition(".")[0] in _PLUMBING


@functools.lru_cache(maxsize=4096)
def _range(code: types.CodeType, instruction: int, line: int) -> tuple[int, int, int | None, int | None]:
    """The source text of an instruction: line, column, end line, end column; the whole line before Python 3.11."""
    text = linecache.getline(code.co_filename, line)
    positions: Any = getattr(code, "co_positions", None)
    if positions is not None:
        first, last, column, end_column = next(itertools.islice(positions(), instruction // 2, None))
        if first is not None and column is not None and end_column is not None:
            text = linecache.getline(code.co_filename, first)
            return first, _characters(text, column), last, _characters(text, end_column)
    return line, len(text) - len(text.lstrip()), None, None


def _characters(text: str, offset: int) -> int:
    """Characters in the first ``offset`` bytes of ``text``."""
    return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))
