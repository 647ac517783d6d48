"""Loops with stores of what they carry compile."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from backends.triton.compiled_kernels import compiled

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")


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
