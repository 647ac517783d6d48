"""Dead code elimination, text in and text out."""

from __future__ import annotations

from support.passes import check

from tilewright.transforms.dce import DeadCodeElimination


def test_unused_pure_ops_and_loads_go_stores_stay() -> None:
    check(
        DeadCodeElimination(),
        """
        func @f(%p: ptr<f32> = "x".base) {
          %0 = bid() {axis = 0} : i32
          %1 = add(%0, %0) : i32
          %2 = load(%p, _, _) : f32
          %3 = constant() {value = 1.0, type = !f32} : f32
          store(%p, %3, _)
          return()
        }
        """,
        """
        func @f(%p: ptr<f32> = "x".base) {
          %0 = constant() {value = 1.0, type = !f32} : f32
          store(%p, %0, _)
          return()
        }
        """,
    )


def test_unread_carried_values_go() -> None:
    check(
        DeadCodeElimination(),
        """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          %0 = for(%n, %n, %n, [%n, %n]) : i32, i32 { ^(%i: i32, %a: i32, %b: i32)
            %1 = add(%a, %i) : i32
            %2 = add(%b, %i) : i32
            continue([%1, %2])
          }
          return()
        }
        """.replace("%0 = for", "%0, %9 = for"),
        """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          return()
        }
        """,
    )


def test_a_carried_value_read_only_by_another_one_stays() -> None:
    check(
        DeadCodeElimination(),
        """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          %0, %1, %2 = for(%n, %n, %n, [%n, %n, %n]) : i32, i32, i32 { ^(%i: i32, %a: i32, %b: i32, %c: i32)
            %3 = add(%b, %i) : i32
            continue([%3, %a, %i])
          }
          store(%p, %0, _)
          return()
        }
        """,
        """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          %0, %1 = for(%n, %n, %n, [%n, %n]) : i32, i32 { ^(%i: i32, %a: i32, %b: i32)
            %2 = add(%b, %i) : i32
            continue([%2, %a])
          }
          store(%p, %0, _)
          return()
        }
        """,
    )


def test_a_branch_that_leaves_the_loop_stays() -> None:
    text = """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          loop([%n]) {types = ()} { ^(%a: i32)
            %0 = cmp(%a, %n) {predicate = CmpPredicate.LT} : i1
            if(%0) {types = ()} {
              break([])
            } {
              yield([])
            }
            %1 = add(%a, %n) : i32
            continue([%1])
          }
          return()
        }
        """
    check(DeadCodeElimination(), text, text)


def test_what_a_combiner_captures_stays() -> None:
    """Also for an op in it that does not matter."""
    text = """
        func @f(%p: ptr<f32>[8] = "x".base, %q: ptr<f32> = "y".base) {
          %0 = constant() {value = 2.0, type = !f32} : f32
          %1 = load(%p, _, _) : f32[8]
          %2 = reduce([%1]) {axis = 0, identities = (0.0)} : f32 { ^(%a: f32, %b: f32)
            %3 = mul(%a, %0) : f32
            %4 = add(%a, %b) : f32
            yield([%4])
          }
          store(%q, %2, _)
          return()
        }
        """
    check(DeadCodeElimination(), text, text)
