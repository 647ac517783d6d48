"""Atomics of many elements have one fence before all, and one after if anybody reads what they return."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.runtime.launch import specialization


def counting(order: ct.MemoryOrder) -> ct.kernel:
    @ct.kernel
    def counted(x, out, old, READ: ct.Constant[bool], T: ct.Constant[int]):
        before = ct.atomic_add(out, ct.load(x, (ct.bid(0),), (T,)), 1, memory_order=order)
        if READ:
            ct.store(old, (ct.bid(0),), before)

    return counted


def arrays() -> list[np.ndarray]:
    x = (np.arange(512) * 37 % 61).astype(np.int32)  # some are outside, where nothing is
    return [x, np.zeros(50, np.int32), np.zeros_like(x)]


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("order", [ct.MemoryOrder.ACQ_REL, ct.MemoryOrder.RELEASE, ct.MemoryOrder.RELAXED])
def test_sums_are_the_reference_s(order: ct.MemoryOrder, read: bool) -> None:
    found = [arrays(), arrays()]
    with ptx_backend(1, "sm_90") as ptx:
        for backend, given in zip((ptx, "reference"), found):
            ct.launch(None, (4,), counting(order), (*given, read, 128), backend=backend)
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert found[0][1].sum() == (found[0][0] < 50).sum()


@pytest.mark.parametrize(
    ("order", "read", "columns", "expected"),
    [
        (ct.MemoryOrder.ACQ_REL, True, 128, ["fence", "atom.relaxed", "fence"]),
        (ct.MemoryOrder.ACQ_REL, False, 128, ["fence", "red.relaxed"]),
        (ct.MemoryOrder.ACQUIRE, True, 128, ["atom.relaxed", "fence"]),
        (ct.MemoryOrder.ACQUIRE, False, 128, ["red.relaxed"]),
        (ct.MemoryOrder.RELEASE, True, 128, ["fence", "atom.relaxed"]),
        (ct.MemoryOrder.RELAXED, True, 128, ["atom.relaxed"]),
        (ct.MemoryOrder.ACQ_REL, True, 32, ["atom.acq_rel"]),
        (ct.MemoryOrder.ACQ_REL, False, 32, ["fence", "red.relaxed"]),
    ],
)
def test_fences(order: ct.MemoryOrder, read: bool, columns: int, expected: list[str]) -> None:
    """A thread has four elements, or one."""
    function = specialization(counting(order), (*arrays(), read, columns), "reference").function
    ptx = compile_to_ptx(function, "sm_90", 1).ptx
    found = re.findall(r"(fence|atom|red)\.(\w+)", ptx)
    names = [a if a == "fence" else f"{a}.{b}" for a, b in found]
    assert [name for name, before in zip(names, ["", *names]) if name != before] == expected


@ct.kernel
def added(rows, x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    at = ct.gather(rows, i), ct.arange(T, dtype=ct.int32)
    ct.atomic_add(out, at, ct.load(x, (i, 0), (1, T)).reshape((T,)))


@pytest.mark.parametrize(
    ("dtype", "columns", "target", "instruction"),
    [
        (np.float32, 256, "sm_90", "red.relaxed.gpu.global.add.v4.f32"),
        (np.float16, 256, "sm_90", "red.relaxed.gpu.global.add.noftz.v4.f16x2"),
        (np.float16, 250, "sm_90", "red.relaxed.gpu.global.add.noftz.f16"),
        (np.float32, 256, "sm_80", "red.relaxed.gpu.global.add.f32"),
        (np.int32, 256, "sm_90", "red.relaxed.gpu.global.add.u32"),
    ],
)
def test_floats_side_by_side(dtype: type, columns: int, target: str, instruction: str) -> None:
    rng = np.random.default_rng(2)
    rows, x = np.int32([3, 1, 1, 5]), rng.integers(-9, 9, (4, columns)).astype(dtype)
    found = [np.ones((8, columns), dtype) for _ in range(2)]
    with ptx_backend(1, target) as ptx:
        for backend, out in zip((ptx, "reference"), found):
            ct.launch(None, (4,), added, (rows, x, out, 256), backend=backend)
    np.testing.assert_array_equal(*found)
    function = specialization(added, (rows, x, found[0], 256), "reference").function
    assert f"{instruction} [" in compile_to_ptx(function, target, 1).ptx
