"""Operands from before a loop are loaded from shared memory in it, text in and text out."""

from __future__ import annotations

import pytest
from support.gpu_text import layout
from support.passes import check

from tilewright.transforms.gpu.share_operands import ShareOperands

LANES = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]
SUM = "f32[16,8]" + layout([[0, 1], [8, 0]], LANES)
LEFT = "f16[16,16]" + layout([[0, 1], [8, 0], [0, 8]], LANES)
RIGHT = "f16[16,8]" + layout([[1, 0], [8, 0]], [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]])
LOADED = "f16[16,16]" + layout([[0, 1], [0, 2], [0, 4]], [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]])
SHARED = "shared<f16[16,16]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[1,0],[2,0],[8,0],[4,8]]>>"


def text(before: str, inside: str, left: str, more: str = "") -> str:
    """A loop that multiplies what was computed before it."""
    return f"""
func @f(%n: i32 = "n".scalar) hints {{num_warps = 1}} {{
  %zero = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %x = constant() {{value = 2.0, type = !{LOADED}}} : {LOADED}
{before}
  %y = constant() {{value = 2.0, type = !{RIGHT}}} : {RIGHT}
  %acc = constant() {{value = 0.0, type = !{SUM}}} : {SUM}
  %z = for(%zero, %n, %one, [%acc]) : {SUM} {{ ^(%k: i32, %s: {SUM})
{inside}
    %t = gpu.mma(%{left}, %y, %s) {{instruction = (16, 8, 16)}} : {SUM}
    continue([%t])
  }}
{more}
  print([%z]) {{parts = (none), formats = ("")}}
  return()
}}
"""


CONVERT = f"  %c = gpu.convert_layout(%x) {{type = !{LEFT}}} : {LEFT}"
STORE = f"""  %b = gpu.shared_alloc() {{type = !{SHARED}}} : {SHARED}
  gpu.shared_store(%b, %x) {{vector = 8}}"""
ANOTHER = f"  %d = gpu.convert_layout(%x) {{type = !{LEFT}}} : {LEFT}"
MULTIPLIED = f"    %u = gpu.mma(%d, %y, %s) {{instruction = (16, 8, 16)}} : {SUM}"
LOAD = f"    %l = gpu.shared_load(%b) {{type = !{LEFT}}} : {LEFT}"


def test_an_operand_is_loaded_where_it_is_multiplied() -> None:
    """Of a loop with four registers for accumulators, and four for the operand."""
    check(ShareOperands(8), text(CONVERT, "", "c"), text(STORE, LOAD, "l"), names=False)


@pytest.mark.parametrize(
    ("words", "before", "inside", "more"),
    [
        pytest.param(9, CONVERT, "", "", id="few registers"),
        pytest.param(0, "", CONVERT, "", id="made in the loop"),
        pytest.param(0, f"{CONVERT}\n{ANOTHER}", MULTIPLIED, "", id="two of a loop"),
        pytest.param(0, CONVERT, "", '  print([%c]) {parts = (none), formats = ("")}', id="another use"),
    ],
)
def test_what_stays(words: int, before: str, inside: str, more: str) -> None:
    check(ShareOperands(words), text(before, inside, "c", more), text(before, inside, "c", more))
