"""Steps of loops that need too many registers are run as two of half as much: text in and text out, and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.gpu_attention import attended, backward_of_keys, backward_of_queries
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, aligned
from support.passes import check

import tilewright as ct
from tilewright.analysis.mma_graph import mma_loops
from tilewright.ir.core import Function
from tilewright.ir.ops.linear import Mma
from tilewright.ir.verifier import verify
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.split_steps import SplitSteps
from tilewright.transforms.pipelines import optimize

VIEW = "view<f16,[?,?],[?,1],i32>"


def tiles(m: int) -> str:
    return f"partition<{VIEW},[{m},64],[0,1],zero,[{m},64]>"


def summed(before: str, bounds: str, keys: str, more: str, step: int) -> str:
    """Sums of weights by ``step`` keys: scores of 64 queries, and what they are made of."""
    return f"""
func @f(%p: ptr<f16> = "x".base noalias, %m: i32 = "x".shape.0, %n: i32 = "x".shape.1, %s: i32 = "x".stride.0,
        %q: ptr<f16> = "y".base noalias) {{
  %row = bid() {{axis = 0}} : i32
  %zero = constant() {{value = 0, type = !i32}} : i32{before}
  %u = make_tensor_view(%p, [%m, %n], [%s]) {{type = !{VIEW}}} : {VIEW}
  %a = make_partition_view(%u) {{type = !{tiles(64)}}} : {tiles(64)}
  %x = load_view(%a, [%row, %zero]) {{in_bounds = (false, false)}} : f16[64,64]
{keys}
  %sum = for({bounds}, [%none]) : f32[64,64] {{ ^(%i: {"i32" if step == 256 else "i64"}, %acc: f32[64,64])
{more}
    %t = permute(%y) {{axes = (1, 0)}} : f16[64,{step}]
    %scores = mma(%x, %t, %z) : f32[64,{step}]
    %w = cast(%scores) {{dtype = f16}} : f16[64,{step}]
    %more = mma(%w, %y, %acc) : f32[64,64]
    continue([%more])
  }}
  %r = cast(%sum) {{dtype = f16}} : f16[64,64]
  %v = make_tensor_view(%q, [%m, %n], [%s]) {{type = !{VIEW}}} : {VIEW}
  %c = make_partition_view(%v) {{type = !{tiles(64)}}} : {tiles(64)}
  store_view(%c, %r, [%row, %zero]) {{in_bounds = (false, false)}}
  return()
}}
"""


def test_half_a_step_is_of_half_of_the_keys_and_bounds_are_doubled_in_64_bits() -> None:
    whole = summed(
        "\n  %one = constant() {value = 1, type = !i32} : i32",
        "%zero, %m, %one",
        f"""
  %k = make_partition_view(%u) {{type = !{tiles(256)}}} : {tiles(256)}
  %z = constant() {{value = 0.0, type = !f32[64,256]}} : f32[64,256]
  %none = constant() {{value = 0.0, type = !f32[64,64]}} : f32[64,64]""",
        "    %y = load_view(%k, [%i, %zero]) {in_bounds = (false, true)} : f16[256,64]",
        256,
    )
    halves = summed(
        "",
        "%first, %last, %single",
        f"""
  %none = constant() {{value = 0.0, type = !f32[64,64]}} : f32[64,64]
  %first = constant() {{value = 0, type = !i64}} : i64
  %end = cast(%m) {{dtype = i64}} : i64
  %single = constant() {{value = 1, type = !i64}} : i64
  %double = constant() {{value = 2, type = !i64}} : i64
  %last = mul(%end, %double) : i64
  %k = make_partition_view(%u) {{type = !{tiles(128)}}} : {tiles(128)}
  %least = constant() {{value = -1073741824, type = !i32}} : i32
  %most = constant() {{value = 1073741823, type = !i32}} : i32
  %two = constant() {{value = 2, type = !i32}} : i32
  %z = constant() {{value = 0.0, type = !f32[64,128]}} : f32[64,128]""",
        """
    %pair = shr(%i, %single) : i64
    %index = cast(%pair) {dtype = i32} : i32
    %odd = and(%i, %single) : i64
    %part = cast(%odd) {dtype = i32} : i32
    %above = max(%index, %least) : i32
    %between = min(%above, %most) : i32
    %of_pair = mul(%between, %two) : i32
    %tile = add(%of_pair, %part) : i32
    %y = load_view(%k, [%tile, %zero]) {in_bounds = (false, true)} : f16[128,64]""",
        128,
    )
    check(SplitSteps(), whole, halves, names=False)


def scores(function: Function) -> set[tuple[int, ...]]:
    """The shapes of the accumulators in the loops of ``function``, in steps that fit."""
    made = SplitSteps().run(optimize(function))
    verify(made)
    return {op.acc.tile.shape for loop in mma_loops(made) for op in loop.body.walk() if isinstance(op, Mma)}


def backward(kernel: Any, queries: int, keys: int, width: int) -> Function:
    arrays = [aligned((256, width), BF16) for _ in range(6)]
    sums = [aligned((256,), np.float32) for _ in range(2)]
    outs = arrays[4 : 5 if kernel is backward_of_queries else 6]
    return specialization(kernel, (*arrays[:4], *sums, *outs, queries, keys, width), "reference").function


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (backward(backward_of_keys, 128, 64, 128), {(64, 64), (64, 128)}),
        (backward(backward_of_keys, 128, 64, 64), {(64, 64)}),
        (backward(backward_of_keys, 256, 64, 128), {(64, 64), (64, 128)}),
        (backward(backward_of_keys, 64, 64, 128), {(64, 64), (64, 128)}),  # 208 words of sums and a left operand
        (backward(backward_of_keys, 128, 128, 128), {(128, 64), (128, 128)}),
        (backward(backward_of_queries, 64, 128, 128), {(64, 64), (64, 128)}),
        (backward(backward_of_keys, 128, 128, 64), {(128, 128), (128, 64)}),  # 224 words of two warp groups
        (attended(64, 256, 64), {(64, 256), (64, 64)}),  # the largest score is of all keys of a step
    ],
)
def test_steps_are_halved_until_registers_suffice(function: Function, wanted: set[tuple[int, ...]]) -> None:
    assert scores(function) == wanted


def test_steps_stay_whole_whose_loop_carries_or_stores_something_else() -> None:
    @ct.kernel
    def counted(q, k, out, COUNTS: ct.Constant[bool]):  # type: ignore[no-untyped-def]
        total, steps = ct.zeros((64, 64), ct.float32), 0
        for i in range(ct.cdiv(k.shape[0], 256)):
            keys = ct.load(k, (i, 0), (256, 64))
            found = ct.mma(ct.load(q, (0, 0), (64, 64)), ct.transpose(keys), ct.zeros((64, 256), ct.float32))
            total = ct.mma(found.astype(q.dtype), keys, total)
            if COUNTS:
                steps += 1
            else:
                ct.store(out, (i,), ct.full((1,), 1.0, ct.float32))
        ct.store(out, (0,), ct.sum(total).reshape((1,)) + steps)

    for counts in (False, True):
        arrays = aligned((64, 64), np.float16), aligned((512, 64), np.float16), aligned((8,), np.float32)
        assert scores(specialization(counted, (*arrays, counts), "reference").function) == {(64, 256), (64, 64)}


@pytest.mark.parametrize(("queries", "keys", "width"), [(128, 64, 128), (128, 64, 64)])
def test_gradients_of_keys_are_the_same(queries: int, keys: int, width: int) -> None:
    rng = np.random.default_rng(width)
    q, k, v, g = (aligned((256, width), BF16) for _ in range(4))
    for a in (q, k, v, g):
        a[...] = rng.standard_normal(a.shape) / 4
    made: Sequence[Any] = [aligned((256, width), BF16) for _ in range(2)]
    lse, delta = (aligned((256,), np.float32) for _ in range(2))
    lse[...], delta[...] = 5 + rng.random(256), rng.random(256)
    with interpreter_backend(None, target="sm_90") as backend:
        args = (q, k, v, g, lse, delta, *made, queries, keys, width)
        ct.launch(None, (256 // keys,), backward_of_keys, args, backend=backend)
    x, y, z, grads = (a.astype(np.float64) for a in (q, k, v, g))
    weights = np.exp2(x @ y.T - lse[:, None])
    change = weights * (grads @ z.T - delta[:, None])
    for got, want in zip(made, (change.T @ x, weights.T @ grads)):
        assert np.linalg.norm(got.astype(np.float64) - want) < 5e-3 * np.linalg.norm(want)
