"""Checked mode asserts what an op needs before it, text in and text out."""

from __future__ import annotations

from support.passes import check

from tilewright.transforms.check_insertion import CheckInsertion, NullCheckInsertion


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


def test_accesses_through_null_arguments_are_asserted_first() -> None:
    check(
        NullCheckInsertion(frozenset({"p"})),
        """
func @f(%p: ptr<i32> = "p".base, %q: ptr<i32> = "q".base, %m: i1 = "m".scalar, %n: i32 = "n".scalar) {
  %x = load(%q, _, _) : i32
  store(%p, %x, %m)
  store(%q, %x, _)
  %y = load(%p, _, _) : i32
  return()
}
""",
        """
func @f(%p: ptr<i32> = "p".base, %q: ptr<i32> = "q".base, %m: i1 = "m".scalar, %n: i32 = "n".scalar) {
  %x = load(%q, _, _) : i32
  %0 = not(%m) : i1
  assert(%0, []) {message = "store through 'p', which is a null pointer"}
  store(%p, %x, %m)
  store(%q, %x, _)
  %1 = constant() {value = false, type = !i1} : i1
  assert(%1, []) {message = "load through 'p', which is a null pointer"}
  %y = load(%p, _, _) : i32
  return()
}
""",
        settles=False,
    )


def test_launches_tell_which_arguments_are_null_where_that_is_not_known() -> None:
    check(
        NullCheckInsertion(),
        """
func @f(%p: ptr<i32> = "p".base, %m: i1[4] = "m".scalar, %x: i32[4] = "x".scalar) {
  %q = reshape(%p) {shape = (1)} : ptr<i32>[1]
  %r = broadcast(%q) {shape = (4)} : ptr<i32>[4]
  store(%r, %x, %m)
  return()
}
""",
        """
func @f(%p: ptr<i32> = "p".base, %m: i1[4] = "m".scalar, %x: i32[4] = "x".scalar) {
  %q = reshape(%p) {shape = (1)} : ptr<i32>[1]
  %r = broadcast(%q) {shape = (4)} : ptr<i32>[4]
  %0 = not(%m) : i1[4]
  %1 = ptr_to_int(%p) {dtype = i64} : i64
  %2 = constant() {value = 0, type = !i64} : i64
  %3 = cmp(%1, %2) {predicate = CmpPredicate.NE} : i1
  %4 = reshape(%3) {shape = (1)} : i1[1]
  %5 = broadcast(%4) {shape = (4)} : i1[4]
  %6 = or(%5, %0) : i1[4]
  assert(%6, []) {message = "store through 'p', which is a null pointer"}
  store(%r, %x, %m)
  return()
}
""",
        settles=False,
    )


VIEW = "view<f32,[?],[1],i32>"
TILES = f"partition<{VIEW},[16],[0],zero,[16]>"


def test_tiles_that_lie_outside_of_a_null_view_are_not_accessed() -> None:
    check(
        NullCheckInsertion(frozenset({"p"})),
        f"""
func @f(%p: ptr<f32> = "p".base, %n: i32 = "n".scalar, %i: i32 = "i".scalar) {{
  %v = make_tensor_view(%p, [%n], []) {{type = !{VIEW}}} : {VIEW}
  %t = make_partition_view(%v) {{type = !{TILES}}} : {TILES}
  %x = load_view(%t, [%i]) {{in_bounds = (false)}} : f32[16]
  return()
}}
""",
        f"""
func @f(%p: ptr<f32> = "p".base, %n: i32 = "n".scalar, %i: i32 = "i".scalar) {{
  %v = make_tensor_view(%p, [%n], []) {{type = !{VIEW}}} : {VIEW}
  %t = make_partition_view(%v) {{type = !{TILES}}} : {TILES}
  %0 = constant() {{value = false, type = !i1}} : i1
  %1 = cast(%i) {{dtype = i64}} : i64
  %2 = constant() {{value = 16, type = !i64}} : i64
  %3 = mul(%1, %2) : i64
  %4 = cast(%n) {{dtype = i64}} : i64
  %5 = cmp(%3, %4) {{predicate = CmpPredicate.GE}} : i1
  %6 = constant() {{value = -16, type = !i64}} : i64
  %7 = cmp(%3, %6) {{predicate = CmpPredicate.LE}} : i1
  %8 = or(%5, %7) : i1
  %9 = or(%0, %8) : i1
  assert(%9, []) {{message = "load view through 'p', which is a null pointer"}}
  %x = load_view(%t, [%i]) {{in_bounds = (false)}} : f32[16]
  return()
}}
""",
        settles=False,
    )
