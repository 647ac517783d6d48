"""The places of extremes: the first of equal ones, and NaN as the reference has it."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.ops.arith import Cmp
from tilewright.ir.ops.gpu.memory import GlobalLoad
from tilewright.ir.ops.gpu.tiles import ThreadReduce
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.pipelines import optimize


@ct.kernel
def places(x, most, least, AXIS: ct.Constant[int], M: ct.Constant[int], N: ct.Constant[int]):
    tile = ct.load(x, (0, 0), (M, N))
    ct.store(most, (0,), ct.argmax(tile, axis=AXIS))
    ct.store(least, (0,), ct.argmin(tile, axis=AXIS))


def earlier(a, i, b, j):
    takes = (a > b) | ((a == b) & (i < j))
    return ct.where(takes, a, b), ct.where(takes, i, j)


@ct.kernel
def smallest_index(x, out, start, bits: ct.Constant[int]):
    """The smallest index of the largest element, of indices that begin with ``start``."""
    indices = (ct.arange(512, dtype=ct.int32) + start).astype(ct.int8 if bits == 8 else ct.int32)
    _, found = ct.reduce((ct.load(x, (0,), (512,)), indices), 0, earlier, (-1, 0))
    ct.store(out, (0,), ct.reshape(found.astype(ct.int32), (1,)))


@pytest.mark.parametrize(("start", "bits"), [(0, 32), (2**31 - 200, 32), (0, 8), (-3, 8)])
def test_indices_that_wrap_around(start: int, bits: int) -> None:
    """Those beyond the largest number are smaller than those before."""
    found, x = [], np.random.default_rng(start % 7).integers(0, 2, 512).astype(np.int32)
    with interpreter_backend(4) as gpu, ptx_backend(2) as ptx:
        for backend in ("reference", gpu, ptx):
            out = np.zeros(1, np.int32)
            ct.launch(None, (1,), smallest_index, (x, out, start, bits), backend=backend)
            found.append(int(out[0]))
    assert found == found[:1] * 3


SHAPES = [(1, 512), (4, 256), (16, 32), (64, 8)]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_places_of_extremes(shape: tuple[int, int], axis: int) -> None:
    rng = np.random.default_rng(shape[0])
    x = rng.integers(-3, 3, shape).astype(np.float32)
    x[rng.random(shape) < 0.1] = np.nan
    found = []
    with interpreter_backend(4) as gpu, ptx_backend(2) as ptx:
        for backend in ("reference", gpu, ptx):
            outs = [np.zeros(shape[1 - axis], np.int32) for _ in range(2)]
            ct.launch(None, (1,), places, (x, *outs, axis, *shape), backend=backend)
            found.append(outs)
    for outs in found[1:]:
        np.testing.assert_array_equal(outs, found[0])


@pytest.mark.parametrize("shape", SHAPES)
def test_threads_know_which_place_is_before(shape: tuple[int, int]) -> None:
    """A thread compares no indices of what it loaded, and warps have rows for themselves."""
    x, outs = np.zeros(shape, np.float32), [np.zeros(shape[0], np.int32) for _ in range(2)]
    function = optimize(specialization(places, (x, *outs, 1, *shape), "reference").function)
    lowered = lower_to_gpu(function, 4)
    first = next(iter(lowered.ops_of(ThreadReduce)), None)
    if first is not None:
        assert not [op for op in first.body.ops if isinstance(op, Cmp) and op.lhs.tile.element.is_integer]
    (load,) = lowered.ops_of(GlobalLoad)
    rows = {image[0] for image in load.ptrs.layout.images("warp") if image[0]}
    assert len(rows) == min(2, shape[0].bit_length() - 1)
