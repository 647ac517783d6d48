"""Which kernels the backend gpu takes from triton."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_products import aligned, matmul, persistent

import tilewright as ct
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.kernel_classes import is_large_product, is_persistent_product
from tilewright.runtime.launch import specialization

LARGE, WIDE, NARROW = (128, 256, 64), (128, 128, 64), (128, 64, 64)


def classes(
    kernel: Any = persistent, tile: tuple[int, ...] = LARGE, dtype: Any = np.float16, size: int = 512, **how: Any
) -> list[str]:
    arrays = tuple(aligned((size, size), dtype) for _ in range(2))
    out = aligned((size, size), np.float32 if np.dtype(dtype).itemsize == 1 else dtype)
    arguments = (*arrays, out, *tile, False, how.pop("right", False), ct.float32, False)
    made = ct.kernel(kernel, **how.pop("hints", {}))
    function = specialization(made, arguments, "reference").function
    backend = GpuBackend(how.pop("target", "sm_90"))
    found = {"large": is_large_product(function, backend), "persistent": is_persistent_product(function, backend)}
    return [name for name, holds in found.items() if holds]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_products_that_are_taken(dtype: Any) -> None:
    assert classes(dtype=dtype) == ["large", "persistent"]
    assert classes(dtype=dtype, right=True, tile=(256, 128, 64), hints={"num_ctas": 1}) == ["large", "persistent"]
    assert classes(matmul, dtype=dtype) == ["large"]
    assert classes(dtype=dtype, tile=WIDE) == ["persistent"]


def test_others_are_not() -> None:
    assert not classes(matmul, tile=WIDE)
    assert not classes(tile=NARROW)
    assert not classes(size=510)
    assert not classes(target="sm_80")
    assert not classes(dtype=ml_dtypes.float8_e4m3fn, right=True)
    assert not classes(hints={"occupancy": 2})
    assert not classes(hints={"num_ctas": 2})
