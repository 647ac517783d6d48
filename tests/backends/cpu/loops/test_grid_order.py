"""The order in which the blocks of a grid run."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu.context import block_index
from tilewright.backends.cpu.loops.grid_order import block_axes
from tilewright.ir.errors import TileError
from tilewright.ir.parser import parse_function

TEXT = """
func @f(%x: ptr<f32> = "x".base, %n: i32 = "x".shape.0, %m: i32 = "x".shape.1) {{
  %i = bid() {{axis = 0}} : i32
  %j = bid() {{axis = 1}} : i32
  %k = add(%j, %j) : i32
  %v = make_tensor_view(%x, [%n, %m], [%m]) {{type = !view<f32,[?,?],[?,1],i32>}} : view<f32,[?,?],[?,1],i32>
  %w = make_partition_view(%v) {{type = !{type}}} : {type}
  %t = load_view(%w, [{load}]) {{in_bounds = (false, false), memory_order = MemoryOrder.{order}}} : f32[2,16]
  store_view(%w, %t, [{store}]) {{in_bounds = (false, false)}}
  return()
}}
"""
TYPE = "partition<view<f32,[?,?],[?,1],i32>,[2,16],[0,1],zero,[2,16]>"


@pytest.mark.parametrize(
    "load, store, expected",
    [
        ("%i, %j", "%i, %k", (1, 0, 2)),
        ("%k, %j", "%i, %j", (1, 0, 2)),
        ("%j, %i", "%i, %j", (0, 1, 2)),  # a transpose
        ("%j, %i", "%j, %i", (0, 1, 2)),
        ("%i, %j", "%j, %j", (0, 1, 2)),  # a diagonal
    ],
)
def test_blocks_follow_each_other_along_rows(load: str, store: str, expected: tuple[int, int, int]) -> None:
    assert block_axes(parse_function(TEXT.format(type=TYPE, load=load, store=store, order="WEAK"))) == expected


THREE = """
func @f(%x: ptr<f32> = "x".base, %n: i32 = "x".shape.0, %m: i32 = "x".shape.1) {{
  %i = bid() {{axis = 0}} : i32
  %j = bid() {{axis = 1}} : i32
  %k = bid() {{axis = 2}} : i32
  %z = constant() {{value = 0, type = !i32}} : i32
  %v = make_tensor_view(%x, [%n, %n, %m], [%n, %m]) {{type = !view<f32,[?,?,?],[?,?,1],i32>}} : view<f32,[?,?,?],[?,?,1],i32>
  %w = make_partition_view(%v) {{type = !{type}}} : {type}
  %t = load_view(%w, [{load}]) {{in_bounds = (false, false, false)}} : f32[1,2,16]
  store_view(%w, %t, [{store}]) {{in_bounds = (false, false, false)}}
  return()
}}
"""
OF_THREE = "partition<view<f32,[?,?,?],[?,?,1],i32>,[1,2,16],[{}],zero,[1,2,16]>"


@pytest.mark.parametrize(
    "load, store, order, expected",
    [
        ("%i, %j, %k", "%i, %j, %k", "0,1,2", (2, 1, 0)),
        ("%i, %j, %z", "%i, %j, %z", "0,1,2", (1, 0, 2)),  # whole rows
        ("%i, %z, %j", "%i, %z, %j", "0,1,2", (1, 0, 2)),
        ("%j, %z, %k", "%i, %j, %k", "0,1,2", (2, 1, 0)),  # that differ by two of the axes
        ("%k, %j, %i", "%k, %j, %i", "0,1,2", (0, 1, 2)),
        ("%j, %i, %k", "%j, %i, %k", "0,1,2", (2, 0, 1)),
        ("%j, %i, %k", "%i, %j, %k", "0,1,2", (0, 1, 2)),  # a transpose
        ("%i, %z, %z", "%i, %i, %j", "0,1,2", (0, 1, 2)),  # a diagonal
        ("%i, %z, %k", "%i, %z, %k", "0,1,2", (0, 1, 2)),  # all blocks of the second axis store the same
        ("%k, %j, %i", "%k, %j, %i", "2,1,0", (2, 1, 0)),  # indices of the last axis of the array first
    ],
)
def test_blocks_follow_each_other_in_memory(load: str, store: str, order: str, expected: tuple[int, int, int]) -> None:
    text = THREE.format(type=OF_THREE.format(order), load=load, store=store)
    assert block_axes(parse_function(text)) == expected


def test_blocks_that_wait_for_others_run_as_they_are_numbered() -> None:
    given = {"type": TYPE, "load": "%i, %j", "store": "%i, %j", "order": "ACQUIRE"}
    assert block_axes(parse_function(TEXT.format(**given))) == (0, 1, 2)


@ct.kernel
def pieces(x, out, at):
    i, j = ct.bid(0), ct.bid(1)
    ct.assert_(i * 5 + j + ct.bid(2) * 100 != at, "here")
    ct.store(out, (ct.bid(2), i, j), ct.load(x, (ct.bid(2), i, j), (1, 2, 16)) + i * 1000 + j)


def test_each_block_runs_once_and_failures_name_it() -> None:
    x = np.random.default_rng(0).integers(0, 100, (2, 6, 80)).astype(np.float32)
    outs = [np.zeros_like(x), np.zeros_like(x)]
    for out, backend in zip(outs, ("cpu", "reference")):
        ct.launch(None, (3, 5, 2), pieces, (x, out, -1), backend=backend)
    np.testing.assert_array_equal(*outs)
    with pytest.raises(TileError, match=r"here.*in block \(1, 4, 1\)"):
        ct.launch(None, (3, 5, 2), pieces, (x, outs[0], 109), backend="cpu")


def test_numbers_of_blocks() -> None:
    grid, order = (3, 5, 2), (1, 0, 2)
    found = [block_index(n, grid, order) for n in range(30)]
    assert found == [(i, j, k) for k in range(2) for i in range(3) for j in range(5)]
    assert [block_index(n, grid, (2, 1, 0)) for n in range(30)] == [*np.ndindex(grid)]
