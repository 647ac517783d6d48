"""Which reductions of rows the backend gpu takes from triton."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from support.gpu_products import aligned

import tilewright as ct
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.kernel_classes import is_row_kernel
from tilewright.runtime.launch import specialization


def softmax(x: ct.Array, out: ct.Array, T: ct.Constant[int]) -> None:
    values = ct.load(x, (ct.bid(0), 0), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
    values = ct.exp(values - ct.max(values, axis=1, keepdims=True))
    ct.store(out, (ct.bid(0), 0), (values / ct.sum(values, axis=1, keepdims=True)).astype(out.dtype))


def persistent(x: ct.Array, out: ct.Array, T: ct.Constant[int]) -> None:
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        values = ct.load(x, (row, 0), (1, T))
        ct.store(out, (row, 0), values / ct.sum(values))


def scanned(x: ct.Array, out: ct.Array, T: ct.Constant[int]) -> None:
    values = ct.load(x, (ct.bid(0), 0), (1, T))
    ct.store(out, (ct.bid(0), 0), ct.cumsum(values, axis=1) / ct.sum(values))


def elementwise(x: ct.Array, out: ct.Array, T: ct.Constant[int]) -> None:
    ct.store(out, (ct.bid(0), 0), ct.load(x, (ct.bid(0), 0), (1, T)) * 2)


def is_taken(
    kernel: Any = softmax, columns: int = 4096, dtype: Any = np.float32, target: str = "sm_90", **hints: Any
) -> bool:
    arrays = tuple(aligned((4, columns), dtype) for _ in range(2))
    tile = 1 << (columns - 1).bit_length()
    function = specialization(ct.kernel(kernel, **hints), (*arrays, tile), "reference").function
    return is_row_kernel(function, GpuBackend(target))


def test_rows_that_are_taken() -> None:
    assert is_taken() and is_taken(dtype=ml_dtypes.bfloat16, columns=1000) and is_taken(dtype=np.float16)
    assert is_taken(columns=65536) and is_taken(dtype=np.float16, columns=131072)


def test_others_are_not() -> None:
    assert not is_taken(persistent) and not is_taken(scanned) and not is_taken(elementwise)
    assert not is_taken(columns=4097) and not is_taken(columns=256) and not is_taken(columns=262144)
    assert not is_taken(dtype=np.float64) and not is_taken(dtype=np.float16, columns=65536)
    assert not is_taken(target="sm_80") and not is_taken(occupancy=2)
