"""Views that branches choose and loops carry give what the reference gives."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.passes import check

import tilewright as ct
from tilewright.transforms.expand_views import ExpandViews


@ct.kernel
def swapped(x, y, out, n: int, T: ct.Constant[int]):
    """Two arrays of equal kind, of which a branch chooses one, and a loop swaps both."""
    a, b = x, y
    if ct.bid(0) == 1:
        a = y
    for i in range(n):
        ct.store(out, (ct.bid(0), i, 0), (ct.load(a, (i,), (T,)) + 2 * ct.load(b, (0,), (T,)))[None, None, :])
        a, b = b, a


@pytest.mark.parametrize("step", [1, 2])
def test_chosen_and_carried(step: int) -> None:
    numbers = np.arange(256, dtype=np.float32)
    x, y = numbers[: 128 * step : step][:96], numbers[::step][:70]
    found = []
    with interpreter_backend(2) as gpu:
        for backend in ("reference", gpu):
            out = np.zeros((2, 3, 32), np.float32)
            ct.launch(None, (2,), swapped, (x, y, out, 3, 32), backend=backend)
            found.append(out)
    np.testing.assert_array_equal(*found)
    assert found[0].any()


def test_branches_choose_the_pointer_of_a_view() -> None:
    check(
        ExpandViews(),
        """
func @f(%p: ptr<f32> = "x".base, %q: ptr<f32> = "y".base, %c: i1 = "c".scalar) {
  %v = make_tensor_view(%p, [], []) {type = !view<f32,[32],[1],i32>} : view<f32,[32],[1],i32>
  %w = make_tensor_view(%q, [], []) {type = !view<f32,[32],[1],i32>} : view<f32,[32],[1],i32>
  %u = if(%c) {types = (!view<f32,[32],[1],i32>)} : view<f32,[32],[1],i32> {
    yield([%v])
  } {
    yield([%w])
  }
  %t = make_partition_view(%u) {type = !partition<view<f32,[32],[1],i32>,[8],[0],zero,[8]>} : partition<view<f32,[32],[1],i32>,[8],[0],zero,[8]>
  %i = constant() {value = 0, type = !i32} : i32
  %x = load_view(%t, [%i]) {in_bounds = (true)} : f32[8]
  store_view(%t, %x, [%i]) {in_bounds = (true)}
  return()
}
""",
        """
func @f(%p: ptr<f32> = "x".base, %q: ptr<f32> = "y".base, %c: i1 = "c".scalar) {
  %v = make_tensor_view(%p, [], []) {type = !view<f32,[32],[1],i32>} : view<f32,[32],[1],i32>
  %w = make_tensor_view(%q, [], []) {type = !view<f32,[32],[1],i32>} : view<f32,[32],[1],i32>
  %u = if(%c) {types = (!ptr<f32>)} : ptr<f32> {
    yield([%p])
  } {
    yield([%q])
  }
  %0 = make_tensor_view(%u, [], []) {type = !view<f32,[32],[1],i32>} : view<f32,[32],[1],i32>
  %t = make_partition_view(%0) {type = !partition<view<f32,[32],[1],i32>,[8],[0],zero,[8]>} : partition<view<f32,[32],[1],i32>,[8],[0],zero,[8]>
  %i = constant() {value = 0, type = !i32} : i32
  %x = load_view(%t, [%i]) {in_bounds = (true)} : f32[8]
  store_view(%t, %x, [%i]) {in_bounds = (true)}
  return()
}
""",
    )
