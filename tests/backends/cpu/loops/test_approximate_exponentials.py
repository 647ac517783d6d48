"""Which exponentials have a shorter formula, text in and text out."""

from __future__ import annotations

import pytest
from support.passes import check

from tilewright.backends.cpu.loops.approximate_exponentials import ApproximateExponentials

_TEXT = """
func @k(%x: {dtype}[4,64] = "x".scalar, %s: {dtype}[4,64] = "s".scalar) {{
  %e = exp(%x) {rounding}: {dtype}[4,64]
  %t = reduce([%e]) {{axis = 1, identities = (0.0), commutative = true}} : {dtype}[4] {{ ^(%l: {dtype}, %r: {dtype})
    %c = {combiner}(%l, %r) : {dtype}
    yield([%c])
  }}
  %q = div(%e, %s) : {dtype}[4,64]
  %n = cast(%q) {{dtype = {narrow}}} : {narrow}[4,64]
  return()
}}
"""


@pytest.mark.parametrize(
    ("dtype", "combiner", "narrow", "relaxed"),
    [
        ("f32", "add", "bf16", True),
        ("f32", "add", "f16", True),
        ("f32", "add", "f64", False),
        ("f32", "max", "bf16", False),
        ("f64", "add", "bf16", False),
    ],
)
def test_which_exponentials(dtype: str, combiner: str, narrow: str, relaxed: bool) -> None:
    before = _TEXT.format(dtype=dtype, combiner=combiner, narrow=narrow, rounding="")
    approximate = "{rounding = RoundingMode.APPROX} "
    after = _TEXT.format(dtype=dtype, combiner=combiner, narrow=narrow, rounding=approximate * relaxed)
    check(ApproximateExponentials(), before, after, names=False)
