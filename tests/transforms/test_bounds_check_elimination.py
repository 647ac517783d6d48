"""The in-bounds pass and the analysis of argument effects."""

from __future__ import annotations

import pytest

from tilewright.analysis.argument_effects import argument_effects
from tilewright.ir.parser import parse_function
from tilewright.ir.verifier import verify
from tilewright.transforms.bounds_check_elimination import BoundsCheckElimination

LOOP = """
func @f(%p: ptr<f32> = "x".base, %n0: i32 = "x".shape.0) {
  %n = assume_divisible(%n0) {divisor = DIVISOR} : i32
  %zero = constant() {value = 0, type = !i32} : i32
  %one = constant() {value = 1, type = !i32} : i32
  %tile = constant() {value = 8, type = !i32} : i32
  %v = make_tensor_view(%p, [EXTENT], []) {type = !view<f32,[SHAPE],[1],i32>} : view<f32,[SHAPE],[1],i32>
  %w = make_partition_view(%v) {type = !partition<view<f32,[SHAPE],[1],i32>,[8],[0],zero,[STEP]>} : partition<view<f32,[SHAPE],[1],i32>,[8],[0],zero,[STEP]>
  %count = UPPER : i32
  for(LOWER, %count, %one, []) { ^(%i: i32)
    %t = load_view(%w, [%i]) {in_bounds = (false)} : f32[8]
    store_view(%w, %t, [%i]) {in_bounds = (false)}
    continue([])
  }
  return()
}
"""
CDIV = "div(%n, %tile) {rounding = RoundingMode.RP}"


@pytest.mark.parametrize(
    ("divisor", "shape", "step", "upper", "lower", "proved"),
    [
        (16, "?", 8, CDIV, "%zero", True),
        (4, "?", 8, CDIV, "%zero", False),  # the last tile may be partial
        (16, "?", 4, CDIV, "%zero", False),  # overlapping tiles
        (16, "?", 8, "add(%n, %zero)", "%zero", False),
        (16, "?", 8, CDIV, "%n0", True),  # an extent is not negative
        (1, "64", 8, "add(%tile, %zero)", "%zero", True),
        (1, "60", 8, "add(%tile, %zero)", "%zero", False),
    ],
)
def test_in_bounds(divisor: int, shape: str, step: int, upper: str, lower: str, proved: bool) -> None:
    text = LOOP.replace("DIVISOR", str(divisor)).replace("STEP", str(step)).replace("UPPER", upper)
    text = text.replace("EXTENT", "%n" if shape == "?" else "").replace("SHAPE", shape).replace("LOWER", lower)
    result = BoundsCheckElimination().run(parse_function(text))
    verify(result)
    flags = [op.attributes["in_bounds"] for op in result.walk() if op.name in ("load_view", "store_view")]
    assert flags == [(proved,), (proved,)]


def test_argument_effects_follow_pointers_through_control_flow() -> None:
    function = parse_function("""
        func @f(%a: ptr<i32> = "a".base, %b: ptr<i32> = "b".base, %c: ptr<i32> = "c".base, %k: i1 = "k".scalar, %t: ptr<i64> = "list".table.1, %n: i32 = "n".scalar) {
          %0 = if(%k) {types = (!ptr<i32>)} : ptr<i32> {
            yield([%a])
          } {
            %1 = ptr_offset(%b, %n) : ptr<i32>
            yield([%1])
          }
          %2 = load(%c, _, _) : i32
          store(%0, %2, _)
          %3 = load(%t, _, _) : i64
          %4 = int_to_ptr(%3) {dtype = ptr<i32>} : ptr<i32>
          %5 = loop([%4]) {types = (!ptr<i32>)} : ptr<i32> { ^(%p: ptr<i32>)
            break([%p])
          }
          store(%5, %2, _)
          return()
        }
        """)
    effects = argument_effects(function)
    assert effects.written == {"a", "b", "list"}
    assert effects.read == {"c", "list"}


@pytest.mark.parametrize(("stored", "written"), [("%local", set()), ("%there", {"a", "b"})])
def test_local_arrays_are_no_argument_but_may_hold_the_address_of_one(stored: str, written: set[str]) -> None:
    function = parse_function(f"""
        func @f(%a: ptr<i64> = "a".base, %b: ptr<i64> = "b".base) {{
          %local = local_array() {{dtype = i64, count = 4}} : ptr<i64>
          %0 = ptr_to_int(%a) {{dtype = i64}} : i64
          store(%local, %0, _)
          %1 = load(%local, _, _) : i64
          %there = int_to_ptr(%1) {{dtype = ptr<i64>}} : ptr<i64>
          store({stored}, %0, _)
          return()
        }}
        """)
    assert argument_effects(function).written == written


def test_an_index_that_was_loaded_is_no_address() -> None:
    function = parse_function("""
        func @f(%a: ptr<i64> = "a".base, %b: ptr<i64> = "b".base) {
          %0 = load(%a, _, _) : i64
          %1 = ptr_offset(%b, %0) : ptr<i64>
          store(%1, %0, _)
          return()
        }
        """)
    effects = argument_effects(function)
    assert (effects.read, effects.written) == ({"a"}, {"b"})
