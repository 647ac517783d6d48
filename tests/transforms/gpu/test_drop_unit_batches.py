"""Batched products of one pair of matrices, text in and text out."""

from __future__ import annotations

from support.passes import check

from tilewright.transforms.gpu.drop_unit_batches import DropUnitBatches

HEAD = """
func @f(%n: i32 = "n".scalar, %p: ptr<f32> = "p".base) {
  %o = constant() {value = 0, type = !i32} : i32
  %one = constant() {value = 1, type = !i32} : i32
  %x = constant() {value = 1.0, type = !f16[1,16,32]} : f16[1,16,32]
  %y = constant() {value = 1.0, type = !f16[1,32,8]} : f16[1,32,8]
  %z = constant() {value = 0.0, type = !f32[1,16,8]} : f32[1,16,8]
"""


def test_a_loop_carries_the_sum_without_its_first_axis() -> None:
    check(
        DropUnitBatches(),
        HEAD
        + """  %s, %count = for(%o, %n, %one, [%z, %o]) : f32[1,16,8], i32 { ^(%k: i32, %t: f32[1,16,8], %i: i32)
    %m = mma(%x, %y, %t) : f32[1,16,8]
    %j = add(%i, %one) : i32
    continue([%m, %j])
  }
  %c = cast(%s) {dtype = f16} : f16[1,16,8]
  return()
}
""",
        HEAD
        + """  %0 = reshape(%z) {shape = (16, 8)} : f32[16,8]
  %1, %2 = for(%o, %n, %one, [%0, %o]) : f32[16,8], i32 { ^(%k: i32, %t: f32[16,8], %i: i32)
    %3 = reshape(%t) {shape = (1, 16, 8)} : f32[1,16,8]
    %4 = reshape(%x) {shape = (16, 32)} : f16[16,32]
    %5 = reshape(%y) {shape = (32, 8)} : f16[32,8]
    %6 = reshape(%3) {shape = (16, 8)} : f32[16,8]
    %7 = mma(%4, %5, %6) : f32[16,8]
    %8 = reshape(%7) {shape = (1, 16, 8)} : f32[1,16,8]
    %j = add(%i, %one) : i32
    %9 = reshape(%8) {shape = (16, 8)} : f32[16,8]
    continue([%9, %j])
  }
  %10 = reshape(%1) {shape = (1, 16, 8)} : f32[1,16,8]
  %c = cast(%10) {dtype = f16} : f16[1,16,8]
  return()
}
""",
    )


def test_batches_of_several_stay() -> None:
    text = HEAD.replace("[1,", "[2,") + "  %m = mma(%x, %y, %z) : f32[2,16,8]\n  return()\n}\n"
    check(DropUnitBatches(), text, text)
