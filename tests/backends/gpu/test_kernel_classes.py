"""Which kernels the backend gpu takes from triton."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_products import aligned, matmul, persistent

import tilewright as ct
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.kernel_classes import is_persistent_product
from tilewright.runtime.launch import specialization

LARGE, SMALL = (128, 256, 64), (128, 128, 64)


def is_taken(
    kernel: Any = persistent, tile: tuple[int, ...] = LARGE, dtype: Any = np.float16, size: int = 512, **how: Any
) -> bool:
    arrays = tuple(aligned((size, size), dtype) for _ in range(2))
    out = aligned((size, size), np.float32 if np.dtype(dtype).itemsize == 1 else dtype)
    arguments = (*arrays, out, *tile, False, how.pop("right", False), ct.float32, False)
    made = ct.kernel(kernel, **how.pop("hints", {}))
    function = specialization(made, arguments, "reference").function
    return is_persistent_product(function, GpuBackend(how.pop("target", "sm_90")))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_persistent_products_are_taken(dtype: Any) -> None:
    assert is_taken(dtype=dtype) and is_taken(dtype=dtype, right=True, tile=(256, 128, 64))
    assert is_taken(dtype=dtype, hints={"num_ctas": 1})


def test_others_are_not() -> None:
    assert not is_taken(matmul)
    assert not is_taken(tile=SMALL)
    assert not is_taken(size=510)
    assert not is_taken(target="sm_80")
    assert not is_taken(dtype=ml_dtypes.float8_e4m3fn, right=True)
    assert not is_taken(hints={"occupancy": 2})
