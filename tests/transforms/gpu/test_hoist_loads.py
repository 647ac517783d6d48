"""Loads come before arithmetic that does not need them, and behind the stores before them."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_text import layout, line
from support.passes import check
from support.ptx.backend import PtxBackend

import tilewright as ct
from tilewright.backends import registry
from tilewright.ir.core import Op
from tilewright.ir.ops.floats import Exp
from tilewright.ir.ops.gpu.memory import GlobalLoad, GlobalStore
from tilewright.transforms.gpu.hoist_loads import HoistLoads, HoistLoadsOverLoops


@ct.kernel
def gated(x, gate, weights, out):
    a = ct.exp(ct.load(x, (0,), (256,)))
    b = ct.load(gate, (0,), (256,))
    total = ct.sum(a * b)
    ct.store(out, (0,), total * ct.load(weights, (0,), (256,)))
    again = ct.exp(ct.load(out, (0,), (256,)))
    ct.store(out, (1,), again * ct.load(x, (0,), (256,)))


def test_order_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = PtxBackend(2, "sm_80")
    monkeypatch.setitem(registry._loaders, backend.name, lambda: backend)
    x, gate, weights = (np.random.default_rng(i).random(256, np.float32) for i in range(3))
    found = [np.zeros(512, np.float32) for _ in range(2)]
    for name, out in zip((backend.name, "reference"), found):
        ct.launch(None, (1,), gated, (x, gate, weights, out), backend=name)
    np.testing.assert_allclose(*found, rtol=1e-5)
    kinds: tuple[type[Op], ...] = (GlobalLoad, Exp, GlobalStore)
    order = [type(op) for op in backend.made[-1].compiled.distributed.walk() if isinstance(op, kinds)]
    load, exp, store = kinds
    assert order[:5] == [load, load, load, exp, store], "three loads that are independent"
    assert order[5] is load, "of what was stored"
    assert order.index(store) < 5 and order[-1] is store


LANES = layout(line(), line(1, 2, 4, 8, 16))  # 32 elements in one warp


def test_a_load_moves_behind_the_one_before_it() -> None:
    """What its address needs comes along; arithmetic on the first load waits."""
    check(
        HoistLoads(),
        f"""
func @f(%p: ptr<f32> = "x".base, %q: ptr<f32> = "y".base) hints {{num_warps = 1}} {{
  %i = iota() {{type = !i32[32]{LANES}}} : i32[32]{LANES}
  %a = gpu.splat(%p) {{type = !ptr<f32>[32]{LANES}}} : ptr<f32>[32]{LANES}
  %b = ptr_offset(%a, %i) : ptr<f32>[32]{LANES}
  %x = gpu.load(%b, _, _) {{vector = 1}} : f32[32]{LANES}
  %e = exp(%x) : f32[32]{LANES}
  %c = gpu.splat(%q) {{type = !ptr<f32>[32]{LANES}}} : ptr<f32>[32]{LANES}
  %d = ptr_offset(%c, %i) : ptr<f32>[32]{LANES}
  %y = gpu.load(%d, _, _) {{vector = 1}} : f32[32]{LANES}
  %s = add(%e, %y) : f32[32]{LANES}
  gpu.store(%b, %s, _) {{vector = 1}}
  return()
}}
""",
        f"""
func @f(%p: ptr<f32> = "x".base, %q: ptr<f32> = "y".base) hints {{num_warps = 1}} {{
  %i = iota() {{type = !i32[32]{LANES}}} : i32[32]{LANES}
  %a = gpu.splat(%p) {{type = !ptr<f32>[32]{LANES}}} : ptr<f32>[32]{LANES}
  %b = ptr_offset(%a, %i) : ptr<f32>[32]{LANES}
  %x = gpu.load(%b, _, _) : f32[32]{LANES}
  %c = gpu.splat(%q) {{type = !ptr<f32>[32]{LANES}}} : ptr<f32>[32]{LANES}
  %d = ptr_offset(%c, %i) : ptr<f32>[32]{LANES}
  %y = gpu.load(%d, _, _) : f32[32]{LANES}
  %e = exp(%x) : f32[32]{LANES}
  %s = add(%e, %y) : f32[32]{LANES}
  gpu.store(%b, %s, _)
  return()
}}
""",
    )


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


def test_a_load_moves_over_what_is_stored_to_shared_memory() -> None:
    memory = "shared<f32[32]#layout<offset = [[1],[2],[4],[8],[16]]>>"
    head = f"""
func @f(%p: ptr<f32> = "x".base, %q: ptr<f32> = "y".base) hints {{num_warps = 1}} {{
  %i = iota() {{type = !i32[32]{LANES}}} : i32[32]{LANES}
  %a = gpu.splat(%p) {{type = !ptr<f32>[32]{LANES}}} : ptr<f32>[32]{LANES}
  %b = ptr_offset(%a, %i) : ptr<f32>[32]{LANES}
  %x = gpu.load(%b, _, _) : f32[32]{LANES}"""
    store = f"""
  %m = gpu.shared_alloc() {{type = !{memory}}} : {memory}
  gpu.shared_store(%m, %x)"""
    load = f"""
  %c = gpu.splat(%q) {{type = !ptr<f32>[32]{LANES}}} : ptr<f32>[32]{LANES}
  %d = ptr_offset(%c, %i) : ptr<f32>[32]{LANES}
  %y = gpu.load(%d, _, _) : f32[32]{LANES}"""
    end = f"""
  %s = add(%x, %y) : f32[32]{LANES}
  gpu.store(%b, %s, _)
  return()
}}
"""
    check(HoistLoads(), head + store + load + end, head + load + store + end)
