"""The online softmax of a loop is that of each thread until the loop has ended; what it gives is the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import Barrier
from tilewright.ir.ops.gpu.tiles import Shuffle
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.pipelines import optimize

T = 128


@ct.kernel
def log_sums(x, out, first: ct.Constant[float]):
    row = ct.bid(0)
    top = ct.full((1, 1), first, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
        new_top = ct.maximum(top, ct.max(values, axis=1, keepdims=True))
        total = total * ct.exp(top - new_top) + ct.sum(ct.exp(values - new_top), axis=1, keepdims=True)
        top = new_top
    ct.store(out, (row, 0), top)
    ct.store(out, (row, 1), total)


@ct.kernel
def seen_sums(x, out):
    """Each sum on the way is stored."""
    row = ct.bid(0)
    top = ct.full((1, 1), -math.inf, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
        new_top = ct.maximum(top, ct.max(values, axis=1, keepdims=True))
        total = total * ct.exp(top - new_top) + ct.sum(ct.exp(values - new_top), axis=1, keepdims=True)
        ct.store(out, (row, j), new_top)
        top = new_top
    ct.store(out, (row, 0), total)


@ct.kernel
def masked_sums(x, out):
    """The maximum is that of some of the numbers that are summed up."""
    row = ct.bid(0)
    top = ct.full((1, 1), -math.inf, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
        some = ct.where(ct.arange(T, dtype=ct.int32)[None, :] == 0, values, -math.inf)
        new_top = ct.maximum(top, ct.max(some, axis=1, keepdims=True))
        total = total * ct.exp(top - new_top) + ct.sum(ct.exp(values - new_top), axis=1, keepdims=True)
        top = new_top
    ct.store(out, (row, 0), top)
    ct.store(out, (row, 1), total)


def exchanges(kernel: ct.Kernel, *arguments: object) -> int:
    """How often threads exchange something in an iteration."""
    made = lower_to_gpu(optimize(specialization(kernel, arguments, "reference").function), 2)
    (loop,) = made.ops_of(For)
    return sum(isinstance(op, (Barrier, Shuffle)) for op in loop.walk())


def rows(columns: int) -> np.ndarray:
    """Also with the largest numbers in few threads, with -inf in all, in the first tile, or in a whole row, and NaN."""
    x = np.random.default_rng(columns).standard_normal((8, columns)).astype(np.float32) * 20
    x[1, :-1] = -np.inf
    x[2] = -np.inf
    x[3, :T] = -np.inf
    x[4, ::3] = -np.inf
    x[5, -1], x[6, 0] = np.nan, np.inf
    x[7] = np.finfo(np.float32).min
    return x


@pytest.mark.parametrize("columns", [1, 100, 128, 300, 640])
@pytest.mark.parametrize("first", [-math.inf, -3.0])
def test_as_the_reference(columns: int, first: float) -> None:
    x = rows(columns)
    found = [np.zeros((len(x), 2), np.float32) for _ in range(2)]
    with ptx_backend(2, "sm_90") as ptx:
        for backend, out in zip((ptx, "reference"), found):
            ct.launch(None, (len(x),), log_sums, (x, out, first), backend=backend)
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_without_columns() -> None:
    x, out = np.zeros((2, 0), np.float32), np.ones((2, 2), np.float32)
    with ptx_backend(1, "sm_90") as ptx:
        ct.launch(None, (2,), log_sums, (x, out, -math.inf), backend=ptx)
    assert (out == [-np.inf, 0]).all()


def test_threads_wait_for_nobody_in_the_loop() -> None:
    x, out = rows(640), np.zeros((8, 5), np.float32)
    assert exchanges(log_sums, x, out, -math.inf) == 0
    assert exchanges(seen_sums, x, out) > 0
    assert exchanges(masked_sums, x, out) > 0
