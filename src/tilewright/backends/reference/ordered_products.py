"""Sums of products in order along k, where LLVM is there: by machine code what NumPy needs three passes a step for.

Each sum is formed in double precision and rounded to float, as ``linear`` does it; nothing is fused or reordered.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from tilewright.backends.native import has_llvm, maker
from tilewright.backends.reference.values import Array

_WORTHWHILE = 1 << 15  # products: fewer take NumPy less time than the machine code takes to load
_LANES = 4
_SHAPE = f"<{_LANES} x float>"
_WIDE = f"<{_LANES} x double>"
_CODE = f"""
define void @add(ptr %total, ptr %x, ptr %y, i64 %m, i64 %n, i64 %count) {{
entry:
  %whole = and i64 %n, {-_LANES}
  %any = icmp ne i64 %whole, 0
  %left = icmp ne i64 %whole, %n
  br label %rows
rows:
  %i = phi i64 [ 0, %entry ], [ %i.next, %rows.end ]
  %first = mul i64 %i, %n
  %row = getelementptr float, ptr %total, i64 %first
  %factors = mul i64 %i, %count
  br label %steps
steps:
  %k = phi i64 [ 0, %rows ], [ %k.next, %steps.end ]
  %at = add i64 %factors, %k
  %factor.p = getelementptr float, ptr %x, i64 %at
  %factor.f = load float, ptr %factor.p
  %factor = fpext float %factor.f to double
  %one = insertelement {_WIDE} poison, double %factor, i32 0
  %each = shufflevector {_WIDE} %one, {_WIDE} poison, <{_LANES} x i32> zeroinitializer
  %line.at = mul i64 %k, %n
  %line = getelementptr float, ptr %y, i64 %line.at
  br i1 %any, label %vectors, label %rest
vectors:
  %j = phi i64 [ 0, %steps ], [ %j.next, %vectors ]
  %other.p = getelementptr float, ptr %line, i64 %j
  %other.f = load {_SHAPE}, ptr %other.p, align 4
  %other = fpext {_SHAPE} %other.f to {_WIDE}
  %sum.p = getelementptr float, ptr %row, i64 %j
  %sum.f = load {_SHAPE}, ptr %sum.p, align 4
  %sum = fpext {_SHAPE} %sum.f to {_WIDE}
  %product = fmul {_WIDE} %each, %other
  %more = fadd {_WIDE} %sum, %product
  %rounded = fptrunc {_WIDE} %more to {_SHAPE}
  store {_SHAPE} %rounded, ptr %sum.p, align 4
  %j.next = add i64 %j, {_LANES}
  %j.more = icmp ult i64 %j.next, %whole
  br i1 %j.more, label %vectors, label %rest
rest:
  br i1 %left, label %scalars, label %steps.end
scalars:
  %s = phi i64 [ %whole, %rest ], [ %s.next, %scalars ]
  %s.other.p = getelementptr float, ptr %line, i64 %s
  %s.other.f = load float, ptr %s.other.p
  %s.other = fpext float %s.other.f to double
  %s.sum.p = getelementptr float, ptr %row, i64 %s
  %s.sum.f = load float, ptr %s.sum.p
  %s.sum = fpext float %s.sum.f to double
  %s.product = fmul double %factor, %s.other
  %s.total = fadd double %s.sum, %s.product
  %s.rounded = fptrunc double %s.total to float
  store float %s.rounded, ptr %s.sum.p
  %s.next = add i64 %s, 1
  %s.more = icmp ult i64 %s.next, %n
  br i1 %s.more, label %scalars, label %steps.end
steps.end:
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %count
  br i1 %k.more, label %steps, label %rows.end
rows.end:
  %i.next = add i64 %i, 1
  %i.more = icmp ult i64 %i.next, %m
  br i1 %i.more, label %rows, label %end
end:
  ret void
}}
"""


@functools.cache
def _function() -> Any:
    code = maker().MachineCode(_CODE)
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
