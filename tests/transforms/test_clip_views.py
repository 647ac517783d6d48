"""The pass that takes back promises about bounds."""

from __future__ import annotations

from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.transforms.clip_views import ClipViews

TEXT = """
func @f(%p: ptr<f32> = "x".base, %i: i32 = "i".scalar) {
  %v = make_tensor_view(%p, [], []) {type = !view<f32,[64],[1],i32>} : view<f32,[64],[1],i32>
  %w = make_partition_view(%v) {type = !partition<view<f32,[64],[1],i32>,[8],[0],zero,[8]>} : partition<view<f32,[64],[1],i32>,[8],[0],zero,[8]>
  %t = load_view(%w, [%i]) {in_bounds = (PROMISE)} : f32[8]
  store_view(%w, %t, [%i]) {in_bounds = (PROMISE)}
  return()
}
"""


def test_promises_are_taken_back() -> None:
    before, after = (parse_function(TEXT.replace("PROMISE", word)) for word in ("true", "false"))
    assert print_function(ClipViews().run(before)) == print_function(after)
