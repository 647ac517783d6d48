"""The pass that has no accesses to memory in branches in loops."""

from __future__ import annotations

from support.passes import check

from tilewright.ir.parser import parse_function
from tilewright.transforms.keep_barriers import KeepBarriers

LOOP = """
func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
  %one = constant() {value = 1, type = !i32} : i32
  %r = loop([%one]) {types = (!i32)} : i32 { ^(%i: i32)
    %q = ptr_offset(%p, %i) : ptr<i32>
    %done = cmp(%i, %n) {predicate = CmpPredicate.GE} : i1
    if(%done) {types = ()} {
      store(%q, %i, _)
      break([%i])
    } {
      yield([])
    }
    %next = add(%i, %one) : i32
    continue([%next])
  }
  store(%p, %r, _)
  return()
}
"""
LOOP_AFTER = """
func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
  %one = constant() {value = 1, type = !i32} : i32
  %r = loop([%one]) {types = (!i32)} : i32 { ^(%i: i32)
    %q = ptr_offset(%p, %i) : ptr<i32>
    %done = cmp(%i, %n) {predicate = CmpPredicate.GE} : i1
    %0 = undefined() {type = !i1} : i1
    %1 = undefined() {type = !i1} : i1
    %2 = undefined() {type = !i32} : i32
    %3 = undefined() {type = !i32} : i32
    %4 = constant() {value = 0, type = !i32} : i32
    %5 = constant() {value = 1, type = !i32} : i32
    %6 = select(%done, %5, %4) : i32
    %7, %8, %9, %10 = for(%4, %6, %5, [%0, %1, %2, %3]) : i1, i1, i32, i32 { ^(%11: i32, %12: i1, %13: i1, %14: i32, %15: i32)
      store(%q, %i, _)
      %16 = constant() {value = true, type = !i1} : i1
      %17 = undefined() {type = !i32} : i32
      %18 = constant() {value = false, type = !i1} : i1
      continue([%16, %18, %17, %i])
    }
    %19, %20, %21, %22 = if(%done) {types = (!i1, !i1, !i32, !i32)} : i1, i1, i32, i32 {
      yield([%7, %8, %9, %10])
    } {
      %23 = constant() {value = false, type = !i1} : i1
      %24 = undefined() {type = !i1} : i1
      %25 = undefined() {type = !i32} : i32
      %26 = undefined() {type = !i32} : i32
      yield([%23, %24, %25, %26])
    }
    %27, %28, %29 = if(%19) {types = (!i1, !i32, !i32)} : i1, i32, i32 {
      yield([%20, %21, %22])
    } {
      %next = add(%i, %one) : i32
      %30 = undefined() {type = !i32} : i32
      %31 = constant() {value = true, type = !i1} : i1
      yield([%31, %next, %30])
    }
    if(%27) {types = ()} {
      yield([])
    } {
      break([%29])
    }
    continue([%28])
  }
  store(%p, %r, _)
  return()
}
"""
BRANCH = """
func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
  %zero = constant() {value = 0, type = !i32} : i32
  %one = constant() {value = 1, type = !i32} : i32
  for(%zero, %n, %one, []) { ^(%i: i32)
    %q = ptr_offset(%p, %i) : ptr<i32>
    %even = cmp(%i, %one) {predicate = CmpPredicate.EQ} : i1
    if(%even) {types = ()} {
      %x = load(%p, _, _) : i32
      store(%q, %x, _)
      yield([])
    } {
      yield([])
    }
    continue([])
  }
  return()
}
"""
BRANCH_AFTER = """
func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
  %zero = constant() {value = 0, type = !i32} : i32
  %one = constant() {value = 1, type = !i32} : i32
  for(%zero, %n, %one, []) { ^(%i: i32)
    %q = ptr_offset(%p, %i) : ptr<i32>
    %even = cmp(%i, %one) {predicate = CmpPredicate.EQ} : i1
    %0 = constant() {value = 0, type = !i32} : i32
    %1 = constant() {value = 1, type = !i32} : i32
    %2 = select(%even, %1, %0) : i32
    for(%0, %2, %1, []) { ^(%3: i32)
      %x = load(%p, _, _) : i32
      store(%q, %x, _)
      continue([])
    }
    if(%even) {types = ()} {
      yield([])
    } {
      yield([])
    }
    continue([])
  }
  return()
}
"""


def test_a_loop_that_a_branch_with_stores_leaves_is_left_at_its_end() -> None:
    check(KeepBarriers(), LOOP, LOOP_AFTER)


def test_a_branch_that_accesses_what_it_has_written_is_a_for_of_one_iteration_or_none() -> None:
    check(KeepBarriers(), BRANCH, BRANCH_AFTER)


def test_branches_whose_accesses_need_no_barrier_stay() -> None:
    function = parse_function(BRANCH.replace("%x = load(%p, _, _) : i32\n", "%x = add(%i, %i) : i32\n"))
    assert KeepBarriers().run(function) is function
