"""Constant folding and simplification, text in and text out."""

from __future__ import annotations

import re

import pytest
from support.passes import check

from tilewright.transforms.canonicalize import Canonicalize


def test_constants_fold_through_shapes_and_casts() -> None:
    check(
        Canonicalize(),
        """
        func @f(%p: ptr<f16> = "x".base) {
          %0 = constant() {value = 7, type = !i32} : i32
          %1 = constant() {value = -2, type = !i32} : i32
          %2 = div(%0, %1) {rounding = RoundingMode.RM} : i32
          %3 = cast(%2) {dtype = f16} : f16
          store(%p, %3, _)
          return()
        }
        """,
        """
        func @f(%p: ptr<f16> = "x".base) {
          %0 = constant() {value = 7, type = !i32} : i32
          %1 = constant() {value = -2, type = !i32} : i32
          %2 = constant() {value = -4, type = !i32} : i32
          %3 = constant() {value = -4.0, type = !f16} : f16
          store(%p, %3, _)
          return()
        }
        """,
    )


def simplified(op: str, type_: str = "i32", constant: str = "0") -> tuple[str, str]:
    text = (
        """
        func @f(%p: ptr<TYPE> = "x".base, %x: TYPE = "x".scalar, %y: TYPE = "y".scalar) {
          %c = constant() {value = CONSTANT, type = !TYPE} : TYPE
          %r = OP : TYPE
          store(%p, %r, _)
          return()
        }
        """.replace("TYPE", type_)
        .replace("CONSTANT", constant)
        .replace("OP", op)
    )
    return text, "\n".join(line for line in text.split("\n") if "%r =" not in line)


@pytest.mark.parametrize(
    ("op", "type_", "constant", "result"),
    [
        ("add(%x, %c)", "i32", "0", "%x"),
        ("add(%c, %x)", "i32", "0", "%x"),
        ("add(%x, %c)", "f32", "-0.0", "%x"),
        ("sub(%x, %c)", "f32", "0.0", "%x"),
        ("mul(%c, %x)", "f32", "1.0", "%x"),
        ("mul(%c, %x)", "i32", "0", "%c"),
        ("div(%x, %c)", "f64", "1.0", "%x"),
        ("and(%x, %x)", "i32", "0", "%x"),
        ("and(%x, %c)", "i32", "0", "%c"),
        ("or(%x, %c)", "i1", "true", "%c"),
        ("xor(%c, %x)", "i32", "0", "%x"),
        ("min(%x, %x)", "i32", "0", "%x"),
        ("shl(%x, %c)", "i32", "0", "%x"),
        ("assume_divisible(%x) {divisor = 1}", "i32", "0", "%x"),
    ],
)
def test_identities(op: str, type_: str, constant: str, result: str) -> None:
    before, after = simplified(op, type_, constant)
    check(Canonicalize(), before, after.replace("%r", result))


@pytest.mark.parametrize(
    ("op", "type_", "constant", "zero"),
    [
        ("sub(%x, %x)", "i32", "7", "0"),
        ("rem(%x, %c)", "i32", "1", "0"),
        ("rem(%x, %c) {rounding = RoundingMode.RM}", "i64", "1", "0"),
        ("xor(%x, %x)", "i8", "1", "0"),
        ("xor(%x, %x)", "i1", "true", "false"),
    ],
)
def test_what_is_always_zero(op: str, type_: str, constant: str, zero: str) -> None:
    before, after = simplified(op, type_, constant)
    made = f"          %0 = constant() {{value = {zero}, type = !{type_}}} : {type_}\n          store("
    check(Canonicalize(), before, after.replace("          store(", made).replace("%r", "%0"))


@pytest.mark.parametrize(
    ("op", "type_", "constant"),
    [
        ("add(%x, %c)", "f32", "0.0"),  # -0.0 + 0.0 is 0.0
        ("mul(%x, %c)", "f32", "0.0"),  # NaN, infinity and the sign of zero
        ("sub(%x, %x)", "f32", "0.0"),
        ("max(%x, %x)", "f32", "0.0"),  # signalling NaNs
        ("rem(%x, %c)", "f32", "1.0"),
        ("add(%x, %c) {flush_to_zero = true}", "f32", "-0.0"),
        ("add(%x, %c) {rounding = RoundingMode.RM}", "f32", "-0.0"),
        ("and(%x, %c)", "i32", "1"),
    ],
)
def test_what_is_no_identity_stays(op: str, type_: str, constant: str) -> None:
    before, _ = simplified(op, type_, constant)
    check(Canonicalize(), before, before)


@pytest.mark.parametrize(
    ("op", "constant", "same", "other"),
    [
        ("shl(%x, %c)", "3", "mul(%x, %0)", "8"),
        ("shl(%x, %c)", "30", "mul(%x, %0)", "1073741824"),
        ("shl(%x, %c)", "31", "shl(%x, %c)", None),  # 2147483648 is no i32
        ("shl(%x, %c)", "32", "shl(%x, %c)", None),
        ("shl(%x, %c)", "-1", "shl(%x, %c)", None),
        ("add(%x, %c)", "-1", "sub(%x, %0)", "1"),
        ("add(%x, %c) {no_signed_wrap = true}", "-7", "sub(%x, %0) {no_signed_wrap = true}", "7"),
        ("add(%x, %c)", "-2147483648", "add(%x, %c)", None),
        ("add(%x, %c)", "7", "add(%x, %c)", None),
    ],
)
def test_one_way_to_write_an_operation(op: str, constant: str, same: str, other: str | None) -> None:
    before, _ = simplified(op, "i32", constant)
    constant = "" if other is None else f"          %0 = constant() {{value = {other}, type = !i32}} : i32\n"
    after = re.sub(r" *%r = .*\n", lambda m: constant + m.group().replace(op, same), before)
    check(Canonicalize(), before, after if other is None else after.replace("%r", "%1"))


def test_known_branches_are_inlined_and_dead_code_after_a_jump_goes() -> None:
    check(
        Canonicalize(),
        """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          %t = constant() {value = true, type = !i1} : i1
          %0 = if(%t) {types = (!i32)} : i32 {
            %1 = add(%n, %n) : i32
            yield([%1])
          } {
            yield([%n])
          }
          %2 = loop([%0]) {types = (!i32)} : i32 { ^(%a: i32)
            store(%p, %n, _)
            if(%t) {types = ()} {
              break([%a])
            } {
              yield([])
            }
            store(%p, %a, _)
            continue([%a])
          }
          store(%p, %2, _)
          return()
        }
        """,
        """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          %t = constant() {value = true, type = !i1} : i1
          %0 = add(%n, %n) : i32
          %1 = loop([%0]) {types = (!i32)} : i32 { ^(%a: i32)
            store(%p, %n, _)
            break([%a])
          }
          store(%p, %1, _)
          return()
        }
        """,
    )


@pytest.mark.parametrize("first", ["0", "1"])
def test_loops_that_end_at_once_go(first: str) -> None:
    """``while w < 1``, which may have nothing to do; what it computes up to there is what stays of it."""
    before = """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          %0 = constant() {value = 1, type = !i32} : i32
          %1 = constant() {value = FIRST, type = !i32} : i32
          %2 = loop([%1, %n]) {types = (!i32)} : i32 { ^(%w: i32, %a: i32)
            %3 = add(%a, %n) : i32
            %4 = cmp(%w, %0) {predicate = CmpPredicate.LT} : i1
            if(%4) {types = ()} {
              yield([])
            } {
              break([%3])
            }
            store(%p, %a, _)
            %5 = add(%w, %0) : i32
            continue([%5, %3])
          }
          store(%p, %2, _)
          return()
        }
        """.replace("FIRST", first)
    after = """
        func @f(%p: ptr<i32> = "x".base, %n: i32 = "n".scalar) {
          %0 = constant() {value = 1, type = !i32} : i32
          %1 = constant() {value = 1, type = !i32} : i32
          %2 = add(%n, %n) : i32
          %3 = constant() {value = false, type = !i1} : i1
          store(%p, %2, _)
          return()
        }
        """
    check(Canonicalize(), before, after if first == "1" else before)


def test_a_loop_that_goes_on_stays() -> None:
    """The break after a ``continue`` that is always reached is not."""
    before = """
        func @f(%p: ptr<i32> = "x".base) {
          %t = constant() {value = true, type = !i1} : i1
          loop([]) {types = ()} {
            if(%t) {types = ()} {
              continue([])
            } {
              yield([])
            }
            break([])
          }
          return()
        }
        """
    after = """
        func @f(%p: ptr<i32> = "x".base) {
          %t = constant() {value = true, type = !i1} : i1
          loop([]) {types = ()} {
            continue([])
          }
          return()
        }
        """
    check(Canonicalize(), before, after)


def test_a_reduction_of_single_elements_is_a_reshape() -> None:
    text = """
        func @f(%p: ptr<f32> = "x".base) {
          %0 = load(%p, _, _) : f32
          %1 = reshape(%0) {shape = (1, 1)} : f32[1,1]
          %2 = broadcast(%1) {shape = (1, 4)} : f32[1,4]
          REDUCED
          %4 = iota() {type = !i32[4]} : i32[4]
          %5 = reshape(%p) {shape = (1,)} : ptr<f32>[1]
          %6 = broadcast(%5) {shape = (4,)} : ptr<f32>[4]
          %7 = ptr_offset(%6, %4) : ptr<f32>[4]
          store(%7, %3, _)
          return()
        }
        """
    reduced = """%3 = reduce([%2]) {axis = 0, identities = (0.0), commutative = true} : f32[4] { ^(%a: f32, %b: f32)
            %c = add(%a, %b) : f32
            yield([%c])
          }"""
    check(
        Canonicalize(),
        text.replace("REDUCED", reduced),
        text.replace("REDUCED", "%3 = reshape(%2) {shape = (4,)} : f32[4]"),
    )


def test_permutations_that_undo_each_other_vanish() -> None:
    text = """
        func @f(%p: ptr<f32>[2,4] = "x".base, %x: f32[2,4] = "x".scalar) {{
          %a = permute(%x) {{axes = (1, 0)}} : f32[4,2]
          {}
          return()
        }}
        """
    stored = "%b = permute(%a) {axes = (1, 0)} : f32[2,4]\n          store(%p, %b, _)"
    check(Canonicalize(), text.format(stored), text.format("store(%p, %x, _)"))


@pytest.mark.parametrize("operands", ["%x, %n", "%n, %x"])
def test_the_larger_one_of_a_number_and_its_negation_is_its_size(operands: str) -> None:
    text = """
        func @f(%p: ptr<TYPE> = "x".base, %x: TYPE = "x".scalar) {
          %n = neg(%x) : TYPE
          %r = LARGER : TYPE
          store(%p, %r, _)
          return()
        }
        """
    larger = text.replace("LARGER", f"max({operands})")
    size = text.replace("LARGER", "abs(%x)")
    check(Canonicalize(), larger.replace("TYPE", "f32"), size.replace("TYPE", "f32"), names=False)
    check(Canonicalize(), larger.replace("TYPE", "u32"), larger.replace("TYPE", "u32"))
