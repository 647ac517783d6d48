"""Views become pointers and masks: the same on the reference backend, whose accesses to views are the meaning."""

from __future__ import annotations

import numpy as np
import pytest
from support.irbuild import KernelBuilder, launch_arguments

from tilewright.backends.reference import ReferenceExecutable
from tilewright.ir.dtypes import int32, int64
from tilewright.ir.enums import PaddingMode
from tilewright.ir.ops.memory import LoadView, MakePartitionView, MakeTensorView, StoreView
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.transforms.gpu.lower_views import LowerViews


@pytest.mark.parametrize("index_dtype", [int32, int64])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("padding", [PaddingMode.ZERO, PaddingMode.NEG_INF])
@pytest.mark.parametrize("rows", [8, 1])
def test_the_same_tiles(rows: int, padding: PaddingMode, order: tuple[int, int], index_dtype: object) -> None:
    """Tiles that leave their array on every side, in overlapping steps, of a transposed array."""
    k = KernelBuilder()
    x, y = k.array("x", int32, 2, index_dtype), k.array("y", int32, 2, index_dtype)  # type: ignore[arg-type]
    i, j = k.bid(0), k.bid(1)
    source = k.view(x, (rows, 4), order, padding, steps=(-(-rows // 2), 3))
    loaded = k.emit(LoadView, source, [i, j], in_bounds=(False, False))
    k.b.emit_op(StoreView, k.view(y, (rows, 4)), loaded, [i, j], in_bounds=(False, False))
    function = k.function()
    lowered = LowerViews().run(function)
    assert not any(isinstance(op, (MakeTensorView, MakePartitionView, LoadView, StoreView)) for op in lowered.walk())
    rng = np.random.default_rng(0)
    results = []
    a = (
        rng.integers(-99, 99, (13, 11), dtype=np.int32).T
        if order == (1, 0)
        else rng.integers(-99, 99, (11, 13), dtype=np.int32)
    )
    for f in (function, lowered):
        out = np.full((18, 10), 7, np.int32)
        ReferenceExecutable(f).launch((24 // rows, 3, 1), launch_arguments(f, {"x": a, "y": out}))
        results.append(out)
    assert (results[0] == results[1]).all() and (results[0] != 7).any()


TEXT = """
func @f(%p: ptr<f16> = "x".base, %n: i32 = "x".shape.0, %i: i32 = "i".scalar) {
  %v = make_tensor_view(%p, [%n], []) {type = !view<f16,[?],[1],i32>} : view<f16,[?],[1],i32>
  %w = make_partition_view(%v) {type = !partition<view<f16,[?],[1],i32>,[64],[0],zero,[64]>} : partition<view<f16,[?],[1],i32>,[64],[0],zero,[64]>
  %t = load_view(%w, [%i]) {in_bounds = (IN)} : f16[64]
  print([%t]) {parts = (none), formats = ("")}
  return()
}
"""


def test_a_tile_that_is_promised_to_lie_inside_has_no_mask() -> None:
    inside, outside = (
        print_function(LowerViews().run(parse_function(TEXT.replace("IN", w)))) for w in ("true", "false")
    )
    assert "_, _)" in inside
    assert "cmp" not in inside
    assert outside.count("cmp(") == 2  # before the first element, and after the last


@pytest.mark.parametrize("in_bounds", ["true", "false"])
def test_the_only_element_of_an_axis_is_compared_as_a_scalar(in_bounds: str) -> None:
    made = print_function(LowerViews().run(parse_function(TEXT.replace("IN", in_bounds).replace("[64]", "[1]"))))
    assert "iota" not in made and made.count("cmp(") == (0 if in_bounds == "true" else 2)


def test_offsets_within_a_tile_have_32_bits() -> None:
    text = print_function(LowerViews().run(parse_function(TEXT.replace("IN", "true"))))
    assert "iota() {type = !i32[64]}" in text and "i64[" not in text


def test_nothing_to_do_gives_the_argument_back() -> None:
    function = parse_function("func @f() {\n  return()\n}\n")
    assert LowerViews().run(function) is function
