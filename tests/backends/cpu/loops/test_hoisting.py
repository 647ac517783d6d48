"""Which checks leave loops, as text."""

from __future__ import annotations

import pytest

from tilewright.backends.cpu.loops.hoisting import HoistChecks
from tilewright.backends.cpu.loops.verify import verify_loop_form
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.verifier import verify

LOOPS = """
    func @k(%a: ptr<f32> = "a".base, %m: i32 = "m".scalar, %n: i32 = "n".scalar) {
      reserve_scratch() {bytes = 64}
      %from = reshape(%a) {shape = (1)} : ptr<f32>[1]
      LINE0
      for(%m, %n, %m, []) { ^(%i: i32)
        LINE1
        for(%m, %n, %m, []) { ^(%j: i32)
          LINE2
          %true = check_load(_, []) {masked = true} : i1 {
            %k = iota() {type = !i32[64]} : i32[64]
            %limits = broadcast(%line) {shape = (64)} : i32[64]
            %mask = cmp(%k, %limits) {predicate = CmpPredicate.LT} : i1[64]
            yield([MASK])
          }
          %sum = nest([%true], [], []) {BUFFERS} : f32 {
            %base = broadcast(%from) {shape = (64)} : ptr<f32>[64]
            %k2 = iota() {type = !i32[64]} : i32[64]
            %ptrs = ptr_offset(%base, %k2) : ptr<f32>[64]
            %limits2 = broadcast(%line) {shape = (64)} : i32[64]
            %mask2 = cmp(%k2, %limits2) {predicate = CmpPredicate.LT} : i1[64]
            %x = load(%ptrs, %mask2, _) : f32[64]
            %r = reduce([%x]) {axis = 0, identities = (0.0), commutative = true} : f32 { ^(%s: f32, %t: f32)
              %u = add(%s, %t) : f32
              yield([%u])
            }
            yield([%r])
          }
          continue([])
        }
        continue([])
      }
      return()
    }"""
BUFFERS = 'buffers = (none), versions = ("plain", "bounds_checked"), unmasked_loads = (5)'


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_checks_leave_the_loops_that_they_do_not_depend_on(depth: int) -> None:
    text = LOOPS.replace("BUFFERS", BUFFERS).replace("MASK", "%mask")
    for k, limit in enumerate(("%n", "%i", "%j")):
        line = f"%line = reshape({limit}) {{shape = (1)}} : i32[1]"
        text = text.replace(f"LINE{k}", line if k == depth else "")
    assert _depth_of_check(text) == depth


def test_checks_that_read_arrays_stay() -> None:
    text = LOOPS.replace("BUFFERS", BUFFERS).replace("MASK", "%loaded")
    text = text.replace("LINE0", "%line = reshape(%n) {shape = (1)} : i32[1]").replace("LINE1", "").replace("LINE2", "")
    load = """
            %flags = reshape(%from) {shape = (1)} : ptr<f32>[1]
            %flag = broadcast(%flags) {shape = (64)} : ptr<f32>[64]
            %number = load(%flag, _, _) : f32[64]
            %loaded = cmp(%number, %number) {predicate = CmpPredicate.LT} : i1[64]
            yield([%loaded])"""
    assert _depth_of_check(text.replace("            yield([%loaded])", load, 1)) == 2


def _depth_of_check(text: str) -> int:
    """The number of loops around the check, after the pass."""
    function = HoistChecks().run(parse_function(text))
    verify(function)
    verify_loop_form(function)
    (line,) = (line for line in print_function(function).splitlines() if "check_load" in line)
    return (len(line) - len(line.lstrip())) // 2 - 1
