"""Environment variables that are read at every launch."""

from __future__ import annotations

from typing import Any

from tilewright.system.environment import lookup


def state() -> tuple[Any, Any, Any]:
    """The variables of launches as the environment holds them: equal ones mean that none has changed."""
    return _get(_BACKEND), _get(_CHECK), _get(_CHECK_OVERLAP)


STATE_KEYS = _BACKEND, _CHECK, _CHECK_OVERLAP = tuple(
    lookup(name)[0] for name in ("TILEWRIGHT_BACKEND", "TILEWRIGHT_CHECK", "TILEWRIGHT_CHECK_OVERLAP")
)
STATE_VALUES = lookup("TILEWRIGHT_BACKEND")[1]  # where ``state`` looks these up
_get = STATE_VALUES.get
