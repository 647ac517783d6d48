"""Validation of the hints of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir.hints import UNSPECIFIED, ByTarget

# name -> (default, allowed values, their description)
_HINTS: dict[str, tuple[Any, frozenset[int], str]] = {
    "num_ctas": (None, frozenset((1, 2, 4, 8, 16)), "a power of two from 1 to 16"),
    "occupancy": (None, frozenset(range(1, 33)), "from 1 to 32"),
    "opt_level": (3, frozenset(range(4)), "from 0 to 3"),
    "num_worker_warps": (None, frozenset((1, 2, 4, 8, 16, 32)), "1, 2, 4, 8, 16 or 32"),
}


def checked_hints(hints: Mapping[str, Any]) -> dict[str, Any]:
    """``hints`` without those that say what holds anyway. TypeError for unknown names, ValueError for bad values."""
    found: dict[str, Any] = {}
    for name, value in hints.items():
        if name not in _HINTS:
            raise TypeError(f"unknown kernel hint {name!r}; the hints are {', '.join(_HINTS)}")
        default, allowed, description = _HINTS[name]
        values = [value]
        if isinstance(value, ByTarget):
            values = [*value.values.values(), *([] if value.default is UNSPECIFIED else [value.default])]
        for v in values:
            if v is not None and (isinstance(v, bool) or not isinstance(v, int) or v not in allowed):
                raise ValueError(f"{name} is {v!r}; it must be {description}")
        if value is not None and value != default:
            found[name] = value
    return found
