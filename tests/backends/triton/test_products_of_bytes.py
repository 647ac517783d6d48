"""Products of 8-bit numbers on Hopper."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from backends.triton.compiled_kernels import compiled, product_of_transposed

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")


@pytest.mark.parametrize(
    ("k", "along", "most"), [(32, 1, "32"), (64, 1, "64"), (128, 1, "128"), (256, 1, "128"), (32, 0, "")]
)
def test_sums_of_products_of_8_bits(k: int, along: bool, most: str) -> None:
    """Hopper's tensor cores add up no more of them than these before they go to float32; and none that they
    cannot read from shared memory."""
    a, c = np.zeros((256, 256), ml_dtypes.float8_e4m3fn), np.zeros((256, 256), np.float32)
    texts = compiled(product_of_transposed, (a, a, c, k, bool(along), False), "sm_90").binary.texts
    kinds = set(re.findall(r"wgmma\.mma_async\S+\.f32\.(\w+)\.", texts["PTX"]))
    assert kinds == ({"e4m3"} if along else set())
    assert re.findall(r"maxNumImpreciseAcc = (\d+)", texts["TTIR"]) == ([most] if along else [])


@ct.kernel
def products_of_integers(a, b, c):
    for k in range(ct.cdiv(a.shape[1], 128)):
        x, y = ct.load(a, (0, k), (128, 128)), ct.load(b, (k, 0), (128, 128), order="F")
        ct.store(c, (k, 0), ct.mma(x, y, ct.zeros((128, 128), ct.int32)))


@pytest.mark.parametrize("stages", [1, 3])
def test_products_of_integers_that_are_used_at_once_are_waited_for(stages: int) -> None:
    a, c = np.zeros((256, 1024), np.int8), np.zeros((2048, 256), np.int32)
    texts = compiled(products_of_integers, (a, a, c), "sm_90", num_stages=stages).binary.texts["TTGIR"]
    assert set(re.findall(r"pendings = (\d) : i32\} : tensor", texts)) == {"0"}
