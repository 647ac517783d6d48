"""Offsets of what lies in memory side by side while it is needed."""

from __future__ import annotations

from collections.abc import Iterable


def first_fit(size: int, taken: Iterable[tuple[int, int]], alignment: int) -> int:
    """The least aligned offset of ``size`` bytes outside of what is ``taken``: ranges from first to past the last."""
    offset = 0
    for low, high in sorted(taken):
        if offset + size <= low:
            break
        offset = max(offset, -(-high // alignment) * alignment)
    return offset
