"""Layouts of tiles that are accessed element by element: every element has a place, wherever the long axis is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.ops.gpu.memory import AsyncCopy, Barrier, GlobalLoad, SharedStore
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.blocked_layouts import blocked
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.pipelines import optimize


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_line_along_any_axis(axis: int, order: tuple[int, ...]) -> None:
    for length, warps in ((128, 4), (512, 4), (64, 1), (32, 2)):
        shape = tuple(length if k == axis else 1 for k in range(3))
        layout = blocked(shape, order, 1, warps)
        images = itertools.chain.from_iterable(layout.images(name) for name in ("register", "lane", "warp"))
        assert {image[axis] for image in images} >= {1 << bit for bit in range(length.bit_length() - 1)}


@ct.kernel
def interleaved(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    values = ct.load(x, (0, ct.bid(0)), (1, T))
    ct.store(out, (0, ct.bid(0), 0), values.reshape((1, T, 1)))
    ct.store(out, (0, ct.bid(0), 1), (values + 1).reshape((1, T, 1)))


@ct.kernel
def reshaped(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    ct.store(out, (0, 0, ct.bid(0)), ct.load(x, (0, ct.bid(0)), (1, T)).reshape((1, 1, T)))


@pytest.mark.parametrize(("kernel", "shape", "vector"), [(interleaved, (4, 1024, 2), 1), (reshaped, (2, 4, 1024), 8)])
def test_a_thread_has_no_more_elements_side_by_side_than_it_stores(
    kernel: ct.kernel, shape: tuple[int, ...], vector: int
) -> None:
    """Of what is loaded in another shape, too: stores would have gaps otherwise."""
    x, out = np.zeros((4, 1024), np.int8), np.zeros(shape, np.int8)
    function = optimize(specialization(kernel, (x, out, 512), "reference").function)
    lowered = lower_to_gpu(function, 2)
    assert {op.vector for op in lowered.ops_of(GlobalLoad)} == {vector}


@ct.kernel
def narrowed(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    for i in range(ct.bid(0), x.shape[0] // T, ct.num_blocks(0)):
        ct.store(out, (i,), ct.load(x, (i,), (T,)).astype(out.dtype))


@pytest.mark.parametrize(("source", "target", "vector"), [(np.int16, np.int8, 8), (np.int8, np.int16, 16)])
def test_what_is_copied_ahead_has_whole_sectors(source: type, target: type, vector: int) -> None:
    """No more elements of a thread side by side than a copy takes, whatever a store would."""
    x, out = np.zeros(8192, source), np.zeros(8192, target)
    function = optimize(specialization(narrowed, (x, out, 2048), "reference").function)
    copies = lower_to_gpu(function, 4).ops_of(AsyncCopy)
    assert {op.vector for op in copies} == {vector}
    assert all(op.ptrs.layout.bases("lane")[0] == vector for op in copies)


@ct.kernel
def normed_groups(x, w, out, G: ct.Constant[int], D: ct.Constant[int]):  # type: ignore[no-untyped-def]
    v = ct.load(x, (ct.bid(0), 0, 0), (1, G, D))
    s = ct.sum(v * v, axis=2, keepdims=True)
    ct.store(out, (ct.bid(0), 0, 0), v * s * ct.load(w, (0, 0), (G, D)).reshape((1, G, D)))


def test_rows_are_those_of_a_warp_whatever_axes_of_one_element_a_tile_has() -> None:
    x = np.zeros((2, 4, 512), np.float32)
    function = optimize(specialization(normed_groups, (x, x[0], x.copy(), 4, 512), "reference").function)
    assert not lower_to_gpu(function, 4).ops_of((Barrier, SharedStore))


@ct.kernel
def turned(x, out, M: ct.Constant[int], N: ct.Constant[int]):  # type: ignore[no-untyped-def]
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.transpose(ct.load(x, (i, j), (M, N))))


@pytest.mark.parametrize("tile", [(32, 32), (64, 16), (16, 64), (2, 64)])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32])
def test_words_of_several_rows_are_transposed(dtype: type[np.generic], tile: tuple[int, int]) -> None:
    """A thread has a word of each column, if the tile has as many rows and elements for all threads."""
    x = np.random.default_rng(0).integers(-99, 99, (70, 130)).astype(dtype)
    lines = 4 // x.itemsize
    function = optimize(specialization(turned, (x, x.T.copy(), *tile), "reference").function)
    (load,) = lower_to_gpu(function, 1).ops_of(GlobalLoad)
    rows = {image[0] for image in load.ptrs.layout.images("register")}
    assert rows >= {1 << bit for bit in range(min(lines, tile[0]).bit_length() - 1)}
    with interpreter_backend(1) as gpu, ptx_backend(2) as ptx:
        for backend in (gpu, ptx):
            out = np.zeros((130, 70), dtype)
            ct.launch(None, (-(-70 // tile[0]), -(-130 // tile[1])), turned, (x, out, *tile), backend=backend)
            np.testing.assert_array_equal(out, x.T)
