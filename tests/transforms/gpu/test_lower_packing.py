"""Pack and unpack as arithmetic give what the reference gives, for every dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend

import tilewright as ct

DTYPES = (
    *(np.int8, np.uint8, np.int16, np.uint32, np.int64, np.float16, np.float32, np.float64),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn),
)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes_of_elements_and_back(dtype: Any) -> None:
    kind = ct.float4_e2m1fn if dtype is ml_dtypes.float4_e2m1fn else None

    @ct.kernel
    def kernel(x: ct.Array, packed: ct.Array, back: ct.Array, N: ct.Constant[int]) -> None:
        bytes_ = ct.pack_to_bytes(ct.load(x, (0, 0), (2, N)))
        ct.store(packed, (0,), bytes_)
        ct.store(back, (0,), ct.unpack_from_bytes(bytes_, x.dtype if ct.static_eval(kind is None) else kind))

    bits = np.random.default_rng(3).integers(0, 256, 2 * 32 * np.dtype(dtype).itemsize).astype(np.uint8)
    x = (bits & 15 if kind else bits).view(dtype).reshape(2, -1)
    found = []
    with interpreter_backend(2) as gpu:
        for backend in ("reference", gpu):
            packed = np.zeros(x.nbytes // (2 if kind else 1), np.uint8)
            back = np.zeros(x.size, dtype)
            ct.launch(None, (1,), kernel, (x, packed, back, x.shape[1]), backend=backend)
            found.append((packed.tobytes(), back.tobytes()))
    assert found[0] == found[1]
    assert found[0][1] == x.tobytes()
