"""Neighbouring blocks of products whose tiles are one compute what each would alone."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_products import aligned
from support.gpu_stage import InterpreterBackend
from support.irbuild import launch_arguments
from support.passes import check

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.join_blocks import Blocks, JoinBlocks, joinable
from tilewright.transforms.pipelines import optimize

VIEW = "view<f16,[?,?],[?,1],i32>"


def product(m: int, n: int) -> str:
    """Blocks that multiply ``m`` rows by ``n`` columns, which are doubled."""

    def part(rows: int, columns: int) -> str:
        return f"partition<{VIEW},[{rows},{columns}],[0,1],undetermined,[{rows},{columns}]>"

    a, b, c = part(m, 32), part(32, n), part(m, n)
    return f"""
func @f(%p: ptr<f16> = "x".base, %q: ptr<f16> = "y".base, %r: ptr<f16> = "z".base, %s: i32 = "x".shape.0) {{
  %i = bid() {{axis = 0}} : i32
  %1 = constant() {{value = 1, type = !i32}} : i32
  %u = make_tensor_view(%p, [%s, %s], [%s]) {{type = !{VIEW}}} : {VIEW}
  %v = make_tensor_view(%q, [%s, %s], [%s]) {{type = !{VIEW}}} : {VIEW}
  %w = make_tensor_view(%r, [%s, %s], [%s]) {{type = !{VIEW}}} : {VIEW}
  %j = bid() {{axis = 1}} : i32
  %0 = constant() {{value = 0, type = !i32}} : i32
  %z = constant() {{value = 0.0, type = !f32[{m},{n}]}} : f32[{m},{n}]
  %a = make_partition_view(%u) {{type = !{a}}} : {a}
  %b = make_partition_view(%v) {{type = !{b}}} : {b}
  %t = for(%0, %s, %1, [%z]) : f32[{m},{n}] {{ ^(%k: i32, %acc: f32[{m},{n}])
    %x = load_view(%a, [%i, %k]) {{in_bounds = (false, false)}} : f16[{m},32]
    %y = load_view(%b, [%k, %j]) {{in_bounds = (false, false)}} : f16[32,{n}]
    %d = add(%y, %y) : f16[32,{n}]
    %e = mma(%x, %d, %acc) : f32[{m},{n}]
    continue([%e])
  }}
  %g = cast(%t) {{dtype = f16}} : f16[{m},{n}]
  %c = make_partition_view(%w) {{type = !{c}}} : {c}
  store_view(%c, %g, [%i, %j]) {{in_bounds = (false, false)}}
  return()
}}
"""


@pytest.mark.parametrize("blocks", [(1, 2, 1), (4, 2, 1)])
def test_tiles_are_as_much_longer(blocks: Blocks) -> None:
    check(JoinBlocks(blocks), product(64, 64), product(64 * blocks[0], 64 * blocks[1]), settles=False, names=False)


def tiles(
    a: Any, b: Any, more: Any, c: Any, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int],
    left: ct.Constant[bool], right: ct.Constant[bool],
) -> None:  # fmt: skip
    """Scaled operands, whose sum gets a bias for each column."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x, y = ct.load(a, (i, k), (M, K)), ct.transpose(ct.load(b, (j, k), (N, K)))
        scales = ct.load(more, (k,), (K,))
        x, y = x * scales[None, :] if left else x, y * scales[:, None] if right else y
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), (total + ct.load(more, (j,), (N,))[None, :]).astype(c.dtype))


def specialized(kernel: Any, arguments: tuple[Any, ...]) -> Any:
    return optimize(specialization(ct.kernel(kernel), arguments, "reference").function)


def made(rows: int, columns: int, tile: tuple[int, int, int], *, left: bool, right: bool) -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    arrays = [aligned(shape, ml_dtypes.bfloat16) for shape in ((rows, 96), (columns, 96), (1, 256))]
    for array in arrays:
        array[...] = rng.integers(-2, 3, array.shape)
    return arrays[0], arrays[1], arrays[2][0], aligned((rows, columns), np.float32), *tile, left, right


@pytest.mark.parametrize(
    ("tile", "operands", "wanted"),
    [
        ((64, 64, 32), (False, False), ((1, 2, 1), (1, 4, 1), (2, 4, 1))),
        ((64, 64, 64), (True, False), ((1, 2, 1), (1, 4, 1), (2, 4, 1))),
        ((64, 64, 64), (False, True), ((2, 1, 1), (4, 1, 1), (4, 2, 1))),  # what is computed is shared
        ((64, 64, 64), (True, True), ()),
        ((128, 128, 32), (False, False), ((1, 2, 1),)),
        ((128, 128, 32), (True, False), ((1, 2, 1),)),
        ((128, 128, 128), (True, False), ()),  # steps are large
        ((128, 256, 64), (False, False), ()),
    ],
)
def test_how_many_blocks_are_joined(tile: Any, operands: Any, wanted: tuple[Blocks, ...]) -> None:
    arguments = made(256, 256, tile, left=operands[0], right=operands[1])
    assert joinable(specialized(tiles, arguments)) == wanted


def batched(a: Any, b: Any, more: Any, c: Any, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]) -> None:
    """Columns, batches and rows along the axes of the grid."""
    j, batch, i = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[2], K)):
        x, y = ct.load(a, (batch, i, k), (1, M, K)), ct.load(b, (batch, j, k), (1, N, K))
        total = ct.mma(x.reshape((M, K)), ct.transpose(y.reshape((N, K))), total)
    ct.store(c, (batch, i, j), total.reshape((1, M, N)))


def test_axes_of_the_grid_are_those_of_the_tiles() -> None:
    a, b, more, c, *tile = made(256, 256, (64, 64, 64), left=False, right=False)[:-2]
    wanted = ((2, 1, 1), (4, 1, 1), (4, 1, 2))
    assert joinable(specialized(batched, (a[None], b[None], more, c[None], *tile))) == wanted


def numbered(a: Any, b: Any, more: Any, c: Any, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]) -> None:
    """Blocks that know their number."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        total = ct.mma(ct.load(a, (i, k), (M, K)), ct.transpose(ct.load(b, (j, k), (N, K))), total)
    ct.store(c, (i, j), total + i)


def in_place(a: Any, b: Any, more: Any, c: Any, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]) -> None:
    """Blocks that load what they store to."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.load(c, (i, j), (M, N))
    for k in range(ct.cdiv(a.shape[1], K)):
        total = ct.mma(ct.load(a, (i, k), (M, K)), ct.transpose(ct.load(b, (j, k), (N, K))), total)
    ct.store(c, (i, j), total)


def repeated(a: Any, b: Any, more: Any, c: Any, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]) -> None:
    """Blocks of a column that store the same."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        total = ct.mma(ct.load(a, (j, k), (M, K)), ct.transpose(ct.load(b, (j, k), (N, K))), total)
    ct.store(c, (i, j), total)


def scattered(a: Any, b: Any, more: Any, c: Any, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]) -> None:
    """Blocks that also store by addresses, those of a row to the same ones."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        total = ct.mma(ct.load(a, (i, k), (M, K)), ct.transpose(ct.load(b, (j, k), (N, K))), total)
    ct.store(c, (i, j), total)
    ct.scatter(more, i * M + ct.arange(M, dtype=ct.int32), ct.full((M,), 1, more.dtype))


def test_blocks_that_stay_apart() -> None:
    """Along the axis whose number is computed with, or where one could wait for another one, or stores by addresses."""
    arguments = made(256, 256, (64, 64, 64), left=False, right=False)[:-2]
    assert joinable(specialized(numbered, arguments)) == ((1, 2, 1), (1, 4, 1))
    for kernel in (in_place, repeated, scattered):
        assert joinable(specialized(kernel, arguments)) == ()


@pytest.mark.parametrize("blocks", [(2, 1, 1), (1, 2, 1)])
@pytest.mark.parametrize("right", [False, True])
def test_results_are_those_of_single_blocks(blocks: Blocks, right: bool) -> None:
    """Also of columns and rows that the last tiles have not."""
    arguments = made(120, 248, (64, 128, 32), left=not right, right=right)
    names = ("a", "b", "more", "c")
    function, results = specialized(tiles, arguments), []
    joined = JoinBlocks(blocks).run(function)
    backend = InterpreterBackend(None, 3, parse_target("sm_90"))
    for kernel, grid in ((function, (2, 2, 1)), (joined, (2 // blocks[0], 2 // blocks[1], 1))):
        arguments[3][...] = -1
        backend.compile(kernel, {}).launch(grid, launch_arguments(kernel, dict(zip(names, arguments))))
        results.append(arguments[3].copy())
    a, b, more = (x.astype(np.float32) for x in arguments[:3])
    scaled = a * more[:96] @ b.T + more[:248]
    np.testing.assert_array_equal(results[0], scaled)
    np.testing.assert_array_equal(results[1], scaled)


def turned(x: Any, scales: Any, out: Any, M: ct.Constant[int], N: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    scaled = ct.load(x, (i, j), (M, N)).astype(ct.float32) * ct.load(scales, (i,), (M,))[:, None]
    ct.store(out, (j, i), ct.transpose(scaled).astype(out.dtype))


def in_turn(x: Any, scales: Any, out: Any, M: ct.Constant[int], N: ct.Constant[int]) -> None:
    """Each block but the first one adds up what it transposes."""
    i, j = ct.bid(0), ct.bid(1)
    values = ct.load(x, (i, j), (M, N))
    ct.store(out, (j, i), ct.transpose(values) + ct.sum(values).astype(out.dtype))


@pytest.mark.parametrize(
    ("dtype", "tile", "wanted"),
    [
        (np.float16, (32, 32), ((4, 4, 1),)),
        (np.float16, (64, 64), ((2, 2, 1),)),
        (np.float16, (32, 128), ((4, 1, 1),)),
        (np.float16, (128, 128), ()),
        (np.float32, (32, 32), ((2, 2, 1),)),
        (np.float32, (64, 64), ()),
        (np.int8, (64, 64), ((2, 2, 1),)),
        (np.int8, (128, 128), ()),
    ],
)
def test_tiles_that_are_transposed_have_long_rows(
    dtype: Any, tile: tuple[int, int], wanted: tuple[Blocks, ...]
) -> None:
    x, out = aligned((120, 248), dtype), aligned((248, 120), dtype)
    x[...] = np.random.default_rng(0).integers(-5, 6, x.shape)
    scales = np.array([1, 2, 3, 1] * 30, np.float32)
    function, results = specialized(turned, (x, scales, out, *tile)), []
    assert joinable(function) == wanted and joinable(specialized(in_turn, (x, scales, out, *tile))) == ()
    grid = tuple(-(-n // (t * 4)) * 4 for n, t in zip(x.shape, tile))
    for blocks in ((1, 1, 1), *wanted):
        out[...] = 0
        kernel = JoinBlocks(blocks).run(function)
        launched = grid[0] // blocks[0], grid[1] // blocks[1], 1
        named = launch_arguments(kernel, {"x": x, "scales": scales, "out": out})
        InterpreterBackend(None, 4, parse_target("sm_90")).compile(kernel, {}).launch(launched, named)
        results.append(out.copy())
    for found in results:
        np.testing.assert_array_equal(found, (x.astype(np.float32) * scales[:, None]).T.astype(dtype))
