"""Loads come before arithmetic that does not need them, and behind the stores before them."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_text import layout, line
from support.passes import check
from support.ptx.backend import PtxBackend, PtxExecutable

import tilewright as ct
from tilewright.backends import registry
from tilewright.ir.core import Op
from tilewright.ir.ops.floats import Exp
from tilewright.ir.ops.gpu.memory import GlobalLoad, GlobalStore
from tilewright.transforms.gpu.hoist_loads import HoistLoads


@ct.kernel
def gated(x, gate, weights, out):
    a = ct.exp(ct.load(x, (0,), (256,)))
    b = ct.load(gate, (0,), (256,))
    total = ct.sum(a * b)
    ct.store(out, (0,), total * ct.load(weights, (0,), (256,)))
    again = ct.exp(ct.load(out, (0,), (256,)))
    ct.store(out, (1,), again * ct.load(x, (0,), (256,)))


class Kept(PtxBackend):
    name = "kept-for-loads"
    made: PtxExecutable

    def compile(self, *arguments: object) -> PtxExecutable:
        self.made = super().compile(*arguments)  # type: ignore[arg-type]
        return self.made


def test_order_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Kept(2, "sm_80")
    monkeypatch.setitem(registry._loaders, backend.name, lambda: backend)
    x, gate, weights = (np.random.default_rng(i).random(256, np.float32) for i in range(3))
    found = [np.zeros(512, np.float32) for _ in range(2)]
    for name, out in zip((backend.name, "reference"), found):
        ct.launch(None, (1,), gated, (x, gate, weights, out), backend=name)
    np.testing.assert_allclose(*found, rtol=1e-5)
    kinds: tuple[type[Op], ...] = (GlobalLoad, Exp, GlobalStore)
    order = [type(op) for op in backend.made.compiled.distributed.walk() if isinstance(op, kinds)]
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
