"""Kernels whose MMA ops need more registers than two warp groups have are divided among CTAs: text in and text out, and kernels."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_attention import attended, backward_of_queries
from support.gpu_products import aligned, matmul
from support.passes import check

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.ir.core import Function
from tilewright.ir.ops.linear import Mma
from tilewright.ir.verifier import verify
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.split_mma import SplitMma
from tilewright.transforms.gpu.tile_splitting import cluster_size
from tilewright.transforms.pipelines import optimize

VIEW = "view<f16,[?,?],[?,1],i32>"


def tiles(m: int, n: int) -> str:
    return f"partition<{VIEW},[{m},{n}],[0,1],zero,[{m},{n}]>"


def product(rows: int, number: str, block: str, hints: str = "") -> str:
    """A product of 256 columns: of ``rows``, those at ``block``, where ``number`` says which ones these are."""
    return f"""
func @f(%p: ptr<f16> = "x".base noalias, %m: i32 = "x".shape.0, %n: i32 = "x".shape.1, %s: i32 = "x".stride.0,
        %q: ptr<f16> = "y".base noalias){hints} {{
{number}
  %u = make_tensor_view(%p, [%m, %n], [%s]) {{type = !{VIEW}}} : {VIEW}
  %b = make_partition_view(%u) {{type = !{tiles(32, 256)}}} : {tiles(32, 256)}
  %v = make_tensor_view(%q, [%m, %n], [%s]) {{type = !{VIEW}}} : {VIEW}
  %z = constant() {{value = 0.0, type = !f32[{rows},256]}} : f32[{rows},256]
  %a = make_partition_view(%u) {{type = !{tiles(rows, 32)}}} : {tiles(rows, 32)}{block}
  %x = load_view(%a, [%row, %m]) {{in_bounds = (false, false)}} : f16[{rows},32]
  %y = load_view(%b, [%m, %m]) {{in_bounds = (false, false)}} : f16[32,256]
  %w = mma(%x, %y, %z) : f32[{rows},256]
  %r = cast(%w) {{dtype = f16}} : f16[{rows},256]
  %c = make_partition_view(%v) {{type = !{tiles(rows, 256)}}} : {tiles(rows, 256)}
  store_view(%c, %r, [%row, %m]) {{in_bounds = (false, false)}}
  return()
}}
"""


def test_each_of_two_ctas_multiplies_half_of_the_rows() -> None:
    """Indices stay in 32 bits when they are doubled: tiles that far away are outside of every array."""
    halves = """
  %i = bid() {axis = 0} : i32
  %one = constant() {value = 1, type = !i32} : i32
  %half = and(%i, %one) : i32
  %whole = shr(%i, %one) : i32"""
    clamped = """
  %least = constant() {value = -1073741824, type = !i32} : i32
  %above = max(%whole, %least) : i32
  %most = constant() {value = 1073741823, type = !i32} : i32
  %between = min(%above, %most) : i32
  %two = constant() {value = 2, type = !i32} : i32
  %first = mul(%between, %two) : i32
  %row = add(%first, %half) : i32"""
    before = product(256, "  %row = bid() {axis = 0} : i32", "")
    after = product(128, halves, clamped, " hints {num_ctas = 1}")
    check(SplitMma(parse_target("sm_90")), before, after, names=False)


def multiplied(m: int, n: int, dtype: type = np.float16) -> Function:
    a, b, c = (aligned((512, 512), dtype) for _ in range(3))
    return specialization(ct.kernel(matmul), (a, b, c, m, n, 32, False, False, ct.float32, False), "reference").function


def gradients(queries: int, keys: int) -> Function:
    """Those of ``queries`` of width 64, of ``keys`` in a step."""
    arrays = [aligned((512, 64), np.float16) for _ in range(5)]
    of_rows = [aligned((512,), np.float32) for _ in range(2)]
    args = (*arrays[:4], *of_rows, arrays[4], queries, keys, 64)
    return specialization(backward_of_queries, args, "reference").function


def sums(function: Function, target: str = "sm_90") -> tuple[int, set[tuple[int, ...]]]:
    """How many CTAs run a block, and the shapes of the sums in one of them."""
    made = SplitMma(parse_target(target)).run(optimize(function))
    verify(made)
    shapes = {op.acc.tile.shape for op in made.walk() if isinstance(op, Mma)}
    return AnalysisManager(made).get(cluster_size), shapes


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (attended(256, 128, 128), (2, {(128, 128)})),
        (attended(256, 128, 64), (4, {(64, 128), (64, 64)})),  # with few keys, of which CTAs of one warp group pay
        (attended(128, 64, 128), (2, {(64, 64), (64, 128)})),
        (attended(128, 64, 64, occupancy=1), (1, {(128, 64)})),
        (attended(256, 128, 256), (2, {(128, 128), (128, 256)})),
        (multiplied(256, 256), (2, {(128, 256)})),
        (attended(256, 64, 64, occupancy=1), (1, {(256, 64)})),  # 128 words of sums and 32 of weights
        (attended(128, 128, 128), (1, {(128, 128)})),
        (gradients(128, 64), (2, {(64, 64)})),
        (gradients(64, 64), (1, {(64, 64)})),
        (gradients(128, 128), (1, {(128, 128), (128, 64)})),
        (multiplied(128, 256), (1, {(128, 256)})),
    ],
)
def test_rows_are_halved_until_registers_suffice(function: Function, wanted: tuple[int, set[tuple[int, ...]]]) -> None:
    assert sums(function) == wanted


@ct.kernel
def with_sums(q, k, v, o, sums, more, TWICE: ct.Constant[bool]):  # type: ignore[no-untyped-def]
    """Attention that also scatters the sums of weights, to one array or to two."""
    rows = ct.bid(0) * 128 + ct.arange(128, dtype=ct.int32)
    x, total = ct.load(q, (ct.bid(0), 0), (128, 64)), ct.zeros((128, 64), ct.float32)
    size = ct.zeros((128,), ct.float32)
    for j in range(ct.cdiv(k.shape[0], 128)):
        y, z = ct.load(k, (j, 0), (128, 64)), ct.load(v, (j, 0), (128, 64))
        weights = ct.exp(ct.mma(x, ct.transpose(y), ct.zeros((128, 128), ct.float32)))
        size, total = size + ct.sum(weights, axis=1), ct.mma(weights.astype(q.dtype), z, total)
    ct.store(o, (ct.bid(0), 0), total.astype(o.dtype))
    ct.scatter(sums, rows, size)
    ct.scatter(sums if TWICE else more, rows // 2, size)


@pytest.mark.parametrize(("twice", "ctas"), [(False, 2), (True, 1)])
def test_scattered_tiles_are_halved_where_nothing_else_is_stored_to_their_array(twice: bool, ctas: int) -> None:
    arrays = [*(aligned((512, 64), np.float16) for _ in range(4)), *(aligned((512,), np.float32) for _ in range(2))]
    function = specialization(with_sums, (*arrays, twice), "reference").function
    assert sums(function)[0] == ctas


def test_rows_stay_where_no_warp_groups_multiply() -> None:
    assert sums(attended(256, 128, 128), "sm_80") == (1, {(256, 128)})


def test_what_cannot_be_halved_stays_whole() -> None:
    @ct.kernel
    def summed(a, b, out):  # type: ignore[no-untyped-def]
        total = ct.zeros((256, 256), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 32)):
            total = ct.mma(ct.load(a, (0, k), (256, 32)), ct.load(b, (k, 0), (32, 256)), total)
        ct.atomic_add(out, (0,), ct.sum(total))

    a, b = aligned((256, 64), np.float16), aligned((64, 256), np.float16)
    function = specialization(summed, (a, b, np.zeros(1, np.float32)), "reference").function
    assert sums(function) == (1, {(256, 256)})


def test_all_products_are_of_warp_groups_then_and_a_hint_for_as_many_ctas_has_its_effect() -> None:
    made = compile_to_ptx(attended(256, 128, 128, num_ctas=2), "sm_90", None)
    assert made.num_ctas == 2
    lines = made.schedule.splitlines()
    assert "CTAs that run a block, whose MMA ops need more registers than one has: 2" in lines
    assert "ignored hints: none" in lines
    assert "mma.sync" not in made.schedule
    assert compile_to_ptx(attended(256, 128, 128), "sm_90", None, how=Constraints(descriptors=False)).num_ctas == 1
