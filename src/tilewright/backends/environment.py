"""Environment variables that are read at every launch."""

from __future__ import annotations

import functools
import os
from typing import Any


def variable(name: str) -> str | None:
    """``os.environ.get(name)``, several times as fast: that encodes the name and raises an exception inside."""
    key, values = _place(name)
    found = values.get(key)
    return found if found is None or isinstance(found, str) else os.fsdecode(found)


@functools.cache
def _place(name: str) -> tuple[Any, Any]:
    """A key for ``name``, and the mapping to look it up in."""
    values = getattr(os.environ, "_data", None)
    encode = getattr(os.environ, "encodekey", None)
    return (name, os.environ) if values is None or encode is None else (encode(name), values)


def state() -> tuple[Any, Any, Any]:
    """The variables of launches as the environment holds them: equal ones mean that none has changed."""
    return _get(_BACKEND), _get(_CHECK), _get(_CHECK_OVERLAP)


STATE_KEYS = _BACKEND, _CHECK, _CHECK_OVERLAP = tuple(
    _place(name)[0] for name in ("TILEWRIGHT_BACKEND", "TILEWRIGHT_CHECK", "TILEWRIGHT_CHECK_OVERLAP")
)
STATE_VALUES = _place("TILEWRIGHT_BACKEND")[1]  # where ``state`` looks these up
_get = STATE_VALUES.get
