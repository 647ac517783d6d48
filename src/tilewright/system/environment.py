"""Environment variables: quickly read, and switches that are all written alike."""

from __future__ import annotations

import functools
import os
from typing import Any


class SettingError(ValueError):
    """A variable of the environment holds what it does not take."""


_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def variable(name: str) -> str | None:
    """``os.environ.get(name)``, several times as fast: that encodes the name and raises an exception inside."""
    key, values = place(name)
    found = values.get(key)
    return found if found is None or isinstance(found, str) else os.fsdecode(found)


@functools.cache
def place(name: str) -> tuple[Any, Any]:
    """A key for ``name``, and the mapping to look it up in."""
    values = getattr(os.environ, "_data", None)
    encode = getattr(os.environ, "encodekey", None)
    return (name, os.environ) if values is None or encode is None else (encode(name), values)


def switch(name: str) -> bool:
    """Whether the variable ``name`` switches something on; a missing or empty one does not.

    SettingError for other values than those of switches.
    """
    text = variable(name)
    return text is not None and _is_on(name, text)


@functools.cache
def _is_on(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word in _ON:
        return True
    if word and word not in _OFF:
        raise SettingError(f"{name}={text!r} is no switch; it takes {', '.join(_ON)} or {', '.join(_OFF)}")
    return False
