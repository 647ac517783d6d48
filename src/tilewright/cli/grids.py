"""Grids and blocks as people type them."""

from __future__ import annotations

from tilewright.cli.errors import UsageError
from tilewright.system.sizes import parse_size


def parse_index(text: str, option: str, default: int) -> tuple[int, int, int]:
    """Up to three numbers with commas between them, and ``default`` for the others. UsageError for anything else."""
    parts = text.split(",")
    try:
        if len(parts) > 3 or "." in text:
            raise ValueError
        x, y, z = (*map(parse_size, parts), default, default)[:3]
    except ValueError:
        raise UsageError(f"--{option} {text}: write up to three numbers, such as 3,0,0 or 4K") from None
    return x, y, z
