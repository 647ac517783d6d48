"""Rows that are divided among the CTAs of a cluster: because they are long, and because few blocks run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.cuda import DeviceArray
from support.row_kernels import DIVIDED, centered, of_squares, online, ordered, persistent, several

import tilewright as ct


@pytest.mark.parametrize(("rows", "columns"), [(66, 40000), (6, 131072), (2, 128256), (6, 16000)])
@pytest.mark.parametrize("kernel", DIVIDED, ids=lambda k: k.__name__)
def test_same_as_the_reference(kernel: Any, rows: int, columns: int) -> None:
    made, length = ct.kernel(kernel), 1 << (columns - 1).bit_length()
    x = np.random.default_rng(columns).standard_normal((rows, columns)).astype(np.float32)
    x[:, [7, 4711]] = x.max() + 1
    blocks = rows // 2 if kernel is several else min(rows, 5) if kernel in (persistent, centered) else rows
    wanted, given = np.zeros_like(x), DeviceArray.of(x)
    if kernel is ordered:  # the reference would take long
        wanted = x + (np.array([row[row >= 0][-1:] for row in x]) if columns == length else 0)  # or the padding
    else:
        ct.launch(None, (blocks,), made, (x, wanted, length), backend="reference")
    for _ in range(7):  # by Python, and by machine code
        out = DeviceArray(x.shape, np.float32)
        ct.launch(None, (blocks,), made, (given, out, length))
        np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [3, 200])  # few blocks, and rows that CTAs keep
@pytest.mark.parametrize("kernel", [online, of_squares], ids=lambda k: k.__name__)
def test_in_steps(kernel: Any, rows: int) -> None:
    """Rows of one step, of two and so on have variants of their own; the last ones have too many."""
    made, random = ct.kernel(kernel), np.random.default_rng(rows)
    cases = []
    for columns in (700, 4096, 4097, 9000, 65536, 100000, 135000):
        x = random.standard_normal((rows, columns)).astype(np.float32)
        exponentials = np.exp(x - x.max(1, keepdims=True))
        softmax, norm = exponentials / exponentials.sum(1, keepdims=True), x / np.sqrt((x * x).sum(1, keepdims=True))
        cases.append((DeviceArray.of(x), softmax if kernel is online else norm))
    for _ in range(7):  # by Python, and by machine code
        for given, wanted in cases:
            out = DeviceArray(wanted.shape, np.float32)
            ct.launch(None, (rows,), made, (given, out, 4096))
            np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-4, atol=1e-6)
