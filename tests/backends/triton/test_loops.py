"""Loops in which products and loads of the TMA unit run ahead compile, and keep what they overlap."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from backends.triton.compiled_kernels import compiled, serialized, spills

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")

HALF, SINGLE = np.empty((512, 512), np.float16), np.empty((512, 512), np.float32)


@ct.kernel
def two_sums(a, b, c, WIDTH: ct.Constant[int]):
    for i in range(ct.bid(0), ct.cdiv(c.shape[0], 64), ct.num_blocks(0)):
        left, right = ct.zeros((64, 64), ct.float32), ct.zeros((64, WIDTH), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            x = ct.load(a, (i, k), (64, 64))
            left = ct.mma(x, ct.load(b, (k, 0), (64, 64)), left)
            right = ct.mma(x, ct.load(b, (k, 1), (64, WIDTH)), right)
        ct.store(c, (i, 0), left)
        ct.store(c, (i, 1), right)


@pytest.mark.parametrize("width", [64, 128])
def test_sums_of_two_products_stay_in_their_registers(width: int, tmp_path: Path) -> None:
    binary = compiled(two_sums, (HALF, HALF, SINGLE, width), "sm_90", num_warps=4, num_stages=3).binary
    text = binary.texts["TTGIR"]
    assert not re.search(r"arith\.select .* : tensor<64x\d+xf32", text)
    assert not serialized(binary.texts["PTX"], tmp_path)
    assert not spills(binary)


@ct.kernel
def one_of_two(a, b, c, flag, OTHERS: ct.Constant[int]):
    """Each branch has values of its own, of which there are more or fewer before those of the load."""
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.num_tiles(a, 1, (64, 64))):
        x = ct.load(a, (0, k), (64, 64))
        if (k + flag) % 3 == 0:
            total = ct.mma(x, ct.load(b, (k, 0), (64, 64)), total)
        else:
            y = x.astype(ct.float32)
            for n in ct.static_iter(range(OTHERS)):
                y = ct.transpose(y) + n
            total = total + ct.transpose(y)
    ct.store(c, (0, 0), total)


@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_load_of_one_branch_starts_before_it_beside_values_of_the_other(others: int) -> None:
    text = compiled(one_of_two, (HALF, HALF, SINGLE, 1, others), "sm_90").binary.texts["TTGIR"]
    assert "ttng.async_tma_copy_global_to_local" in text[: text.index("scf.if")]


@ct.kernel
def reversed_sums(x, out, CONVERTED: ct.Constant[bool]):
    """Those below 1 of the sums of rows of ``x`` go to ``out``, whose columns are in the reverse order."""
    rows, columns = ct.arange(128, dtype=ct.int32), 63 - ct.arange(64, dtype=ct.int32)
    sums = ct.zeros((128, 64), x.dtype)
    for k in range(ct.num_tiles(x, 0, (128, 64))):
        stored = sums.astype(ct.float32).astype(x.dtype) if CONVERTED else sums
        ct.scatter(out, (rows[:, None], columns), stored, mask=stored < 1)
        sums = sums + ct.load(x, (k, 0), (128, 64))


@pytest.mark.parametrize("element", [np.float16, np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("converted", [False, True])
def test_a_carried_tile_is_stored_where_it_says_so_itself(element: type, converted: bool) -> None:
    """Triton 3.6 can fail at it: "operand does not dominate this use"."""
    arguments = np.empty((512, 72), element), np.empty((512, 72), element), converted
    assert "st.global" in compiled(reversed_sums, arguments, "sm_90").binary.texts["PTX"]
