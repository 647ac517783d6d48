"""Loads come before the MMA ops in front of them."""

from __future__ import annotations

import pytest
from support.passes import check

from tilewright.transforms.gpu.hoist_loads import HoistLoadsOverLoops

ROWS = "shared<f16[64,64]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]]>>"
SUM = "f32[64,64]#layout<register = [[0,1],[8,0],[0,8],[0,16],[0,32]], lane = [[0,2],[0,4],[1,0],[2,0],[4,0]], \
warp = [[16,0],[32,0]]>"
BIAS = SUM.replace("f32", "f16")
HEAD = f"""
func @f(%p: ptr<f16> = "x".base, %q: ptr<f32> = "y".base, %n: i32 = "n".scalar) hints {{num_warps = 4}} {{
  %zero = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %none = constant() {{value = 0.0, type = !{SUM}}} : {SUM}
  %x = gpu.shared_alloc() {{type = !{ROWS}}} : {ROWS}
  for(%zero, %n, %one, []) {{ ^(%i: i32)"""
LOOP = f"""
    %sum, %k = for(%zero, %n, %one, [%none, %zero]) : {SUM}, i32 {{ ^(%j: i32, %s: {SUM}, %at: i32)
      %t = gpu.wgmma(%x, %x, %s) : {SUM}
      continue([%t, %j])
    }}"""
LOAD = f"""
    %row = ptr_offset(%p, %i) : ptr<f16>
    %rows = gpu.splat(%row) {{type = !ptr{BIAS.replace("f16[", "<f16>[")}}} : ptr{BIAS.replace("f16[", "<f16>[")}
    %bias = gpu.load(%rows, _, _) : {BIAS}"""
END = f"""
    %wide = cast(%bias) {{dtype = f32}} : {SUM}
    %made = add(%sum, %wide) : {SUM}
    %first = ptr_offset(%q, %i) : ptr<f32>
    %outs = gpu.splat(%first) {{type = !ptr{SUM.replace("f32[", "<f32>[")}}} : ptr{SUM.replace("f32[", "<f32>[")}
    gpu.store(%outs, %made, _)
    continue([])
  }}
  return()
}}
"""


def test_what_results_need_is_loaded_beside_the_mma_ops() -> None:
    check(HoistLoadsOverLoops(), HEAD + LOOP + LOAD + END, HEAD + LOAD + LOOP + END)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ptr_offset(%p, %i)", "ptr_offset(%p, %k)"),  # an address that the loop finds
        ("ptr_offset(%q, %i) : ptr<f32>", "ptr_offset(%p, %i) : ptr<f16>"),  # what the kernel stores
        ("gpu.wgmma(%x, %x, %s) : ", "exp(%s) : "),  # no MMA ops
    ],
)
def test_loads_behind_loops_stay(old: str, new: str) -> None:
    before = HEAD + LOOP + LOAD + END
    assert before.count(old) == 1
    before = before.replace(old, new)
    if "%q" in old:
        before = before.replace("gpu.store(%outs, %made", "gpu.store(%rows, %bias").replace(
            "splat(%first)", "splat(%q)"
        )
    check(HoistLoadsOverLoops(), before, before)
