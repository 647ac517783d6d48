"""The fields of NumPy arrays, soon read: every launch asks for them, and ``__array_interface__`` builds a dict."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

_HEAD = object.__basicsize__


class Fields(ctypes.Structure):
    """PyArrayObject_fields after the fields of every object: in CPython part of NumPy's binary interface, which
    compiled extensions rely on."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("rank", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


WRITEABLE = 0x400  # a flag
_field_at = ctypes.c_void_p.from_address


def offset(field: str) -> int:
    """Where in an array object ``field`` is."""
    return _HEAD + int(getattr(Fields, field).offset)


def _read_field(array: np.ndarray[Any, Any]) -> int:
    return _field_at(id(array) + _HEAD).value or 0


def _ask(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _is_known(array: np.ndarray[Any, Any]) -> bool:
    fields = Fields.from_address(id(array) + _HEAD)
    rank = fields.rank
    return (
        (fields.address, rank, fields.dtype) == (_ask(array), array.ndim, id(array.dtype))
        and (tuple(fields.shape[:rank]), tuple(fields.strides[:rank])) == (array.shape, array.strides)
        and bool(fields.flags & WRITEABLE) == array.flags.writeable
    )


def _samples() -> list[np.ndarray[Any, Any]]:
    base = np.arange(12)
    read_only = base[3:]
    read_only.flags.writeable = False
    return [base, read_only, base[::-2], base.reshape(3, 4).T, base.view(np.float64).reshape(2, 3, 2)]


FIELDS_ARE_KNOWN = sys.implementation.name == "cpython" and all(map(_is_known, _samples()))
address_of = _read_field if FIELDS_ARE_KNOWN else _ask
