"""Sums that loops carry are those of each thread until the loop has ended, text in and text out."""

from __future__ import annotations

import pytest
from support.gpu_text import layout
from support.passes import check

from tilewright.transforms.gpu.partial_sums import PartialSums

# Four threads have a row of 16: each has four of it in registers.
TILE = "f32[8,16]" + layout([[0, 1], [0, 2]], [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]])
PARTS = "f32[8,4]" + layout([], [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]])
SUM = "f32[8,1]" + layout([], [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]])
ROWS = "f32[8]" + layout([], [[0], [0], [1], [2], [4]])
ADDED = "{ ^(%a: f32, %b: f32)\n      %c = add(%a, %b) : f32\n      yield([%c])\n    }"


def loop(init: str, carried: str, body: str, after: str) -> str:
    return f"""
func @f(%n: i32 = "n".scalar) hints {{num_warps = 1}} {{
  %o = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %w = constant() {{value = 2.0, type = !{TILE}}} : {TILE}
  %f = constant() {{value = 0.5, type = !{SUM}}} : {SUM}
  {init}
  %s = for(%o, %n, %one, [%z]) : {carried} {{ ^(%k: i32, %t: {carried})
    {body}
    continue([%m])
  }}
  {after}
  print([%e]) {{parts = (none), formats = ("")}}
  return()
}}
"""


REDUCED = f"""%r = reduce([%w]) {{axis = 1, identities = (0.0), commutative = true}} : {ROWS} {ADDED}
    %q = reshape(%r) {{shape = (8, 1)}} : {SUM}"""
TOTAL = f"""%r = reduce([%s]) {{axis = 1, identities = (0.0), commutative = true}} : {ROWS} {ADDED}
  %e = reshape(%r) {{shape = (8, 1)}} : {SUM}"""
ZERO = f"%z = constant() {{value = 0.0, type = !{SUM}}} : {SUM}"
ZEROS = f"%z = constant() {{value = 0.0, type = !{PARTS}}} : {PARTS}"
PART = f"%p = gpu.thread_reduce([%w]) {{axis = 1}} : {PARTS} {ADDED}"
SEEN = f"%e = neg(%s) : {SUM}"


def whole(body: str, init: str = ZERO) -> str:
    return loop(init, SUM, body, SEEN)


def in_parts(body: str, init: str = ZEROS) -> str:
    return loop(init, PARTS, body, TOTAL + "\n" + SEEN.replace("%e =", "%h =").replace("%s", "%e")).replace(
        "print([%e])", "print([%h])"
    )


def test_a_sum() -> None:
    body = f"{REDUCED}\n    %m = add(%t, %q) : {SUM}"
    made = in_parts(f"{PART}\n    %m = add(%t, %p) : {PARTS}")
    check(PartialSums(), whole(body), _dead_zero(made), names=False)


def test_one_that_is_scaled() -> None:
    """By a number for each row, before it is added to."""
    body = f"{REDUCED}\n    %g = mul(%t, %f) : {SUM}\n    %m = add(%q, %g) : {SUM}"
    parts = f"""%x = gpu.broadcast(%f) {{type = !{PARTS}}} : {PARTS}
    %g = mul(%t, %x) : {PARTS}
    {PART}
    %m = add(%g, %p) : {PARTS}"""
    check(PartialSums(), whole(body), _dead_zero(in_parts(parts)), names=False)


def test_one_that_begins_with_a_number_has_it_in_its_first_part() -> None:
    given = f"%z = neg(%f) : {SUM}"
    count = PARTS.replace("f32", "i32")
    first = f"""%i = neg(%f) : {SUM}
  %0 = constant() {{value = 0.0, type = !{PARTS}}} : {PARTS}
  %1 = constant() {{value = 3, type = !{count}}} : {count}
  %2 = constant() {{value = 0, type = !{count}}} : {count}
  %3 = iota() {{type = !{count}}} : {count}
  %4 = and(%3, %1) : {count}
  %5 = cmp(%4, %2) {{predicate = CmpPredicate.EQ}} : {count.replace("i32", "i1")}
  %6 = gpu.broadcast(%i) {{type = !{PARTS}}} : {PARTS}
  %z = select(%5, %6, %0) : {PARTS}"""
    body = f"{REDUCED}\n    %m = add(%t, %q) : {SUM}"
    check(PartialSums(), whole(body, given), in_parts(f"{PART}\n    %m = add(%t, %p) : {PARTS}", first), names=False)


@pytest.mark.parametrize(
    "body",
    [
        f"{REDUCED}\n    %g = neg(%t) : {SUM}\n    print([%g]) {{parts = (none), formats = (\"\")}}\n"
        f"    %m = add(%t, %q) : {SUM}",  # which is seen on the way
        f"{REDUCED}\n    %m = mul(%t, %q) : {SUM}",
        f"{REDUCED.replace('= add(', '= max(')}\n    %m = add(%t, %q) : {SUM}",
        f"{REDUCED}\n    %g = mul(%t, %q) : {SUM}\n    %m = add(%g, %q) : {SUM}",  # scaled by what is added
    ],
)  # fmt: skip
def test_others_stay(body: str) -> None:
    check(PartialSums(), whole(body), whole(body))


def _dead_zero(text: str) -> str:
    """With the sum that the loop began with, which nothing uses."""
    return text.replace(f"  {ZEROS}", f"  {ZERO.replace('%z', '%u')}\n  {ZEROS}", 1)


def test_a_scalar_is_the_sum_of_those_of_all_threads() -> None:
    line = "f32[16]" + layout([[1], [2]], [[4], [8], [0], [0], [0]])
    parts = "f32[4]" + layout([], [[1], [2], [0], [0], [0]])
    how = "{axis = 0, identities = (0.0), commutative = true}"

    def text(zero: str, carried: str, body: str, total: str) -> str:
        return f"""
func @f(%n: i32 = "n".scalar, %x: f32 = "x".scalar) hints {{num_warps = 1}} {{
  %o = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %w = constant() {{value = 2.0, type = !{line}}} : {line}
  %y = constant() {{value = 0.0, type = !f32}} : f32
  {zero}
  %s = for(%o, %n, %one, [{"%z" if zero else "%y"}]) : {carried} {{ ^(%k: i32, %t: {carried})
    {body}
    continue([%m])
  }}
  {total}
  print([%e]) {{parts = (none), formats = ("")}}
  return()
}}
"""

    whole = f"""%g = mul(%t, %x) : f32
    %r = reduce([%w]) {how} : f32 {ADDED}
    %m = add(%g, %r) : f32"""
    made = f"""%v = gpu.splat(%x) {{type = !{parts}}} : {parts}
    %g = mul(%t, %v) : {parts}
    %p = gpu.thread_reduce([%w]) {{axis = 0}} : {parts} {ADDED}
    %m = add(%g, %p) : {parts}"""
    before = text("", "f32", whole, "%e = neg(%s) : f32")
    total = f"""%r = reduce([%s]) {how} : f32 {ADDED}
  %q = reshape(%r) {{shape = ()}} : f32
  %e = neg(%q) : f32"""
    after = text(f"%z = constant() {{value = 0.0, type = !{parts}}} : {parts}", parts, made, total)
    check(PartialSums(), before, after, names=False)
