"""Which reductions of rows the backend gpu takes from triton."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from support.gpu_products import aligned

import tilewright as ct
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.kernel_classes import is_row_kernel, is_row_kernel_in_pieces
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


@ct.kernel
def in_pieces(x: ct.Array, out: ct.Array, T: ct.Constant[int]) -> None:
    total = ct.zeros((1, T), ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        total += ct.load(x, (ct.bid(0), j), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    mean = ct.sum(total, axis=1, keepdims=True) / x.shape[1]
    for j in range(ct.cdiv(x.shape[1], T)):
        ct.store(out, (ct.bid(0), j), (ct.load(x, (ct.bid(0), j), (1, T)).astype(ct.float32) - mean).astype(out.dtype))


@ct.kernel
def online(x: ct.Array, out: ct.Array, T: ct.Constant[int]) -> None:
    total = ct.zeros((1, 1), ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        total += ct.sum(ct.load(x, (ct.bid(0), j), (1, T)), axis=1, keepdims=True).astype(ct.float32)
    ct.store(out, (ct.bid(0), 0), total.astype(out.dtype))


def test_rows_in_pieces() -> None:
    def found(kernel: Any, size: int, columns: int = 4096, target: str = "sm_90") -> bool:
        arrays = tuple(aligned((4, columns), np.float16) for _ in range(2))
        return is_row_kernel_in_pieces(
            specialization(kernel, (*arrays, size), "reference").function, GpuBackend(target)
        )

    assert found(in_pieces, 256) and found(in_pieces, 1024) and not found(in_pieces, 2048) and not found(in_pieces, 128)
    assert (
        not found(online, 256) and not found(in_pieces, 256, columns=4097) and not found(in_pieces, 256, target="sm_80")
    )
    assert not found(ct.kernel(softmax), 1024, columns=1024)


def test_rows_that_are_taken() -> None:
    assert is_taken() and is_taken(dtype=ml_dtypes.bfloat16, columns=1000) and is_taken(dtype=np.float16)
    assert is_taken(columns=65536) and is_taken(dtype=np.float16, columns=131072)


def test_others_are_not() -> None:
    assert not is_taken(persistent) and not is_taken(scanned) and not is_taken(elementwise)
    assert not is_taken(columns=4097) and not is_taken(columns=256) and not is_taken(columns=262144)
    assert not is_taken(dtype=np.float64) and not is_taken(dtype=np.float16, columns=65536)
    assert not is_taken(target="sm_80") and not is_taken(occupancy=2)
