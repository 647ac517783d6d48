"""Dtypes of other libraries as ours, and those of pointers."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewright.ir.dtypes import ALL_DTYPES, DType
from tilewright.ir.types import PointerType
from tilewright.language.functions import evaluate

__all__ = ["foreign_pointer_dtype"]

_TORCH_NAMES = {
    "bool": "bool_",
    **{
        d.name: d.name
        for d in ALL_DTYPES
        if d.name not in ("bool_", "tfloat32", "float8_e8m0fnu", "float8_e5m3fnu", "float4_e2m1fn")
    },
    "float8_e8m0fnu": "float8_e8m0fnu",
}
DType.convert = staticmethod(lambda dtype, *values: evaluate(dtype, values, {}))
# tf32 and e5m3fnu share their storage with another dtype.
_BY_STORAGE = {d.storage: d for d in ALL_DTYPES if d.short not in ("tf32", "f8e5m3fnu")}
_BY_NAME = {d.name: d for d in ALL_DTYPES}


def to_dtype(value: Any) -> DType | None:
    """``value`` as a dtype: ours, a NumPy dtype or scalar type, ml_dtypes or torch; None for anything else."""
    if isinstance(value, DType):
        return value
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        dtype = np.dtype(value)
        return None if dtype.kind == "T" else _BY_STORAGE.get(dtype.newbyteorder("="))  # text has no byte order
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.dtype):
        return _BY_NAME.get(_TORCH_NAMES.get(str(value).removeprefix("torch."), ""))
    if isinstance(value, type) and value.__module__.startswith("ml_dtypes"):
        return _BY_STORAGE.get(np.dtype(value))
    return None


def foreign_pointer_dtype(pointee_dtype: Any) -> PointerType:
    """The dtype of opaque pointers to elements of ``pointee_dtype``, which is what ``Array.foreign_pointer`` has.

    TypeError when ``pointee_dtype`` is no dtype, or itself one of pointers. Source: behaviour of `cuda.tile` 1.7.

    >>> ct.foreign_pointer_dtype(ct.float32) == ct.foreign_pointer_dtype(np.float32)
    True
    """
    pointee = to_dtype(pointee_dtype)
    if pointee is None:
        raise TypeError(f"foreign_pointer_dtype() needs the dtype of what is pointed to, not {pointee_dtype!r}")
    return PointerType(pointee)
