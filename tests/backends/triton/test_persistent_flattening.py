"""Flattened loops do what the nests did; the reference backend runs both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.irbuild import run

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.ir.core import Function
from tilewright.ir.verifier import verify
from tilewright.runtime.launch import specialization
from tilewright.runtime.launchable import Launchable
from tilewright.transforms.gpu.persistent_flattening import FlattenPersistentLoops
from tilewright.transforms.pipelines import optimize

HOPPER = parse_target("sm_90")


@ct.kernel
def product(a, b, bias, c, first, step, TILE: ct.Constant[int]):
    """Every ``step``-th part of K from ``first`` on, and a bias where the column is even."""
    columns = ct.cdiv(c.shape[1], TILE)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], TILE) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        even = j % 2 == 0
        total = ct.zeros((TILE, TILE), ct.float32)
        for k in range(first, ct.cdiv(a.shape[1], 16), step):
            x = ct.load(a, (i, k), (TILE, 16), padding_mode=ct.PaddingMode.ZERO)
            y = ct.load(b, (k, j), (16, TILE), padding_mode=ct.PaddingMode.ZERO)
            if a.dtype == ct.float32:
                x, y = x.astype(ct.tfloat32), y.astype(ct.tfloat32)
            total = ct.mma(x, y, total)
        if even:
            total = total + ct.load(bias, (j,), (TILE,), padding_mode=ct.PaddingMode.ZERO)[None, :]
        ct.store(c, (i, j), total)


@ct.kernel
def in_place(a, b, c):
    """The next tile may read what this one stored."""
    for i in range(ct.bid(0), 4, ct.num_blocks(0)):
        total = ct.zeros((64, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
        ct.store(a, (i, 0), total.astype(a.dtype))


@ct.kernel
def carrying(a, b, c):
    """The loop over tiles has a result."""
    last = ct.zeros((64, 64), ct.float32)
    for i in range(4):
        total = ct.zeros((64, 64), ct.float32)
        for k in range(2):
            total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
        ct.store(c, (i, 0), total + last)
        last = total


def optimized(kernel: Launchable, *args: Any) -> Function:
    return optimize(specialization(kernel, args, "reference").function)


def flattened(function: Function) -> Function:
    return FlattenPersistentLoops(HOPPER, realign=True).run(function)


@pytest.mark.parametrize(
    ("depth", "first", "step", "blocks"), [(80, 0, 1, 4), (80, 1, 3, 3), (64, 7, 1, 2), (32, 0, 1, 20)]
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_same_result(depth: int, first: int, step: int, blocks: int, dtype: Any) -> None:
    """Products of float32 that lie along their rows stay a nest: one operand goes through registers."""
    rng = np.random.default_rng(depth)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((96, depth), (depth, 160)))
    values: dict[str, Any] = {"a": a, "b": b, "bias": rng.integers(-4, 5, 160).astype(np.float32)}
    values |= {"first": first, "step": step}
    out = np.full((2, 96, 160), np.nan, np.float32)
    function = optimized(product, a, b, values["bias"], out[0], first, step, 64)
    flat = flattened(function)
    assert (flat is function) == (dtype is np.float32)
    verify(flat)
    for form, c in zip((function, flat), out):
        run(REFERENCE, form, (blocks,), c=c, **values)
    np.testing.assert_array_equal(out[0], out[1])
    assert np.isfinite(out).all()


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 7, 20])
def test_the_same_result_of_tiles_that_leave_arrays(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((200, 40), (40, 168)))
    bias, c = rng.integers(-4, 5, 168).astype(np.float32), np.full((200, 168), np.nan, np.float32)
    function = optimized(product, a, b, bias, c, 0, 1, 64)
    flat = flattened(function)
    verify(flat)
    run(REFERENCE, flat, (blocks,), a=a, b=b, bias=bias, c=c, first=0, step=1)
    expected = a.astype(np.float32) @ b + np.where(np.arange(168) // 64 % 2 == 0, bias, 0)
    np.testing.assert_array_equal(c, expected)


@ct.kernel
def gated(a, b, c):
    """A loop has two products."""
    for i in range(ct.bid(0), 4, ct.num_blocks(0)):
        one = two = ct.zeros((64, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            x = ct.load(a, (i, k), (64, 64))
            one = ct.mma(x, ct.load(b, (k, 0), (64, 64)), one)
            two = ct.mma(x, ct.load(b, (k, 1), (64, 64)), two)
        ct.store(c, (i, 0), one * two)


@pytest.mark.parametrize("kernel", [in_place, carrying, gated])
def test_what_stays_a_nest(kernel: Launchable) -> None:
    a = np.zeros((256, 128), np.float16)
    function = optimized(kernel, a, a.copy(), np.zeros((256, 256), np.float32))
    assert flattened(function) is function
