"""Grids and blocks as people type them."""

from __future__ import annotations

from tilewright.cli.errors import UsageError


def parse_index(text: str, option: str, default: int) -> tuple[int, int, int]:
    """Up to three numbers with commas between them, and ``default`` for the others. UsageError for anything else."""
    parts = text.split(",")
    if len(parts) > 3 or not all(p.strip().isdecimal() for p in parts):
        raise UsageError(f"--{option} {text}: write up to three numbers, such as 3,0,0")
    x, y, z = (*map(int, parts), default, default)[:3]
    return x, y, z
