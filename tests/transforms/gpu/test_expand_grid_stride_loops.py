"""Grid-stride loops become a block for each iteration, where none needs another one: the same results for any grid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.gpu_parameters import grid_extent
from tilewright.ir.gpu_stage import GRID_EXTENT
from tilewright.ir.ops.control import For
from tilewright.ir.ops.memory import Load
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.expand_grid_stride_loops import ExpandGridStrideLoops
from tilewright.transforms.pipelines import optimize, run_passes

T = 512

_TILES = "partition<view<f32,[?,1024],[1024,1],i32>,[1,1024],[0,1],zero,[1,1024]>"
_ROWS = f"""
  %zero = constant() {{value = 0, type = !i32}} : i32
  %xs = make_tensor_view(%x, [%n], []) {{type = !view<f32,[?,1024],[1024,1],i32>}} : view<f32,[?,1024],[1024,1],i32>
  %xt = make_partition_view(%xs) {{type = !{_TILES}}} : {_TILES}
  %os = make_tensor_view(%o, [%n], []) {{type = !view<f32,[?,1024],[1024,1],i32>}} : view<f32,[?,1024],[1024,1],i32>
  %ot = make_partition_view(%os) {{type = !{_TILES}}} : {_TILES}
  %first = bid() {{axis = 0}} : i32
  %step = num_blocks() {{axis = 0}} : i32"""
_HEAD = 'func @scaled(%x: ptr<f32> = "x".base noalias, %o: ptr<f32> = "o".base noalias, %n: i32 = "n".scalar)'


def test_a_block_for_each_iteration() -> None:
    before = f"""{_HEAD} {{{_ROWS}
  for(%first, %n, %step, []) {{ ^(%row: i32)
    %v = load_view(%xt, [%row, %zero]) {{in_bounds = (true, true)}} : f32[1,1024]
    %w = add(%v, %v) : f32[1,1024]
    store_view(%ot, %w, [%row, %zero]) {{in_bounds = (true, true)}}
    continue([])
  }}
  return()
}}
"""
    after = f"""{_HEAD} hints {{grid_extent = (2, 1, 0, 0, 1)}} {{{_ROWS}
  %v = load_view(%xt, [%first, %zero]) {{in_bounds = (true, true)}} : f32[1,1024]
  %w = add(%v, %v) : f32[1,1024]
  store_view(%ot, %w, [%first, %zero]) {{in_bounds = (true, true)}}
  return()
}}
"""
    check(ExpandGridStrideLoops(), before, after)


@ct.kernel
def softmax(x, out):
    """A row an iteration."""
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        v = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
        v = ct.exp(v - ct.max(v, axis=1, keepdims=True))
        ct.store(out, (row, 0), v / ct.sum(v, axis=1, keepdims=True))


@ct.kernel
def gathered(x, out):
    """By gathers, with what no iteration changes loaded before."""
    at = ct.arange(T, dtype=ct.int32)
    w = ct.gather(x, (0, at), padding_value=0)
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        v = ct.gather(x, (row, at), padding_value=0) * w
        ct.scatter(out, (row, at), v + ct.max(v))


@ct.kernel
def numbered(x, out):
    """Rows and columns follow from one number; two results of a row."""
    n = x.shape[0] * 2
    for i in range(ct.bid(0), n, ct.num_blocks(0)):
        row, j = i // 2, i % 2
        v = ct.load(x, (row, j), (1, T))
        ct.store(out, (row, j), v + 1)


@ct.kernel
def pairs(x, out):
    """Two rows an iteration, of which the last one may have one."""
    for i in range(ct.bid(0), ct.cdiv(x.shape[0], 2), ct.num_blocks(0)):
        ct.store(out, (i, 0), ct.load(x, (i, 0), (2, T)) + 1)


@ct.kernel
def halves(x, out):
    """Two tiles of each row, one beside the other, and a number of rows that is computed."""
    for row in range(ct.bid(0), (x.shape[0] * 3 + 2) // 3, ct.num_blocks(0)):
        v = ct.load(x, (row, 0), (1, T))
        ct.store(out, (row, 0), v)
        ct.store(out, (row, 1), -v)


@ct.kernel
def one_place(x, out):
    """The last iteration of a block is what counts."""
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        ct.store(out, (ct.bid(0) * 0, 0), ct.load(x, (row, 0), (1, T)))


@ct.kernel
def of_blocks(x, out):
    """A result for each block."""
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        ct.store(out, (ct.bid(0), 0), ct.load(x, (row, 0), (1, T)))


@ct.kernel
def summed(x, out):
    """Iterations hand something on."""
    total = ct.zeros((1, T), ct.float32)
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        total += ct.load(x, (row, 0), (1, T))
        ct.store(out, (row, 0), total)


@ct.kernel
def in_place(x, out):
    """An iteration may load what another one stores."""
    for row in range(ct.bid(0), x.shape[0] - 1, ct.num_blocks(0)):
        ct.store(x, (row, 0), ct.load(x, (row + 1, 0), (1, T)))


@ct.kernel
def neighbours(x, out):
    """Two iterations store to one tile."""
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        ct.store(out, (row // 2, 0), ct.load(x, (row, 0), (1, T)))


@ct.kernel
def crossed(x, out):
    """The first tile of an iteration is the second one of another one."""
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        v = ct.load(x, (row, 0), (1, T))
        ct.store(out, (row, 0), v)
        ct.store(out, (row + 1, 0), v)


@ct.kernel
def to_places(x, out):
    """Where an iteration stores is loaded."""
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        place = ct.gather(x, (row, 0)).astype(ct.int32)
        ct.store(out, (place, 0), ct.load(x, (row, 0), (1, T)))


@ct.kernel
def small(x, out):
    """An iteration moves less than it takes to start a block."""
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        ct.store(out, (row, 0), ct.load(x, (row, 0), (1, 64)))


SPREAD = [softmax, gathered, numbered, pairs, halves]
KEPT = [one_place, of_blocks, summed, in_place, neighbours, crossed, to_places, small]


def arrays(rows: int) -> tuple[Any, Any]:
    x = np.random.default_rng(rows).normal(size=(rows, 2 * T)).astype(np.float32)
    return x, np.full((rows, 2 * T), 7, np.float32)


def spread(kernel: ct.Kernel) -> Function:
    return run_passes(optimize(specialization(kernel, arrays(6), "reference").function), (ExpandGridStrideLoops(),))


@pytest.mark.parametrize("kernel", SPREAD)
def test_loops_that_become_blocks(kernel: ct.Kernel) -> None:
    made = spread(kernel)
    assert not made.ops_of(For)
    values = [n for array in arrays(6) for n in (0, *array.shape, array.shape[1], 1)]
    rows = {numbered: 12, pairs: 3}.get(kernel, 6)
    assert grid_extent(made.hints[GRID_EXTENT], values) == rows


def test_what_all_iterations_load_is_loaded_where_it_is_used() -> None:
    ops = spread(gathered).body.ops
    loads = [i for i, op in enumerate(ops) if isinstance(op, Load)]
    assert len(loads) == 2 and any(op in ops[loads[1]].result.users for op in ops[loads[1] + 1 : loads[1] + 3])


@pytest.mark.parametrize("kernel", KEPT)
def test_loops_that_stay(kernel: ct.Kernel) -> None:
    made = spread(kernel)
    assert made.ops_of(For) and GRID_EXTENT not in made.hints


@pytest.mark.parametrize("kernel", SPREAD)
@pytest.mark.parametrize(("rows", "grid"), [(5, 2), (3, 7), (1, 1)])
def test_results(kernel: ct.Kernel, rows: int, grid: int) -> None:
    x, wanted = arrays(rows)
    ct.launch(None, (grid,), kernel, (x, wanted), backend="reference")
    with ptx_backend(None, target="sm_90") as name, interpreter_backend(None, None, "sm_90") as other:
        for backend in (name, other):
            out = np.full_like(wanted, 7)
            ct.launch(None, (grid,), kernel, (x, out), backend=backend)
            np.testing.assert_allclose(out, wanted, rtol=1e-6)


@pytest.mark.parametrize("kernel", [softmax, pairs])
def test_no_rows(kernel: ct.Kernel) -> None:
    x, out = np.zeros((0, 2 * T), np.float32), np.full((4, 2 * T), 7, np.float32)
    with ptx_backend(None, target="sm_90") as name:
        ct.launch(None, (3,), kernel, (x, out), backend=name)
    assert np.all(out == 7)


@pytest.mark.parametrize(
    ("numbers", "value", "rows"),
    [
        ((1, 1, 0, 0, 1), 9, 9),
        ((1, 1, 0, 7, 8), 9, 2),
        ((1, 1, 7, 0, 8), 8, 1),
        ((1, 3, 0, 0, 2), 5, 7),
        ((1, 1, 0, 0, 1), -4, 0),
        ((1, 1, 0, 7, 8), -20, 0),
        ((1, 1, 0, 7, 8), (1 << 31) - 1, 1 << 28),  # rounded up in more bits
        ((1, 1 << 20, 0, 0, 1), 1 << 11, 0),  # wrapped around, as in the loop
    ],
)
def test_grid_extent(numbers: tuple[int, ...], value: int, rows: int) -> None:
    assert grid_extent(numbers, [math.pi, value]) == rows
