"""Analyses are computed once for each function, and stay where a pass changes nothing."""

from __future__ import annotations

from tilewright.analysis.argument_effects import argument_effects
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function
from tilewright.ir.parser import parse_function
from tilewright.ir.rewrite import clone_function
from tilewright.transforms.bounds_check_elimination import BoundsCheckElimination
from tilewright.transforms.clip_views import ClipViews

FUNCTION = """func @first(%x: ptr<f32> = "x".base, %i: i32 = "i".scalar) {
  %v = make_tensor_view(%x, [], []) {type = !view<f32,[64],[1],i32>} : view<f32,[64],[1],i32>
  %p = make_partition_view(%v) {type = !partition<view<f32,[64],[1],i32>,[8],[0],zero,[8]>} : partition<view<f32,[64],[1],i32>,[8],[0],zero,[8]>
  %t = load_view(%p, [%i]) {in_bounds = (PROMISED)} : f32[8]
  store_view(%p, %t, [%i]) {in_bounds = (false)}
  return()
}
"""


def test_an_analysis_is_computed_once() -> None:
    calls: list[int] = []

    def size(function: Function, factor: int) -> int:
        calls.append(factor)
        return factor * len(function.body.ops)

    function = parse_function(FUNCTION.replace("PROMISED", "true"))
    analyses = AnalysisManager(function)
    assert [analyses.get(size, 1), AnalysisManager(function).get(size, 1), analyses.get(size, 2)] == [5, 5, 10]
    assert calls == [1, 2]
    assert AnalysisManager(clone_function(function)).get(size, 1) == 5
    assert calls == [1, 2, 1]


def test_they_stay_where_a_pass_changes_nothing() -> None:
    plain = parse_function(FUNCTION.replace("PROMISED", "false"))
    ranges = AnalysisManager(plain).get(IntegerRanges)
    assert ClipViews().run(plain) is plain
    assert BoundsCheckElimination().run(plain) is plain
    assert AnalysisManager(plain).get(IntegerRanges) is ranges


def test_they_go_where_a_pass_changes_something() -> None:
    promising = parse_function(FUNCTION.replace("PROMISED", "true"))
    effects = AnalysisManager(promising).get(argument_effects)
    clipped = ClipViews().run(promising)
    assert clipped is not promising and not clipped.analyses
    assert AnalysisManager(clipped).get(argument_effects) == effects
