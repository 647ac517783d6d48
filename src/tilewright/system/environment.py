"""Environment variables: quickly read, and switches that are all written alike."""

from __future__ import annotations

import difflib
import functools
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class SettingError(ValueError):
    """A variable of the environment holds what it does not take."""


_SWITCHES = ("BF16_DOT", "CHECK", "CHECK_OVERLAP", "DEBUG_INFO", "EXPLAIN", "PERF_MAP", "SHOW_IR", "VERIFY")
_LIMITS = ("CACHE_SIZE", "COMPILER_TIMEOUT", "NUM_THREADS")
_CHOICES = ("BACKEND", "CACHE_DIR", "PRINT_IR", "RECORD", "RUN", "TRACEBACK")
_PREFIX = "TILEWRIGHT_"
_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def variable(name: str) -> str | None:
    """``os.environ.get(name)``, several times as fast: that encodes the name and raises an exception inside."""
    key, values = lookup(name)
    found = values.get(key)
    return found if found is None or isinstance(found, str) else os.fsdecode(found)


@functools.cache
def lookup(name: str) -> tuple[Any, Any]:
    """A key for ``name``, and the mapping to look it up in."""
    values = getattr(os.environ, "_data", None)
    encode = getattr(os.environ, "encodekey", None)
    return (name, os.environ) if values is None or encode is None else (encode(name), values)


@contextmanager
def changed(values: Mapping[str, str]) -> Iterator[None]:
    """A context in which variables have these ``values``, also in processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def switch(name: str) -> bool:
    """Whether the variable ``name`` switches something on; a missing or empty one does not.

    SettingError for other values than those of switches.
    """
    text = variable(name)
    return text is not None and _is_on(name, text)


def number_of_threads() -> int | None:
    """What TILEWRIGHT_NUM_THREADS holds, or None. SettingError for what is no positive number."""
    text = variable("TILEWRIGHT_NUM_THREADS")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise SettingError(f"TILEWRIGHT_NUM_THREADS={text!r} is not a positive number")
    return int(text)


def compiler_timeout() -> float | None:
    """The seconds that TILEWRIGHT_COMPILER_TIMEOUT holds, or None. SettingError for what is no positive number."""
    text = variable("TILEWRIGHT_COMPILER_TIMEOUT")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise SettingError(f"TILEWRIGHT_COMPILER_TIMEOUT={text!r} is not a positive number of seconds")
    return seconds


def check_settings() -> None:
    """SettingError for the first of these variables that holds what it does not take, whether it is used or not."""
    for name in _SWITCHES:
        switch(_PREFIX + name)
    number_of_threads()
    compiler_timeout()
    traceback = variable("TILEWRIGHT_TRACEBACK")
    if traceback and traceback.strip().lower() not in ("short", "full"):
        raise SettingError(f"TILEWRIGHT_TRACEBACK={traceback!r} is neither 'short' nor 'full'")


def warn_of_misspelt() -> None:
    """Say on the standard error which variables look like misspelt ones of ours."""
    known = (*_SWITCHES, *_LIMITS, *_CHOICES)
    for spelt in sorted(os.environ):
        name = spelt.removeprefix(_PREFIX)
        if name == spelt or name in known or sys.stderr is None:
            continue
        close = difflib.get_close_matches(name, known, 1, 0.7)
        if close:
            sys.stderr.write(f"tilewright: nothing reads {spelt}; did you mean {_PREFIX}{close[0]}?\n")


@functools.cache
def _is_on(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word in _ON:
        return True
    if word and word not in _OFF:
        raise SettingError(f"{name}={text!r} is no switch; it takes {', '.join(_ON)} or {', '.join(_OFF)}")
    return False
