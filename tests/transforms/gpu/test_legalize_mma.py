"""Products of 8-bit floats whose right operand lies along its columns, text in and text out."""

from __future__ import annotations

import numpy as np
import pytest
from support.passes import check

from tilewright.ir.ops.gpu.wgmma import Interleave
from tilewright.transforms.gpu.legalize_mma import LegalizeMma

TEXT = """
func @f(%p: ptr<f8e4m3fn> = "p".base, %n: i32 = "n".scalar) {
  %o = constant() {value = 0, type = !i32} : i32
  %view = make_tensor_view(%p, [%n, %n], [%n]) {type = !view<f8e4m3fn,[?,?],[?,1],i32>} : view<f8e4m3fn,[?,?],[?,1],i32>
  %rows = make_partition_view(%view) {type = !partition<view<f8e4m3fn,[?,?],[?,1],i32>,[64,64],[0,1],zero,[64,64]>} : partition<view<f8e4m3fn,[?,?],[?,1],i32>,[64,64],[0,1],zero,[64,64]>
  %x = load_view(%rows, [%o, %o]) {in_bounds = (false, false)} : f8e4m3fn[64,64]
  %y = load_view(%rows, [%o, %o]) {in_bounds = (false, false)} : f8e4m3fn[64,64]
  %z = constant() {value = 0.0, type = !f32[64,64]} : f32[64,64]
  %t = permute(%y) {axes = (1, 0)} : f8e4m3fn[64,64]
  %s = mma(%x, %t, %z) : f32[64,64]
  %w = cast(%s) {dtype = f8e4m3fn} : f8e4m3fn[64,64]
RIGHT
SECOND
  return()
}
"""
ROW_MAJOR = "  %v = load_view(%rows, [%o, %n]) {in_bounds = (false, false)} : f8e4m3fn[64,64]"
ALONG_K = ROW_MAJOR.replace("%v", "%u") + "\n  %v = permute(%u) {axes = (1, 0)} : f8e4m3fn[64,64]"
PRODUCT = "  %r = mma(%w, %v, %z) : f32[64,64]"
INTERLEAVED = """  %0 = gpu.interleave(%w) {axis = 1} : f8e4m3fn[64,64]
  %1 = gpu.interleave(%v) {axis = 0} : f8e4m3fn[64,64]
  %2 = mma(%0, %1, %z) : f32[64,64]"""
WIDENED = """  %0 = cast(%w) {dtype = f16} : f16[64,64]
  %1 = cast(%v) {dtype = f16} : f16[64,64]
  %2 = mma(%0, %1, %z) : f32[64,64]"""


def text(right: str, second: str) -> str:
    return TEXT.replace("RIGHT", right).replace("SECOND", second)


def test_weights_and_values_are_in_another_order() -> None:
    check(LegalizeMma(), text(ROW_MAJOR, PRODUCT), text(ROW_MAJOR, INTERLEAVED))


def test_tiles_that_are_not_for_warp_groups_are_multiplied_in_float16() -> None:
    check(LegalizeMma(), *(text(ROW_MAJOR, second).replace("64,64", "32,32") for second in (PRODUCT, WIDENED)))


@pytest.mark.parametrize(
    ("right", "second"),
    [
        (ALONG_K, PRODUCT),  # which wgmma reads
        (ROW_MAJOR, PRODUCT.replace("%w", "%x")),  # not computed from another product
    ],
)
def test_others_stay(right: str, second: str) -> None:
    check(LegalizeMma(), text(right, second), text(right, second))


def test_the_order_of_elements() -> None:
    order = np.arange(16).reshape(2, 4, 2).transpose(1, 0, 2).ravel()
    assert [Interleave.source(place) for place in range(16)] == order.tolist()
