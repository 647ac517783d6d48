"""Loops of products that follow each other run the last one an iteration late, and do the same."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_attention import to_first_keys
from support.irbuild import run

import tilewright as ct
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.rewrite import clone_function
from tilewright.ir.verifier import verify
from tilewright.runtime.launch import specialization
from tilewright.runtime.launchable import Launchable
from tilewright.transforms.gpu.rotated_loops import rotate
from tilewright.transforms.pipelines import optimize


@ct.kernel
def stepping(a, b, c, out, T: ct.Constant[int]):
    """Loads by a carried index: no load can run ahead."""
    x = ct.load(a, (0, 0), (T, T))
    total, at = ct.zeros((T, T), ct.float32), 0
    for _ in range(b.shape[0]):
        y = ct.mma(x, ct.load(b, (at, 0), (T, T)), ct.zeros((T, T), ct.float32))
        total = ct.mma(y.astype(a.dtype), ct.load(c, (at, 0), (T, T)), total)
        at = (at * 3 + 1) % b.shape[0]
    ct.store(out, (0, 0), total.astype(out.dtype))


@ct.kernel
def same_tile(a, b, out, T: ct.Constant[int]):
    """Both products read one tile."""
    x = ct.load(a, (0, 0), (T, T))
    total = ct.zeros((T, T), ct.float32)
    for j in range(b.shape[0]):
        y = ct.load(b, (j, 0), (T, T))
        total = ct.mma(ct.mma(x, y, ct.zeros((T, T), ct.float32)).astype(a.dtype), y, total)
    ct.store(out, (0, 0), total.astype(out.dtype))


@ct.kernel
def listed(q, k, v, tiles, counts, out, T: ct.Constant[int]):
    """Attention to the tiles of a list, whose numbers are loaded as tiles of one element."""
    i = ct.bid(0)
    queries = ct.load(q, (i, 0), (T, T))
    most, total = ct.full((T, 1), -1e30, ct.float32), ct.zeros((T, T), ct.float32)
    for n in range(ct.load(counts, (i,), (1,)).item()):
        j = ct.load(tiles, (i, n), (1, 1)).item()
        scores = ct.mma(queries, ct.transpose(ct.load(k, (j, 0), (T, T))), ct.zeros((T, T), ct.float32))
        new = max(most, ct.max(scores, axis=1, keepdims=True))
        weights = ct.exp2(scores - new)
        total = ct.mma(weights.astype(q.dtype), ct.load(v, (j, 0), (T, T)), total * ct.exp2(most - new))
        most = new
    ct.store(out, (i, 0), total)


HALF = np.zeros((256, 128), ml_dtypes.bfloat16)


def optimized(kernel: Launchable, *args: Any) -> Function:
    return optimize(specialization(kernel, args, "reference").function)


def turned(function: Function) -> Function:
    made = clone_function(function)
    return made if rotate(made, [op for op in made.walk() if isinstance(op, For)]) else function


@pytest.mark.parametrize("keys", [0, 1, 128, 129, 300])
def test_a_rotated_loop_does_the_same(keys: int) -> None:
    rng = np.random.default_rng(keys)
    q, k, v = (rng.standard_normal((n, 128)).astype(ml_dtypes.bfloat16) for n in (64, 300, 300))
    function = optimized(to_first_keys, q, k, v, q, 0.1, keys, 128, 64, 128)
    late = turned(function)
    assert late is not function
    verify(late)
    out = np.full((2, 64, 128), np.nan, ml_dtypes.bfloat16)
    for form, result in zip((function, late), out):
        run(REFERENCE, form, (1,), q=q, k=k, v=v, out=result, scale=np.float32(0.1), keys=keys)
    np.testing.assert_array_equal(out[0], out[1])
    assert np.isfinite(out.astype(np.float32)).all()


def test_numbers_of_tiles_are_loaded_for_both() -> None:
    rng = np.random.default_rng(1)
    q, k, v = ((rng.standard_normal((n, 32)) / 4).astype(ml_dtypes.bfloat16) for n in (96, 128, 128))
    tiles, counts = rng.integers(0, 4, (3, 4)).astype(np.int32), np.array([4, 0, 1], np.int32)
    out = np.full((2, 96, 32), np.nan, np.float32)
    function = optimized(listed, q, k, v, tiles, counts, out[0], 32)
    late = turned(function)
    assert late is not function
    verify(late)
    for form, result in zip((function, late), out):
        run(REFERENCE, form, (3,), q=q, k=k, v=v, tiles=tiles, counts=counts, out=result)
    np.testing.assert_array_equal(out[0], out[1])
    assert np.isfinite(out).all()


@pytest.mark.parametrize("kernel", [stepping, same_tile])
def test_what_is_not_rotated(kernel: Launchable) -> None:
    function = optimized(kernel, *[HALF] * (4 if kernel is stepping else 3), 128)
    assert turned(function) is function
