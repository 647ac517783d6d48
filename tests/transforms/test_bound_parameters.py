"""What a launch makes sure of is said where the parameter is used."""

from __future__ import annotations

from support.passes import check

from tilewright.transforms.bound_parameters import BoundParameters


def test_uses_know_the_bound() -> None:
    before = """
func @f(%x: ptr<f32> = "x".base noalias, %n: i32 = "n".scalar, %m: i32 = "m".scalar) {
  %a = add(%n, %m) : i32
  %b = mul(%a, %n) : i32
  return()
}
"""
    after = """
func @f(%x: ptr<f32> = "x".base noalias, %n: i32 = "n".scalar, %m: i32 = "m".scalar) hints {short_rows = 640} {
  %known = assume_bounded(%n) {upper = 640} : i32
  %a = add(%known, %m) : i32
  %b = mul(%a, %known) : i32
  return()
}
"""
    check(BoundParameters(640, (1,)), before, after, settles=False, names=False)
