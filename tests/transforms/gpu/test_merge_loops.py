"""Two loops over adjoining ranges become one that branches, text in and text out, with the same results."""

from __future__ import annotations

import numpy as np
import pytest
from support.irbuild import run

from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.ir.ops.control import For
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.merge_loops import MergeLoops

BEFORE = """
func @two(%x: ptr<f32> = "x".base noalias, %o: ptr<f32> = "o".base noalias, %a: i32 = "a".scalar, %b: i32 = "b".scalar,
          %c: i32 = "c".scalar) {
  %step = constant() {value = 1, type = !i32} : i32
  %none = constant() {value = 0.0, type = !f32[4,4]} : f32[4,4]
  %ones = constant() {value = 1.0, type = !f32[4,4]} : f32[4,4]
  %columns = iota() {type = !i32[1,4]} : i32[1,4]
  %s = for(%a, %b, %step, [%none]) : f32[4,4] { ^(%i: i32, %s1: f32[4,4])
    %t1 = mma(%ones, %s1, %ones) : f32[4,4]
    %m1 = mul(%t1, %t1) : f32[4,4]
    %n1 = div(%m1, %t1) {rounding = RoundingMode.RN} : f32[4,4]
    continue([%n1])
  }
  %last = add(%c, %step) : i32
  %u = for(%b, %last, %step, [%s]) : f32[4,4] { ^(%j: i32, %s2: f32[4,4])
    %t2 = mma(%ones, %s2, %ones) : f32[4,4]
    %jj = reshape(%j) {shape = (1, 1)} : i32[1,1]
    %wide = broadcast(%jj) {shape = (1, 4)} : i32[1,4]
    %less = cmp(%columns, %wide) {predicate = CmpPredicate.LE} : i1[1,4]
    %seen = broadcast(%less) {shape = (4, 4)} : i1[4,4]
    %masked = select(%seen, %t2, %ones) : f32[4,4]
    %m2 = mul(%masked, %masked) : f32[4,4]
    %n2 = div(%m2, %masked) {rounding = RoundingMode.RN} : f32[4,4]
    continue([%n2])
  }
  %view = make_tensor_view(%o, [], []) {type = !view<f32,[4,4],[4,1],i32>} : view<f32,[4,4],[4,1],i32>
  %tiles = make_partition_view(%view) {type = !partition<view<f32,[4,4],[4,1],i32>,[4,4],[0,1],zero,[4,4]>} : \
partition<view<f32,[4,4],[4,1],i32>,[4,4],[0,1],zero,[4,4]>
  %zero = constant() {value = 0, type = !i32} : i32
  store_view(%tiles, %u, [%zero, %zero]) {in_bounds = (true, true)}
  return()
}
"""
LOOP = """
  %u = for(%begin, %end, %step, [%none]) : f32[4,4] { ^(%i: i32, %s1: f32[4,4])
    %second = cmp(%i, %b) {predicate = CmpPredicate.GE} : i1
    %t2 = mma(%ones, %s1, %ones) : f32[4,4]
    %masked = if(%second) {types = (!f32[4,4])} : f32[4,4] {
      %jj = reshape(%i) {shape = (1, 1)} : i32[1,1]
      %wide = broadcast(%jj) {shape = (1, 4)} : i32[1,4]
      %less = cmp(%columns, %wide) {predicate = CmpPredicate.LE} : i1[1,4]
      %seen = broadcast(%less) {shape = (4, 4)} : i1[4,4]
      %chosen = select(%seen, %t2, %ones) : f32[4,4]
      yield([%chosen])
    } {
      yield([%t2])
    }
    %m2 = mul(%masked, %masked) : f32[4,4]
    %n2 = div(%m2, %masked) {rounding = RoundingMode.RN} : f32[4,4]
    continue([%n2])
  }"""
AFTER = BEFORE[: BEFORE.index("  %s = for")] + (
    """  %last = add(%c, %step) : i32
  %begin = min(%a, %b) : i32
  %end = max(%b, %last) : i32"""
    + LOOP
    + BEFORE[BEFORE.index("\n  %view") :]
)


def plain(text: str) -> str:
    """``text`` as it is printed, with numbers in the place of names."""
    function = parse_function(text)
    for op in function.walk():
        for value in (*op.results, *(a for r in op.regions for a in r.args)):
            value.name = ""
    return print_function(function)


def test_the_second_loop_masks() -> None:
    merged = MergeLoops().run(parse_function(BEFORE))
    verify(merged)
    assert plain(print_function(merged)) == plain(AFTER)


@pytest.mark.parametrize("bounds", [(0, 2, 3), (0, 0, 3), (2, 2, 1), (3, 1, 3), (1, 4, 2), (2, 1, -3)])
def test_results(bounds: tuple[int, int, int]) -> None:
    """Also where a range is empty."""
    found = []
    for function in (parse_function(BEFORE), MergeLoops().run(parse_function(BEFORE))):
        o = np.full((4, 4), np.nan, np.float32)
        run(REFERENCE, function, x=o, o=o, **dict(zip("abc", bounds)))
        found.append(o)
    np.testing.assert_array_equal(*found)
    assert np.isfinite(found[0]).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for(%b, %last, %step", "for(%a, %last, %step"),  # not the range that follows
        ("mul(%masked, %masked)", "sub(%masked, %t2)"),  # an op of the first one is missing
        (
            "%n2 = div(%m2, %masked) {rounding = RoundingMode.RN}",
            "%n2 = div(%m2, %masked) {rounding = RoundingMode.RZ}",
        ),
        ("store_view(%tiles, %u,", "store_view(%tiles, %s,"),  # the results of the first one are seen
        ("%t2 = mma(%ones, %s2, %ones)", "%t2 = add(%ones, %s2)"),
    ],
)
def test_other_loops_stay(old: str, new: str) -> None:
    assert BEFORE.count(old) == 1
    function = MergeLoops().run(parse_function(BEFORE.replace(old, new)))
    assert sum(isinstance(op, For) for op in function.walk()) == 2
