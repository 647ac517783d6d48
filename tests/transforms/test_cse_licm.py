"""Common subexpressions and loop-invariant code motion, text in and text out."""

from __future__ import annotations

from support.passes import check

from tilewright.transforms.cse import CommonSubexpressions
from tilewright.transforms.licm import LoopInvariantCodeMotion


def test_equal_ops_merge_also_into_regions() -> None:
    check(
        CommonSubexpressions(),
        """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          %0 = add(%n, %n) : i32
          %1 = add(%n, %n) : i32
          for(%0, %1, %n, []) { ^(%i: i32)
            %2 = add(%n, %n) : i32
            store(%p, %2, _)
            continue([])
          }
          return()
        }
        """,
        """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          %0 = add(%n, %n) : i32
          for(%0, %0, %n, []) { ^(%i: i32)
            store(%p, %0, _)
            continue([])
          }
          return()
        }
        """,
    )


def test_attributes_and_effects_keep_ops_apart() -> None:
    text = """
        func @f(%p: ptr<f32> = "x".base) {
          %0 = constant() {value = 0.0, type = !f32} : f32
          %1 = constant() {value = -0.0, type = !f32} : f32
          %2 = add(%0, %1) : f32
          %3 = add(%0, %1) {rounding = RoundingMode.RM} : f32
          %4 = load(%p, _, _) : f32
          store(%p, %2, _)
          %5 = load(%p, _, _) : f32
          store(%p, %3, _)
          store(%p, %4, _)
          store(%p, %5, _)
          %6 = local_array() {dtype = f32, count = 1} : ptr<f32>
          %7 = local_array() {dtype = f32, count = 1} : ptr<f32>
          store(%6, %0, _)
          store(%7, %0, _)
          return()
        }
        """
    check(CommonSubexpressions(), text, text)


def test_ops_of_one_branch_do_not_leak_into_the_other() -> None:
    text = """
        func @f(%p: ptr<i32> = "x".base, %c: i1 = "c".scalar, %n: i32 = "n".scalar) {
          if(%c) {types = ()} {
            %0 = add(%n, %n) : i32
            store(%p, %0, _)
            yield([])
          } {
            %1 = add(%n, %n) : i32
            store(%p, %1, _)
            yield([])
          }
          return()
        }
        """
    check(CommonSubexpressions(), text, text)


def test_invariants_leave_nested_loops() -> None:
    check(
        LoopInvariantCodeMotion(),
        """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          for(%n, %n, %n, []) { ^(%i: i32)
            for(%n, %n, %n, []) { ^(%j: i32)
              %0 = mul(%n, %n) : i32
              %1 = add(%0, %i) : i32
              %2 = load(%p, _, _) : i32
              %3 = add(%1, %j) : i32
              store(%p, %3, _)
              continue([])
            }
            continue([])
          }
          return()
        }
        """,
        """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          %0 = mul(%n, %n) : i32
          for(%n, %n, %n, []) { ^(%i: i32)
            %1 = add(%0, %i) : i32
            for(%n, %n, %n, []) { ^(%j: i32)
              %2 = load(%p, _, _) : i32
              %3 = add(%1, %j) : i32
              store(%p, %3, _)
              continue([])
            }
            continue([])
          }
          return()
        }
        """,
    )


def test_a_branch_that_leaves_the_loop_is_not_invariant() -> None:
    text = """
        func @f(%p: ptr<i32> = "x".base, %c: i1 = "c".scalar, %n: i32 = "n".scalar) {
          loop([]) {types = ()} {
            if(%c) {types = ()} {
              break([])
            } {
              yield([])
            }
            store(%p, %n, _)
            break([])
          }
          return()
        }
        """
    check(LoopInvariantCodeMotion(), text, text)


def test_invariants_leave_combiners_but_constants() -> None:
    check(
        LoopInvariantCodeMotion(),
        """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          %0 = iota() {type = !i32[4]} : i32[4]
          %1 = reduce([%0]) {axis = 0, identities = (0,)} : i32 { ^(%a: i32, %b: i32)
            %2 = bid() {axis = 0} : i32
            %3 = add(%2, %n) : i32
            %4 = constant() {value = 3, type = !i32} : i32
            %5 = mul(%4, %3) : i32
            %6 = add(%a, %5) : i32
            yield([%6])
          }
          store(%p, %1, _)
          return()
        }
        """,
        """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          %0 = iota() {type = !i32[4]} : i32[4]
          %1 = bid() {axis = 0} : i32
          %2 = add(%1, %n) : i32
          %3 = reduce([%0]) {axis = 0, identities = (0,)} : i32 { ^(%a: i32, %b: i32)
            %4 = constant() {value = 3, type = !i32} : i32
            %5 = mul(%4, %2) : i32
            %6 = add(%a, %5) : i32
            yield([%6])
          }
          store(%p, %3, _)
          return()
        }
        """,
    )
