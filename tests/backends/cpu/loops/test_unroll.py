"""Unrolling, text in and text out."""

from __future__ import annotations

import pytest
from support.passes import check

from tilewright.backends.cpu.loops.unroll import UnrollShortLoops

HEAD = """
func @f(%p: ptr<f32> = "x".base, %n: i32 = "n".scalar) {{
  %one = constant() {{value = 1, type = !i32}} : i32
  %end = constant() {{value = {end}, type = !i32}} : i32
  %zero = constant() {{value = 0.0, type = !{type}}} : {type}
"""
LOOP = (
    HEAD
    + """
  %r = for(%one, {bound}, %one, [%zero]) : {type} {{ ^(%i: i32, %a: {type})
    %q = ptr_offset(%p, %i) : ptr<f32>
    %v = load(%q, _, _) : f32
    {next}
    continue([%s])
  }}
  return()
}}
"""
)
UNROLLED = (
    HEAD
    + """
  %q = ptr_offset(%p, %one) : ptr<f32>
  %v = load(%q, _, _) : f32
  %u = reshape(%v) {{shape = (1)}} : f32[1]
  %w = broadcast(%u) {{shape = (16)}} : f32[16]
  %s = add(%zero, %w) : f32[16]
  %second = add(%one, %one) : i32
  %q2 = ptr_offset(%p, %second) : ptr<f32>
  %v2 = load(%q2, _, _) : f32
  %u2 = reshape(%v2) {{shape = (1)}} : f32[1]
  %w2 = broadcast(%u2) {{shape = (16)}} : f32[16]
  %s2 = add(%s, %w2) : f32[16]
  %third = add(%second, %one) : i32
  return()
}}
"""
)
TILES = {
    "type": "f32[16]",
    "next": "%u = reshape(%v) {shape = (1)} : f32[1]  %w = broadcast(%u) {shape = (16)} : f32[16]  %s = add(%a, %w) : f32[16]",
}


def test_iterations_follow_each_other() -> None:
    loop = LOOP.format(end=3, bound="%end", **TILES)
    check(UnrollShortLoops(), loop, UNROLLED.format(end=3, **TILES), names=False)


@pytest.mark.parametrize(
    "values",
    [
        {"end": 6, "bound": "%end", **TILES},  # five iterations
        {"end": 3, "bound": "%n", **TILES},  # nobody knows how many
        {"end": 3, "bound": "%end", "type": "f32", "next": "%s = add(%a, %v) : f32"},  # carries no tile
    ],
)
def test_other_loops_stay(values: dict[str, object]) -> None:
    check(UnrollShortLoops(), LOOP.format(**values), LOOP.format(**values))
