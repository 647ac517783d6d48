"""Checked mode asserts what an op needs before it, text in and text out."""

from __future__ import annotations

from support.passes import check

from tilewright.transforms.check_insertion import CheckInsertion


def test_undefined_operands_are_asserted_first() -> None:
    check(
        CheckInsertion(),
        """
func @f(%a: i32 = "a".scalar, %b: i32 = "b".scalar, %p: ptr<i32> = "x".base) {
  %q = div(%a, %b) {rounding = RoundingMode.RZ} : i32
  %s = shl(%q, %b) : i32
  store(%p, %s, _)
  return()
}
""",
        """
func @f(%a: i32 = "a".scalar, %b: i32 = "b".scalar, %p: ptr<i32> = "x".base) {
  %0 = constant() {value = 0, type = !i32} : i32
  %1 = cmp(%b, %0) {predicate = CmpPredicate.NE} : i1
  assert(%1, [%b]) {message = "the divisor is {}; it must not be 0"}
  %q = div(%a, %b) {rounding = RoundingMode.RZ} : i32
  %2 = constant() {value = true, type = !i1} : i1
  %3 = constant() {value = 0, type = !i32} : i32
  %4 = cmp(%b, %3) {predicate = CmpPredicate.GE} : i1
  %5 = constant() {value = 31, type = !i32} : i32
  %6 = cmp(%b, %5) {predicate = CmpPredicate.LE} : i1
  %7 = and(%4, %6) : i1
  assert(%7, [%b]) {message = "the shift count is {}; valid are 0 to 31"}
  %s = shl(%q, %b) : i32
  store(%p, %s, _)
  return()
}
""",
        settles=False,
    )
