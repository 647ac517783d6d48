"""Barriers between accesses that may meet, and none between those that cannot."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.ttir.kernel import lower
from tilewright.ir.parser import parse_function
from tilewright.runtime.launch import specialization
from tilewright.transforms.pipelines import optimize

TWO_POINTERS = """
func @f(%a: ptr<f32> = "a".base, %b: ptr<f32> = "b".base) may_alias {
  %at = iota() {type = !i32[128]} : i32[128]
  %values = cast(%at) {dtype = f32} : f32[128]
  %one_a = reshape(%a) {shape = (1)} : ptr<f32>[1]
  %all_a = broadcast(%one_a) {shape = (128)} : ptr<f32>[128]
  %in_a = ptr_offset(%all_a, %at) : ptr<f32>[128]
  %one_b = reshape(%b) {shape = (1)} : ptr<f32>[1]
  %all_b = broadcast(%one_b) {shape = (128)} : ptr<f32>[128]
  %in_b = ptr_offset(%all_b, %at) : ptr<f32>[128]
  store(%in_a, %values, _)
  BODY
  return()
}
"""
LOOP = """
  %zero = constant() {value = 0, type = !i32} : i32
  %one = constant() {value = 1, type = !i32} : i32
  %ten = constant() {value = 10, type = !i32} : i32
  %sum, %p, %q = for(%zero, %ten, %one, [%values, %in_a, %in_b]) : f32[128], ptr<f32>[128], ptr<f32>[128] { ^(%i: i32, %s: f32[128], %c: ptr<f32>[128], %d: ptr<f32>[128])
    %x = load(%LOADED, _, _) : f32[128]
    %added = add(%s, %x) : f32[128]
    %after_c = ptr_offset(%c, %at) : ptr<f32>[128]
    %after_d = ptr_offset(%d, %at) : ptr<f32>[128]
    continue([%added, NEXT])
  }
  store(%in_b, %sum, _)
"""


def barrier_before_load(body: str, *, promised: bool) -> bool:
    """Whether one is between the first store and the first load of TWO_POINTERS with ``body``."""
    text = TWO_POINTERS.replace("BODY", body)
    if promised:
        text = text.replace('".base', '".base noalias')
    kernel = lower(optimize(parse_function(text)), parse_target("sm_90"), (3, 6))
    return re.search(r"tt\.store(?:(?!tt\.load).)*gpu\.barrier.*tt\.load", kernel.text, re.DOTALL) is not None


@pytest.mark.parametrize("promised", [False, True])
def test_pointers_that_may_be_the_same(promised: bool) -> None:
    body = "%x = load(%in_b, _, _) : f32[128]\n  store(%in_b, %x, _)"
    assert barrier_before_load(body, promised=promised) == (not promised)


@pytest.mark.parametrize("loaded", ["c", "d"])
@pytest.mark.parametrize("following", ["%after_c, %after_d", "%after_d, %after_c"])
def test_pointers_that_a_loop_carries(loaded: str, following: str) -> None:
    body = LOOP.replace("LOADED", loaded).replace("NEXT", following)
    only_b = loaded == "d" and following == "%after_c, %after_d"
    assert barrier_before_load(body, promised=True) == (not only_b)


def barrier_of_lists(same: bool) -> bool:
    @ct.kernel
    def both(xs, ys, out, i, j):
        ct.store(xs[i], (0,), ct.full((64,), 1, ct.float32))
        ct.store(out, (0,), ct.load((xs if same else ys)[j], (0,), (64,)))

    ones = [np.zeros(64, np.float32)] * 2
    function = specialization(both, (ones, ones, ones[0], 0, 1), "reference").function
    return "gpu.barrier" in lower(optimize(function), parse_target("sm_90"), (3, 6)).text


def test_arrays_of_a_list_may_be_one_array() -> None:
    assert barrier_of_lists(same=True)
    assert not barrier_of_lists(same=False)
