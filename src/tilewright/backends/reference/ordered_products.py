"""Sums of products in order along k, where LLVM is there: by machine code what NumPy needs three passes a step for.

Each sum is formed in double precision and rounded to float, as ``linear`` does it; nothing is fused or reordered.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from tilewright.backends.native import compiler, has_llvm
from tilewright.backends.native.templates import filled
from tilewright.backends.reference.values import Array

_WORTHWHILE = 1 << 15  # products: fewer take NumPy less time than the machine code takes to load


@functools.cache
def _function() -> Any:
    code = compiler().MachineCode(filled(__file__, "ordered_products.ll"))
    numbers = (ctypes.c_int64,) * 3
    function = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * 3, *numbers)(code.address("add"))
    return functools.partial(_call, function, code)  # the code must live


def _call(function: Any, _code: Any, total: Array, x: Array, y: Array) -> None:
    function(total.ctypes.data, x.ctypes.data, y.ctypes.data, *total.shape, x.shape[-1])


def add_products(total: Array, x: Array, y: Array) -> bool:
    """Add x @ y to ``total`` in place, all of float32 and the batch of ``total``'s; False where NumPy is to do it."""
    if total.size * x.shape[-1] < _WORTHWHILE or not has_llvm():
        return False
    batch = total.shape[:-2]
    if not batch:
        _function()(total, np.ascontiguousarray(x), np.ascontiguousarray(y))
        return True
    lefts, rights = (np.ascontiguousarray(np.broadcast_to(t, (*batch, *t.shape[-2:]))) for t in (x, y))
    for index in np.ndindex(batch):
        _function()(total[index], lefts[index], rights[index])
    return True
