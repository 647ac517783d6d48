"""Loops without MMA ops are Triton's own to pipeline, and keep the order of what they load and store."""

from __future__ import annotations

import re

import numpy as np
import pytest
from backends.triton.compiled_kernels import compiled

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")

ROWS, LINE = np.empty((512, 1024), np.float16), np.empty(4096, np.float32)


@ct.kernel
def scaled(x, out, N: ct.Constant[int]):
    for i in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        row = ct.load(x, (i, 0), (1, N), latency=10).astype(ct.float32)
        ct.store(out, (i, 0), (row / ct.sum(row)).astype(out.dtype))


@ct.kernel
def copied_first(x, y, out, n, OTHER: ct.Constant[bool]):
    """What is stored before the loop, by threads in another order, is loaded in it, or not."""
    ct.scatter(y, 1023 - ct.arange(1024, dtype=ct.int32), ct.load(x, (0,), (1024,)))
    found = ct.zeros((1024,), ct.float32)
    for i in range(n):
        found = found * 0.5 + ct.load(x if OTHER else y, (i,), (1024,))
    ct.store(out, (0,), found)


@ct.kernel
def overlapping(x, out, n, T: ct.Constant[int]):
    """The rows of the result overlap."""
    for i in range(n):
        ct.scatter(out, i * 32 + (T - 1 - ct.arange(T, dtype=ct.int32)), ct.load(x, (i, 0), (1, T)).reshape((T,)))


@pytest.mark.parametrize("other", [False, True])
def test_what_is_stored_before_a_loop_is_waited_for_before_it(other: bool) -> None:
    text = compiled(copied_first, (LINE, LINE.copy(), LINE.copy(), 4, other), "sm_90").binary.texts["TTIR"]
    before, inside = text.split("scf.for", 1)
    body = inside[: inside.index("scf.yield")]
    assert ("gpu.barrier" in before[before.index("tt.store") :]) == (not other)
    assert "tt.load" in body and "gpu.barrier" not in body and "bar.sync" not in body


def test_stores_of_two_iterations_stay_in_order() -> None:
    """A barrier is between them in the machine's form."""
    texts = compiled(overlapping, (ROWS, np.empty(1 << 16, np.float16), 4, 1024), "sm_90").binary.texts
    ptx = re.sub(r"//.*", "", texts["PTX"])
    labels = [m.start() for m in re.finditer(r"^\$L__BB0_\d+:", ptx, re.MULTILINE)]
    (back,) = [m for m in re.finditer(r"bra\s+(\$L__BB0_\d+);", ptx) if ptx.index(f"\n{m[1]}:") < m.start()]
    loop = ptx[ptx.index(f"\n{back[1]}:") : back.end()]
    assert labels and "st.global" in loop
    assert re.search(r"bar\.sync\s+0;[\s\S]*st\.global", loop)


def test_hints_of_latency_have_no_effect() -> None:
    texts = compiled(scaled, (ROWS, ROWS, 1024), "sm_90").binary.texts
    assert "tt.num_stages" not in texts["TTIR"]
    assert "ignored hints: latency\n" in texts["compile decisions"]
