"""The address of a NumPy array, soon told: every launch asks for it, and ``__array_interface__`` builds a dict."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

# In CPython an array object starts with the fields of every object, then the address of element 0: part of NumPy's
# binary interface, which compiled extensions rely on.
_FIELD = object.__basicsize__
_field_at = ctypes.c_void_p.from_address


def _read_field(array: np.ndarray[Any, Any]) -> int:
    return _field_at(id(array) + _FIELD).value or 0


def _ask(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _field_is_there() -> bool:
    base = np.arange(7)
    return sys.implementation.name == "cpython" and all(_read_field(a) == _ask(a) for a in (base, base[3:], base[::-2]))


address_of = _read_field if _field_is_there() else _ask
