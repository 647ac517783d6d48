"""Blocks have rows brought to the L2 cache that later blocks load and reduce, and nothing beside them."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_text import layout, line
from support.passes import check

import tilewright as ct
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.ir.ops.gpu.memory import Barrier, GlobalLoad, Prefetch
from tilewright.ir.reachable import reachable
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu import lowering
from tilewright.transforms.gpu.prefetch_rows import PrefetchRows

LANES = layout(line(1, 2), line(4, 8, 16, 32, 64))  # 128 elements in one warp
PARTS = layout([], line(1, 2, 4, 8, 16))


def rows(more: str) -> str:
    """A kernel that adds up what each thread has of a row, and ``more`` after the load."""
    return f"""
func @f(%p: ptr<f32> = "x".base, %n: i32 = "n".scalar, %m: i32 = "m".scalar, %y: ptr<f32> = "y".base) hints {{num_warps = 1}} {{
  %b = bid() {{axis = 0}} : i32
  %o = mul(%b, %m) : i32
  %q = ptr_offset(%p, %o) : ptr<f32>
  %s = gpu.splat(%q) {{type = !ptr<f32>[128]{LANES}}} : ptr<f32>[128]{LANES}
  %i = iota() {{type = !i32[128]{LANES}}} : i32[128]{LANES}
  %a = ptr_offset(%s, %i) : ptr<f32>[128]{LANES}
  %c = cmp(%b, %n) {{predicate = CmpPredicate.LT}} : i1
  %d = gpu.splat(%c) {{type = !i1[128]{LANES}}} : i1[128]{LANES}
  %e = gpu.splat(%m) {{type = !i32[128]{LANES}}} : i32[128]{LANES}
  %g = cmp(%i, %e) {{predicate = CmpPredicate.LT}} : i1[128]{LANES}
  %h = and(%d, %g) : i1[128]{LANES}
  %x = gpu.load(%a, %h, _) {{vector = 4}} : f32[128]{LANES}
{more}  %r = gpu.thread_reduce([%x]) {{axis = 0}} : f32[32]{PARTS} {{ ^(%u: f32, %v: f32)
    %w = add(%u, %v) : f32
    yield([%w])
  }}
  %z = mul(%x, %x) : f32[128]{LANES}
  %t = gpu.thread_reduce([%z]) {{axis = 0}} : f32[32]{PARTS} {{ ^(%aa: f32, %bb: f32)
    %cc = add(%aa, %bb) : f32
    yield([%cc])
  }}
  %j = iota() {{type = !i32[32]{PARTS}}} : i32[32]{PARTS}
  %k = gpu.splat(%y) {{type = !ptr<f32>[32]{PARTS}}} : ptr<f32>[32]{PARTS}
  %l = ptr_offset(%k, %j) : ptr<f32>[32]{PARTS}
  %both = add(%r, %t) : f32[32]{PARTS}
  gpu.store(%l, %both, _)
  return()
}}
"""


def test_the_row_of_a_later_block_is_prefetched() -> None:
    """An SM holds 51 warps of 40 registers. Conditions and lengths are those of the later block."""
    after = """\
  %0 = constant() {value = 102, type = !i32} : i32
  %1 = add(%b, %0) : i32
  %o_1 = mul(%1, %m) : i32
  %q_1 = ptr_offset(%p, %o_1) : ptr<f32>
  %c_1 = cmp(%1, %n) {predicate = CmpPredicate.LT} : i1
  %2 = num_blocks() {axis = 0} : i32
  %3 = cmp(%1, %2) {predicate = CmpPredicate.LT} : i1
  %4 = and(%3, %c_1) : i1
  %5 = constant() {value = 128, type = !i32} : i32
  %6 = min(%m, %5) : i32
  gpu.prefetch(%q_1, %6, %4)
"""
    check(PrefetchRows(sms=2, most_ctas=64), rows(""), rows(after), settles=False)


@ct.kernel
def centered(x, out, T: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO)
    values = values - ct.max(values, axis=1, keepdims=True)
    ct.store(out, (row, 0), values / ct.sum(values, axis=1, keepdims=True))


@ct.kernel
def gathered(x, out, T: ct.Constant[int]):
    row, at = ct.bid(0), ct.arange(T, dtype=ct.int32)
    values = ct.gather(x, (row, at), padding_value=0)
    values = values - ct.max(values)
    ct.scatter(out, (row, at), values / ct.sum(values))


@pytest.mark.parametrize("kernel", [centered, gathered])
def test_nothing_outside_of_the_array_is(kernel: ct.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The grid has more blocks than the array rows, and the tile more columns."""
    monkeypatch.setattr(lowering, "PrefetchRows", functools.partial(PrefetchRows, sms=1, most_ctas=64))
    x, out = np.random.default_rng(1).random((55, 252), np.float32), np.zeros((55, 252), np.float32)
    with interpreter_backend(1, target="sm_90") as backend:
        ct.launch(None, (60,), kernel, (x, out, 256), backend=backend)
    top = np.maximum(x.max(1, keepdims=True), 0)  # four columns of the tile are padded with zeros
    x -= top
    np.testing.assert_allclose(out, x / (x.sum(1, keepdims=True) - 4 * top), rtol=1e-4)


@pytest.mark.parametrize("kernel", [centered, gathered])
@pytest.mark.parametrize(
    ("target", "columns", "count"), [("sm_90", 32768, 1), ("sm_80", 32768, 0), ("sm_90", 16384, 0), ("sm_90", 256, 0)]
)
def test_which_kernels_do(kernel: ct.Kernel, target: str, columns: int, count: int) -> None:
    """Those of which few blocks have room on an SM, with so little that the cache holds it, where the instruction is."""
    x = np.zeros((2, columns), np.float32)
    function = specialization(kernel, (x, x.copy(), columns), "reference").function
    made = compile_to_ptx(function, target, None, how=Constraints(across=1))
    assert made.ptx.count("cp.async.bulk.prefetch.L2.global") == count


@pytest.mark.parametrize("kernel", [centered, gathered])
@pytest.mark.parametrize("columns", [8192, 32768])
def test_rows_are_prefetched_when_those_of_the_block_are_there(kernel: ct.Kernel, columns: int) -> None:
    """Behind the barrier of the first reduction, or at once by a block that is alone on an SM."""
    x = np.zeros((2, columns), np.float16 if columns == 8192 else np.float32)
    function = specialization(kernel, (x, x.copy(), columns), "reference").function
    made = compile_to_ptx(function, "sm_90", None, how=Constraints(across=1))
    kinds = [type(op) for op in made.distributed.body.ops if isinstance(op, (GlobalLoad, Barrier, Prefetch))]
    first = [GlobalLoad, Barrier, Prefetch] if columns == 8192 else [GlobalLoad, Prefetch, Barrier]
    assert kinds == [*first, Barrier]


@ct.kernel
def normed(x, weight, out, T: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, T))
    values = values - ct.sum(values, axis=1, keepdims=True) / T
    w = ct.load(weight, (0,), (T,)).reshape((1, T))
    ct.store(out, (row, 0), values * ct.rsqrt(ct.sum(values * values, axis=1, keepdims=True)) * w)


def test_a_cta_of_a_cluster_asks_for_its_part_of_a_row_and_not_for_that_of_a_vector() -> None:
    """The one that has its place later has the same part: of the vector it needs what is there."""
    x, w = np.zeros((2, 65536), np.float16), np.zeros(65536, np.float16)
    function = specialization(normed, (x, w, x.copy(), 65536), "reference").function
    made = compile_to_ptx(function, "sm_90", None)
    (prefetch,) = made.distributed.ops_of(Prefetch)
    names = {v.name for v in reachable([prefetch.base], lambda v: () if v.op is None else v.op.operands)}
    assert made.num_ctas == 8 and "x" in names and "weight" not in names
