"""MMA loops that count steps, and what follows from these: text in and text out, the same results, and what is loaded
ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import aligned
from support.irbuild import run
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.parser import parse_function
from tilewright.transforms.gpu.induction_variables import InductionVariables
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

# Two loops over adjoining ranges in steps of 4; each carries a number of which its tiles are.
BEFORE = """
func @counters(%x: ptr<f32> = "x".base noalias, %o: ptr<f32> = "o".base noalias, %a: i32 = "a".scalar,
               %c: i32 = "c".scalar) {
  %four = constant() {value = 4, type = !i32} : i32
  %two = constant() {value = 2, type = !i32} : i32
  %none = constant() {value = 0.0, type = !f32[4,4]} : f32[4,4]
  %ones = constant() {value = 1.0, type = !f32[4,4]} : f32[4,4]
  %middle = mul(%a, %four) : i32
  %first = constant() {value = 0, type = !i32} : i32
  %s, %last1 = for(%first, %middle, %four, [%none, %first]) : f32[4,4], i32 { ^(%i: i32, %s1: f32[4,4], %n1: i32)
    %f1 = cast(%n1) {dtype = f32} : f32
    %r1 = reshape(%f1) {shape = (1, 1)} : f32[1,1]
    %w1 = broadcast(%r1) {shape = (4, 4)} : f32[4,4]
    %t1 = mma(%ones, %w1, %s1) : f32[4,4]
    %m1 = add(%n1, %two) : i32
    continue([%t1, %m1])
  }
  %begun = div(%middle, %four) {rounding = RoundingMode.RM} : i32
  %one = constant() {value = 1, type = !i32} : i32
  %u, %last2 = for(%middle, %c, %four, [%s, %begun]) : f32[4,4], i32 { ^(%j: i32, %s2: f32[4,4], %n2: i32)
    %f2 = cast(%n2) {dtype = f32} : f32
    %g2 = cast(%j) {dtype = f32} : f32
    %h2 = add(%f2, %g2) : f32
    %r2 = reshape(%h2) {shape = (1, 1)} : f32[1,1]
    %w2 = broadcast(%r2) {shape = (4, 4)} : f32[4,4]
    %t2 = mma(%ones, %w2, %s2) : f32[4,4]
    %m2 = add(%n2, %one) : i32
    continue([%t2, %m2])
  }
  %view = make_tensor_view(%o, [], []) {type = !view<f32,[4,4],[4,1],i32>} : view<f32,[4,4],[4,1],i32>
  %tiles = make_partition_view(%view) {type = !partition<view<f32,[4,4],[4,1],i32>,[4,4],[0,1],zero,[4,4]>} : \
partition<view<f32,[4,4],[4,1],i32>,[4,4],[0,1],zero,[4,4]>
  store_view(%tiles, %u, [%first, %first]) {in_bounds = (true, true)}
  return()
}
"""


FIRST = """
  %begin = div(%first, %four) {rounding = RoundingMode.RM} : i32
  %limit = div(%middle, %four) {rounding = RoundingMode.RM} : i32
  %by = constant() {value = 1, type = !i32} : i32
  %s, %last1 = for(%begin, %limit, %by, [%none, %first]) : f32[4,4], i32 { ^(%i: i32, %s1: f32[4,4], %n1: i32)
    %count = sub(%i, %begin) : i32
    %each = constant() {value = 2, type = !i32} : i32
    %twice = mul(%count, %each) : i32
    %number = add(%first, %twice) : i32
    %key = mul(%i, %four) : i32
    %f1 = cast(%number)"""
SECOND = """
  %end = div(%c, %four) {rounding = RoundingMode.RP} : i32
  %by2 = constant() {value = 1, type = !i32} : i32
  %u, %last2 = for(%limit, %end, %by2, [%s, %begun]) : f32[4,4], i32 { ^(%j: i32, %s2: f32[4,4], %n2: i32)
    %at = mul(%j, %four) : i32
    %f2 = cast(%j) {dtype = f32} : f32
    %g2 = cast(%at)"""


def test_loops_count_steps() -> None:
    """The second loop begins where the first one ends, and its counter is the number of the step."""
    first, second = (BEFORE.index(f"\n  %{name} = for") for name in ("s, %last1", "u, %last2"))
    begins = [BEFORE.index(text) + len(text) for text in ("cast(%n1)", "cast(%j)")]
    after = BEFORE[:first] + FIRST + BEFORE[begins[0] : second] + SECOND + BEFORE[begins[1] :]
    after = after.replace("add(%n1, %two)", "add(%number, %two)").replace("add(%n2, %one)", "add(%j, %one)")
    check(InductionVariables(), BEFORE, after, names=False)


def skipping(
    a: ct.Array, b: ct.Array, skipped: ct.Array, c: ct.Array, N: ct.Constant[int], ADDS: ct.Constant[bool]
) -> None:
    """Tiles that follow each other, in the iterations that are not skipped."""
    total, tile = ct.zeros((64, 64), ct.float32), 0
    for i in range(N):
        if ct.load(skipped, (i,), ()) > 0:
            if ADDS:
                tile += 2
            continue
        total = ct.mma(ct.load(a, (0, tile), (64, 64)), ct.load(b, (tile, 0), (64, 64)), total)
        tile += 1
    ct.store(c, (0, 0), total)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("adds", [False, True])
def test_iterations_that_end_elsewhere(adds: bool, target: str) -> None:
    """What a loop carries does not follow from the induction variable then."""
    rng, skipped = np.random.default_rng(3), np.array([0, 1, 0, 0, 1, 0, 0, 0], np.int32)
    a, b, c = aligned((64, 640), np.float16), aligned((640, 64), np.float16), aligned((64, 64), np.float32)
    for x in (a, b):
        x[...] = rng.standard_normal(x.shape)
    with interpreter_backend(None, target=target) as backend:
        ct.launch(None, (1,), ct.kernel(skipping), (a, b, skipped, c, len(skipped), adds), backend=backend)
    steps = np.where(skipped, 2 * adds, 1)
    tiles = (np.cumsum(steps) - steps)[skipped == 0]
    wanted = sum(a[:, k * 64 : k * 64 + 64].astype(np.float64) @ b[k * 64 : k * 64 + 64] for k in tiles)
    np.testing.assert_allclose(c, wanted, atol=1e-3)


@pytest.mark.parametrize("limits", [(2, 17), (3, 12), (0, 4), (0, 0), (2, 5), (-2, 6), (-3, -1)])
def test_results(limits: tuple[int, int]) -> None:
    """Also where a range is empty, or ends between steps."""
    found = []
    for function in (parse_function(BEFORE), InductionVariables().run(parse_function(BEFORE))):
        o = np.full((4, 4), np.nan, np.float32)
        run(REFERENCE, function, x=o, o=o, a=limits[0], c=limits[1])
        found.append(o)
    np.testing.assert_array_equal(*found)
    assert np.isfinite(found[0]).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%m1 = add(%n1, %two)", "%m1 = mul(%n1, %two)"),  # no sum
        ("%m1 = add(%n1, %two)", "%m1 = add(%i, %two)"),  # of something else
        ("store_view(%tiles, %u, [%first,", "store_view(%tiles, %u, [%last1,"),  # the last one is needed
        ("%middle, %four, [%none", "%middle, %a, [%none"),  # steps that are not known
    ],
)
def test_other_counters_stay(old: str, new: str) -> None:
    assert BEFORE.count(old) == 1
    made = str(InductionVariables().run(parse_function(BEFORE.replace(old, new))))
    assert "cast(%n1)" in made


def counted(
    q: ct.Array, k: ct.Array, v: ct.Array, o: ct.Array, M: ct.Constant[int], N: ct.Constant[int], D: ct.Constant[int]
) -> None:
    """Causal attention whose loops count keys, and carry the number of a tile."""
    i = ct.bid(0)
    x = ct.load(q, (i, 0), (M, D))
    total = ct.zeros((M, D), ct.float32)
    most, size = ct.full((M, 1), -1e30, ct.float32), ct.zeros((M, 1), ct.float32)
    rows, columns = i * M + ct.arange(M, dtype=ct.int32)[:, None], ct.arange(N, dtype=ct.int32)[None, :]
    tile = 0
    for _ in range(0, i * M, N):
        scores = ct.mma(x, ct.transpose(ct.load(k, (tile, 0), (N, D))), ct.zeros((M, N), ct.float32))
        now = ct.maximum(most, ct.max(scores, axis=1, keepdims=True))
        weights, old = ct.exp(scores - now), ct.exp(most - now)
        size = size * old + ct.sum(weights, axis=1, keepdims=True)
        total = ct.mma(weights.astype(q.dtype), ct.load(v, (tile, 0), (N, D)), total * old)
        most = now
        tile += 1  # noqa: SIM113 - what is tested
    tile = i * M // N
    for j in range(i * M, (i + 1) * M, N):
        scores = ct.mma(x, ct.transpose(ct.load(k, (tile, 0), (N, D))), ct.zeros((M, N), ct.float32))
        scores = ct.where(rows >= j + columns, scores, -1e30)
        now = ct.maximum(most, ct.max(scores, axis=1, keepdims=True))
        weights, old = ct.exp(scores - now), ct.exp(most - now)
        size = size * old + ct.sum(weights, axis=1, keepdims=True)
        total = ct.mma(weights.astype(q.dtype), ct.load(v, (tile, 0), (N, D)), total * old)
        most = now
        tile += 1
    ct.store(o, (i, 0), (total / size).astype(o.dtype))


@pytest.mark.parametrize("make", [interpreter_backend, ptx_backend])
@pytest.mark.parametrize(("M", "N"), [(64, 32), (64, 64), (128, 64)])
def test_attention_that_counts_keys(make: Any, M: int, N: int) -> None:
    """The warps that multiply tiles of 64 rows load for themselves: they know which tiles further steps need."""
    rng, length = np.random.default_rng(M + N), 192 if M == 64 else 256
    q, k, v, o = (aligned((length, 64), np.float16) for _ in range(4))
    for x in (q, k, v):
        x[...] = rng.standard_normal(x.shape) / 4
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see), make(None, target="sm_90") as backend:
        ct.launch(None, (length // M,), ct.kernel(counted), (q, k, v, o, M, N, 64), backend=backend)
    scores = np.where(np.tri(length, dtype=bool), q.astype(np.float64) @ k.astype(np.float64).T, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    wanted = weights @ v.astype(np.float64) / weights.sum(1, keepdims=True)
    assert np.abs(o.astype(np.float64) - wanted).max() < 2e-3
    assert M > 64 or not found[-1].ops_of(WarpSpecialize)
