"""How few bits of a number the rest of a kernel keeps."""

from __future__ import annotations

import pytest

from tilewright.analysis.precision import is_summed_or_narrowed, rounded_to
from tilewright.ir.dtypes import DType, bfloat16, float8_e5m2, float16
from tilewright.ir.ops.arith import Div
from tilewright.ir.ops.floats import Exp
from tilewright.ir.ops.gpu.tiles import ThreadReduce
from tilewright.ir.parser import parse_function

_LAYOUT = "#layout<register = [[1]], lane = [[2],[4],[8],[16],[32]]>"
_TEXT = """
func @f(%p: ptr<bf16> = "x".base, %s: f32 = "s".scalar, %t: f32 = "t".scalar) {{
  %x = gpu.splat(%s) {{type = !f32[64]L}} : f32[64]L
  %y = gpu.splat(%t) {{type = !f32[64]L}} : f32[64]L
  %e = exp(%x) : f32[64]L
  %q = div(%e, %y) : f32[64]L
  {}
  return()
}}
"""


def parsed(lines: str) -> tuple[bool, DType | None]:
    function = parse_function(_TEXT.format(lines.replace("; ", "\n  ")).replace("L", _LAYOUT))
    (exp,), (div,) = function.ops_of(Exp), function.ops_of(Div)
    return is_summed_or_narrowed(exp.result, ThreadReduce), rounded_to(div)


@pytest.mark.parametrize(
    ("lines", "forgiving", "dtype"),
    [
        ("%c = cast(%q) {dtype = bf16} : bf16[64]L", True, bfloat16),
        ("%c = cast(%q) {dtype = f16} : f16[64]L; %d = cast(%q) {dtype = f16} : f16[64]L", True, float16),
        ("%c = cast(%q) {dtype = f16} : f16[64]L; %d = cast(%q) {dtype = bf16} : bf16[64]L", False, None),
        ("%c = cast(%q) {dtype = f8e5m2} : f8e5m2[64]L", True, float8_e5m2),
        ("%c = cast(%q) {dtype = bf16, rounding = RoundingMode.RZ} : bf16[64]L", False, None),
        ("%a = sub(%y, %q) : f32[64]L; %c = cast(%a) {dtype = bf16} : bf16[64]L", False, None),
        ("%c = cast(%q) {dtype = bf16} : bf16[64]L; %d = neg(%q) : f32[64]L", False, None),
        ("%c = cast(%q) {dtype = bf16} : bf16[64]L; %d = neg(%e) : f32[64]L", False, bfloat16),
    ],
)
def test_what_follows_from_a_quotient(lines: str, forgiving: bool, dtype: DType | None) -> None:
    assert parsed(lines) == (forgiving, dtype)


@pytest.mark.parametrize(("combiner", "forgiving"), [("add", True), ("max", False)])
def test_sums(combiner: str, forgiving: bool) -> None:
    reduced = f"""%r = gpu.thread_reduce([%e]) {{axis = 0}} : f32[32]#layout<register = [], lane = [[1],[2],[4],[8],[16]]> {{ ^(%u: f32, %v: f32)
      %w = {combiner}(%u, %v) : f32
      yield([%w])
    }}
    %c = cast(%q) {{dtype = bf16}} : bf16[64]L"""
    assert parsed(reduced)[0] == forgiving
