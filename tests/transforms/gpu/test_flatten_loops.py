"""A loop in another one becomes one loop over the iterations of both: text in and text out, and the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import AsyncCopy, Barrier
from tilewright.ir.ops.gpu.tiles import Shuffle
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu import flatten_loops
from tilewright.transforms.gpu.flatten_loops import FlattenLoops
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.pipelines import optimize

VIEW = "view<f32,[?,?],[?,1],i32>"
PART = f"partition<{VIEW},[1,32],[0,1],zero,[1,32]>"
BODY = f"""%t = make_partition_view(%v) {{type = !{PART}}} : {PART}
    %x = load_view(%t, [%i, %j]) {{in_bounds = (false, false)}} : f32[1,32]
    %y = add(%s, %x) : f32[1,32]
    """


def kernel(loops: str) -> str:
    return f"""
func @f(%p: ptr<f32> = "x".base, %m: i32 = "x".shape.0, %n: i32 = "x".shape.1, %k: i32 = "k".scalar) {{
  %o = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %z = constant() {{value = 0.0, type = !f32[1,32]}} : f32[1,32]
  %v = make_tensor_view(%p, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
  {loops}
  print([%r]) {{parts = (none), formats = ("")}}
  return()
}}
"""


NEST = f"""%r = for(%o, %m, %one, [%z]) : f32[1,32] {{ ^(%i: i32, %a: f32[1,32])
    %q = for(%one, %k, %one, [%a]) : f32[1,32] {{ ^(%j: i32, %s: f32[1,32])
    {BODY}continue([%y])
    }}
    continue([%q])
  }}"""
FLAT = f"""%0 = constant() {{value = 0, type = !i32}} : i32
  %1 = constant() {{value = 1, type = !i32}} : i32
  %e = max(%m, %o) : i32
  %count = sub(%e, %o) : i32
  %f = max(%k, %one) : i32
  %each = sub(%f, %one) : i32
  %by = max(%each, %1) : i32
  %g = constant() {{value = 1073741824, type = !i32}} : i32
  %h = div(%g, %by) {{rounding = RoundingMode.RZ}} : i32
  %most = max(%h, %1) : i32
  %l = cast(%0) {{dtype = i64}} : i64
  %u = cast(%count) {{dtype = i64}} : i64
  %w = cast(%most) {{dtype = i64}} : i64
  %r = for(%l, %u, %w, [%z]) : f32[1,32] {{ ^(%b: i64, %a: f32[1,32])
    %c = cast(%b) {{dtype = i32}} : i32
    %left = sub(%count, %c) : i32
    %these = min(%most, %left) : i32
    %total = mul(%these, %each) : i32
    %q = for(%0, %total, %1, [%a]) : f32[1,32] {{ ^(%d: i32, %s: f32[1,32])
      %x1 = cast(%d) {{dtype = u32}} : u32
      %x2 = cast(%by) {{dtype = u32}} : u32
      %x3 = div(%x1, %x2) {{rounding = RoundingMode.RZ}} : u32
      %x4 = cast(%x3) {{dtype = i32}} : i32
      %x5 = mul(%x4, %by) : i32
      %x6 = sub(%d, %x5) : i32
      %x7 = add(%c, %x4) : i32
      %i = add(%o, %x7) : i32
      %j = add(%one, %x6) : i32
      {BODY}continue([%y])
    }}
    continue([%q])
  }}"""


def test_two_loops() -> None:
    check(FlattenLoops(), kernel(NEST), kernel(FLAT), names=False)


STEPS = NEST.replace("%m, %one", "%m, %k")  # in steps that are not known
BOUND = NEST.replace("for(%one, %k,", "for(%one, %i,")  # which grows
SCALED = NEST.replace("continue([%q])", "%w = add(%q, %z) : f32[1,32]\n    continue([%w])")
TILES = NEST.replace("%q = for", "%w = add(%z, %z) : f32[1,32]\n    %q = for").replace("add(%s, %x)", "add(%s, %w)")


@pytest.mark.parametrize("loops", [STEPS, BOUND, SCALED, TILES])
def test_others_stay(loops: str) -> None:
    check(FlattenLoops(), kernel(loops), kernel(loops))


@ct.kernel
def totals(x, sums, squares, counts, first: ct.Constant[int], T: ct.Constant[int]):
    """Of each channel of (batch, C, pixels); pixels that a tile does not fill are skipped in the last batch."""
    c = ct.bid(0)
    s, q, n = 0.0, 0.0, 0
    for b in range(first, x.shape[0]):
        for j in range(x.shape[2] // T):
            v = ct.load(x, (b, c, j), (1, 1, T))
            s += ct.sum(v)
            q += ct.sum(v * v)
            if b == x.shape[0] - 1:
                continue
            n += b * 100 + j
    ct.scatter(sums, c, s)
    ct.scatter(squares, c, q)
    ct.scatter(counts, c, n)


@pytest.mark.parametrize("most", [1 << 30, 7, 1])
@pytest.mark.parametrize("shape", [(5, 3, 200), (1, 2, 64), (4, 2, 30), (0, 2, 64)])
def test_same_results(shape: tuple[int, ...], most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of loops without iterations, and of more iterations than one loop counts."""
    monkeypatch.setattr(flatten_loops, "_MOST", most)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "0")
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32)

    def results(backend: Any) -> list[np.ndarray]:
        made = [*np.full((2, shape[1]), -1, np.float32), np.full(shape[1], -1, np.int32)]
        ct.launch(None, (shape[1],), totals, (x, *made, 0, 32), backend=backend)
        return made

    wanted = results("reference")
    with interpreter_backend(2, 3, "sm_90") as interpreter, ptx_backend(None, "sm_80") as ptx:
        for backend in (interpreter, ptx):
            for found, expected in zip(results(backend), wanted):
                np.testing.assert_array_equal(found, expected)


@ct.kernel
def stats(x, sums, T: ct.Constant[int]):
    s = 0.0
    for b in range(x.shape[0]):
        for j in range(ct.cdiv(x.shape[2], T)):
            s += ct.sum(ct.load(x, (b, ct.bid(0), j), (1, 1, T), padding_mode=ct.PaddingMode.ZERO))
    ct.scatter(sums, ct.bid(0), s)


def test_sums_are_exchanged_when_all_is_added() -> None:
    """And what a batch begins with is loaded while the one before ends."""
    x, sums = np.zeros((4, 2, 512), np.float32), np.zeros(2, np.float32)
    function = optimize(specialization(stats, (x, sums, 512), "reference").function)
    lowered = lower_to_gpu(FlattenLoops().run(function), 4)
    outer, loop = lowered.ops_of(For)
    assert loop.parent is outer
    assert any(isinstance(op, AsyncCopy) for op in loop.body.ops)
    assert not any(isinstance(op, (Barrier, Shuffle)) for op in loop.body.ops)
