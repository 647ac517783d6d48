"""What a CTA adds to few places is added up in shared memory, and the sums are those of atomics."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_text import layout, line
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.transforms.gpu.gather_atomics import GatherAtomics


@ct.kernel
def counted(x, weights, out, T: ct.Constant[int], steps: int):
    for i in range(steps):
        at = ct.bid(0) * steps + i
        ct.atomic_add(out, ct.load(x, (at,), (T,)), ct.load(weights, (at,), (T,)))


@pytest.mark.parametrize("places", [1, 100, 128, 129])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_sums(dtype: type[np.generic], places: int) -> None:
    """With places below and beyond those of the line, to which nothing is added, in several iterations."""
    rng = np.random.default_rng(places)
    x = rng.integers(-3 if dtype is np.int32 else 0, places + 3, 4 * 512).astype(dtype)
    weights = rng.integers(-9, 9, x.size).astype(np.int32)
    inside = (x >= 0) & (x < places)
    expected = np.full(places, 7, np.int32)
    np.add.at(expected, x[inside], weights[inside])
    with interpreter_backend(2) as gpu, ptx_backend(2) as ptx:
        for backend in (gpu, ptx):
            out = np.full(places, 7, np.int32)
            ct.launch(None, (2,), counted, (x, weights, out, 512, 2), backend=backend)
            np.testing.assert_array_equal(out, expected)


ADDED = layout(line(32, 64, 128, 256), line(1, 2, 4, 8, 16))  # 512 elements in one warp
SUMS = layout(line(32, 64), line(1, 2, 4, 8, 16))
BUFFER = "#layout<offset = [[1],[2],[4],[8],[16],[32],[64]]>"


def test_a_branch_asks_for_few_places() -> None:
    head = f"""
func @f(%p: ptr<i32> = "x".base, %n: i32 = "x".shape.0) hints {{num_warps = 1}} {{
  %i = iota() {{type = !i32[512]{ADDED}}} : i32[512]{ADDED}
  %b = gpu.splat(%p) {{type = !ptr<i32>[512]{ADDED}}} : ptr<i32>[512]{ADDED}
  %q = ptr_offset(%b, %i) : ptr<i32>[512]{ADDED}
  %e = gpu.splat(%n) {{type = !i32[512]{ADDED}}} : i32[512]{ADDED}
  %l = cmp(%i, %e) {{predicate = CmpPredicate.LT}} : i1[512]{ADDED}
  %z = constant() {{value = 0, type = !i32[512]{ADDED}}} : i32[512]{ADDED}
  %g = cmp(%i, %z) {{predicate = CmpPredicate.GE}} : i1[512]{ADDED}
  %m = and(%l, %g) : i1[512]{ADDED}
"""
    check(
        GatherAtomics(),
        head
        + f"""  %o = atomic_rmw(%q, %i, %m) {{kind = AtomicKind.ADD, memory_order = MemoryOrder.RELAXED, memory_scope = MemoryScope.DEVICE}} : i32[512]{ADDED}
  return()
}}
""",
        head
        + f"""  %0 = constant() {{value = 128, type = !i32}} : i32
  %1 = cmp(%n, %0) {{predicate = CmpPredicate.LE}} : i1
  if(%1) {{types = ()}} {{
    %2 = gpu.shared_alloc() {{type = !shared<i32[128]{BUFFER}>}} : shared<i32[128]{BUFFER}>
    %3 = constant() {{value = 0, type = !i32[128]{SUMS}}} : i32[128]{SUMS}
    gpu.shared_store(%2, %3)
    %4 = cast(%i) {{dtype = i32}} : i32[512]{ADDED}
    gpu.shared_add(%2, %4, %i, %m)
    %5 = gpu.shared_load(%2) {{type = !i32[128]{SUMS}}} : i32[128]{SUMS}
    %6 = iota() {{type = !i32[128]{SUMS}}} : i32[128]{SUMS}
    %7 = gpu.splat(%p) {{type = !ptr<i32>[128]{SUMS}}} : ptr<i32>[128]{SUMS}
    %8 = ptr_offset(%7, %6) : ptr<i32>[128]{SUMS}
    %9 = constant() {{value = 0, type = !i32[128]{SUMS}}} : i32[128]{SUMS}
    %10 = cmp(%5, %9) {{predicate = CmpPredicate.NE}} : i1[128]{SUMS}
    %11 = atomic_rmw(%8, %5, %10) {{kind = AtomicKind.ADD, memory_order = MemoryOrder.RELAXED, memory_scope = MemoryScope.DEVICE}} : i32[128]{SUMS}
    yield([])
  }} {{
    %o = atomic_rmw(%q, %i, %m) {{kind = AtomicKind.ADD, memory_order = MemoryOrder.RELAXED, memory_scope = MemoryScope.DEVICE}} : i32[512]{ADDED}
    yield([])
  }}
  return()
}}
""",
        names=False,
        settles=False,  # what the other branch does
    )
