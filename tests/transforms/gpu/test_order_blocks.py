"""Blocks have other numbers where that has them access rows one after another, and compute what they computed."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.transforms.gpu.order_blocks import OrderBlocks


@ct.kernel
def turned(x, out, M: ct.Constant[int], N: ct.Constant[int]):
    """Each matrix of a batch transposed: blocks along the batch are far apart."""
    b, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    ct.store(out, (b, j, i), ct.permute(ct.load(x, (b, i, j), (1, M, N)), (0, 2, 1)))


@ct.kernel
def scaled_heads(x, out, D: ct.Constant[int]):
    """By places in rows: a head a block."""
    row, at = ct.bid(0), ct.bid(1) * D + ct.arange(D, dtype=ct.int32)
    ct.scatter(out, (row, at), 2 * ct.gather(x, (row, at), padding_value=0))


@pytest.mark.parametrize("shape", [(3, 32, 64), (1, 16, 16), (4, 40, 17)])
def test_each_block_runs_once(shape: tuple[int, ...]) -> None:
    b, m, n = shape
    x = np.random.default_rng(n).random(shape, np.float32)
    with interpreter_backend(1) as gpu, ptx_backend(1) as ptx:
        for backend in (gpu, ptx):
            out = np.zeros((b, n, m), np.float32)
            ct.launch(None, (b, ct.cdiv(m, 16), ct.cdiv(n, 16)), turned, (x, out, 16, 16), backend=backend)
            np.testing.assert_array_equal(out, x.transpose(0, 2, 1))
            out = np.zeros(shape[:2], np.float32)
            ct.launch(None, (b, ct.cdiv(m, 32)), scaled_heads, (x[:, :, 0].copy(), out, 32), backend=backend)
            np.testing.assert_array_equal(out, 2 * x[:, :, 0])


def of_rows(first: str, second: str, length: int = 64) -> str:
    """Blocks that copy ``length`` elements of a row each, whose number the axis ``first`` of the grid is."""
    view, part = (
        "view<f32,[?,?],[?,1],i32>",
        f"partition<view<f32,[?,?],[?,1],i32>,[1,{length}],[0,1],undetermined,[1,{length}]>",
    )
    return f"""
func @f(%p: ptr<f32> = "x".base, %m: i32 = "x".shape.0, %n: i32 = "x".shape.1, %s: i32 = "x".stride.0) {{
  %r = bid() {{axis = {first}}} : i32
  %c = bid() {{axis = {second}}} : i32
  %v = make_tensor_view(%p, [%m, %n], [%s]) {{type = !{view}}} : {view}
  %t = make_partition_view(%v) {{type = !{part}}} : {part}
  %x = load_view(%t, [%r, %c]) {{in_bounds = (true, true)}} : f32[1,{length}]
  store_view(%t, %x, [%r, %c]) {{in_bounds = (true, true)}}
  return()
}}
"""


@pytest.mark.parametrize("text", [of_rows("1", "0"), of_rows("0", "1", 1 << 15)], ids=["along rows", "long parts"])
def test_blocks_that_stay(text: str) -> None:
    check(OrderBlocks(), text, text)


def test_columns_first() -> None:
    """The number of a block among all, of which the index along the second axis is the rest."""
    before = of_rows("0", "1")
    bids = before[before.index("  %r") : before.index("  %v")]
    numbers = """\
  %0 = bid() {axis = 0} : i32
  %1 = bid() {axis = 1} : i32
  %2 = num_blocks() {axis = 0} : i32
  %3 = num_blocks() {axis = 1} : i32
  %4 = constant() {value = 0, type = !u64} : u64
  %5 = constant() {value = 1, type = !u64} : u64
  %6 = cast(%3) {dtype = u64} : u64
  %7 = cast(%1) {dtype = u64} : u64
  %8 = mul(%4, %6) : u64
  %9 = add(%8, %7) : u64
  %10 = mul(%5, %6) : u64
  %11 = cast(%2) {dtype = u64} : u64
  %12 = cast(%0) {dtype = u64} : u64
  %13 = mul(%9, %11) : u64
  %14 = add(%13, %12) : u64
  %15 = mul(%10, %11) : u64
  %16 = constant() {value = 4294967296, type = !u64} : u64
  %17 = cmp(%15, %16) {predicate = CmpPredicate.LT} : i1
  %18 = cast(%14) {dtype = u32} : u32
  %19 = cast(%3) {dtype = u32} : u32
  %20 = rem(%18, %19) : u32
  %21 = div(%18, %19) {rounding = RoundingMode.RZ} : u32
  %22 = cast(%20) {dtype = i32} : i32
  %23 = select(%17, %22, %1) : i32
  %c = assume_bounded(%23) {lower = 0, upper = 16777214} : i32
  %25 = cast(%2) {dtype = u32} : u32
  %26 = cast(%21) {dtype = i32} : i32
  %27 = select(%17, %26, %0) : i32
  %r = assume_bounded(%27) {lower = 0, upper = 16777214} : i32
"""
    check(OrderBlocks(), before, before.replace(bids, numbers), names=False)
