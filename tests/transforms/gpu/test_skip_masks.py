"""Masks that MMA loops compute where they have to: text in and text out, and the same results."""

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
from tilewright.ir.ops.arith import And
from tilewright.ir.ops.control import For, If
from tilewright.ir.parser import parse_function
from tilewright.transforms.gpu.merge_loops import MergeLoops
from tilewright.transforms.gpu.skip_masks import SkipMasks
from tilewright.transforms.instrumentation import observed_passes

HEAD = """
func @masked(%x: ptr<f32> = "x".base noalias, %o: ptr<f32> = "o".base noalias, %a: i32 = "a".scalar,
             %c: i32 = "c".scalar) {
  %zero = constant() {value = 0, type = !i32} : i32
  %one = constant() {value = 1, type = !i32} : i32
  %width = constant() {value = 32, type = !i32} : i32
  %none = constant() {value = 0.0, type = !f32[32,32]} : f32[32,32]
  %ones = constant() {value = 1.0, type = !f32[32,32]} : f32[32,32]
  %low = constant() {value = -9.0, type = !f32[32,32]} : f32[32,32]
  %numbers = iota() {type = !i32[32]} : i32[32]
  %down = reshape(%numbers) {shape = (32, 1)} : i32[32,1]
  %along = reshape(%numbers) {shape = (1, 32)} : i32[1,32]
  %aa = reshape(%a) {shape = (1, 1)} : i32[1,1]
  %wa = broadcast(%aa) {shape = (32, 1)} : i32[32,1]
  %first = add(%wa, %down) : i32[32,1]
  %rows = broadcast(%first) {shape = (32, 32)} : i32[32,32]
  %sum = for(%zero, %c, %one, [%none]) : f32[32,32] { ^(%j: i32, %s: f32[32,32])
    %at = mul(%j, %width) : i32"""
MASK = """
    %jj = reshape(%at) {shape = (1, 1)} : i32[1,1]
    %wj = broadcast(%jj) {shape = (1, 32)} : i32[1,32]
    %key = add(%wj, %along) : i32[1,32]
    %columns = broadcast(%key) {shape = (32, 32)} : i32[32,32]
    %seen = cmp(%rows, %columns) {predicate = CmpPredicate.GE} : i1[32,32]"""
SCORES = """
    %scores = mma(%ones, %ones, %s) : f32[32,32]"""
SELECT = """
    %chosen = select(%seen, %scores, %low) : f32[32,32]"""
TAIL = """
    continue([%chosen])
  }
  %view = make_tensor_view(%o, [], []) {type = !view<f32,[32,32],[32,1],i32>} : view<f32,[32,32],[32,1],i32>
  %tiles = make_partition_view(%view) {type = !partition<view<f32,[32,32],[32,1],i32>,[32,32],[0,1],zero,[32,32]>} : \
partition<view<f32,[32,32],[32,1],i32>,[32,32],[0,1],zero,[32,32]>
  store_view(%tiles, %sum, [%zero, %zero]) {in_bounds = (true, true)}
  return()
}
"""
BEFORE = HEAD + MASK + SCORES + SELECT + TAIL


def deeper(text: str) -> str:
    return text.replace("\n", "\n  ")


def inside(text: str) -> str:
    """``text`` in the branch, with names of its own."""
    for name in ("jj", "wj", "key", "columns", "seen", "chosen"):
        text = text.replace(f"%{name}", f"%{name}2")
    return deeper(text)


def test_a_mask_is_computed_where_it_hides_something() -> None:
    """A tile has all its scores where the last of its columns, 31 after the first, is no later than the first row."""
    branch = f"""
    %last = constant() {{value = -31, type = !i64}} : i64
    %a64 = cast(%a) {{dtype = i64}} : i64
    %begin = add(%last, %a64) : i64
    %at64 = cast(%at) {{dtype = i64}} : i64
    %less = constant() {{value = -1, type = !i64}} : i64
    %minus = mul(%at64, %less) : i64
    %apart = add(%begin, %minus) : i64
    %nothing = constant() {{value = 0, type = !i64}} : i64
    %plain = cmp(%apart, %nothing) {{predicate = CmpPredicate.GE}} : i1
    %chosen = if(%plain) {{types = (!f32[32,32])}} : f32[32,32] {{
      yield([%scores])
    }} {{{inside(MASK + SELECT)}
      yield([%chosen2])
    }}"""
    check(SkipMasks(), BEFORE, HEAD + MASK + SCORES + branch + TAIL, names=False)


BIAS = """
    %bias = select(%seen, %none, %low) : f32[32,32]
    %chosen = add(%scores, %bias) : f32[32,32]"""
WINDOW = """
    %apart = sub(%rows, %columns) : i32[32,32]
    %limit = constant() {value = 40, type = !i32[32,32]} : i32[32,32]
    %late = cmp(%apart, %limit) {predicate = CmpPredicate.GT} : i1[32,32]
    %early = not(%seen) : i1[32,32]
    %hidden = or(%late, %early) : i1[32,32]
    %chosen = select(%hidden, %low, %scores) : f32[32,32]"""


@pytest.mark.parametrize("select", [SELECT, BIAS, WINDOW], ids=["select", "bias", "window"])
@pytest.mark.parametrize("begin", [-40, -1, 0, 1, 31, 32, 33, 63, 200])
def test_results(select: str, begin: int) -> None:
    """Of tiles before, at and after each edge of a mask."""
    before = HEAD + MASK + SCORES + select + TAIL
    found = []
    for function in (parse_function(before), SkipMasks().run(parse_function(before))):
        o = np.full((32, 32), np.nan, np.float32)
        run(REFERENCE, function, x=o, o=o, a=begin, c=3)
        found.append(o)
        assert len(function.ops_of(If)) == len(found) - 1
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("CmpPredicate.GE} : i1[32,32]", "CmpPredicate.EQ} : i1[32,32]"),  # no tile is equal to its mask
        ("select(%seen, %scores, %low)", "select(%seen, %scores, %s)"),  # two things to choose between
        ("mma(%ones, %ones, %s)", "add(%ones, %s)"),
        ("%key = add(%wj, %along)", "%key = mul(%wj, %along)"),  # bounds that are not known
    ],
)
def test_other_loops_stay(old: str, new: str) -> None:
    assert BEFORE.count(old) == 1
    assert not SkipMasks().run(parse_function(BEFORE.replace(old, new))).ops_of(If)


def attended(
    q: ct.Array, k: ct.Array, v: ct.Array, o: ct.Array,
    M: ct.Constant[int], N: ct.Constant[int], D: ct.Constant[int], WINDOW: ct.Constant[int], BIAS: ct.Constant[bool],
    SPLIT: ct.Constant[bool],
) -> None:  # fmt: skip
    """Causal attention in a window as one loop that masks each step, or as one of two that are alike but for that."""
    i = ct.bid(0)
    x = ct.load(q, (i, 0), (M, D))
    total = ct.zeros((M, D), ct.float32)
    most, size = ct.full((M, 1), -1e30, ct.float32), ct.zeros((M, 1), ct.float32)
    rows, columns = i * M + ct.arange(M, dtype=ct.int32)[:, None], ct.arange(N, dtype=ct.int32)[None, :]
    first = max(i * M - WINDOW + 1, 0) // N
    if SPLIT:
        for j in range(first, first):
            scores = ct.mma(x, ct.transpose(ct.load(k, (j, 0), (N, D))), ct.zeros((M, N), ct.float32))
            now = ct.maximum(most, ct.max(scores, axis=1, keepdims=True))
            weights, old = ct.exp(scores - now), ct.exp(most - now)
            size = size * old + ct.sum(weights, axis=1, keepdims=True)
            total = ct.mma(weights.astype(q.dtype), ct.load(v, (j, 0), (N, D)), total * old)
            most = now
    for j in range(first, ct.cdiv((i + 1) * M, N)):
        scores = ct.mma(x, ct.transpose(ct.load(k, (j, 0), (N, D))), ct.zeros((M, N), ct.float32))
        seen = (rows >= j * N + columns) & (rows < j * N + columns + WINDOW)
        if BIAS:
            scores = scores + ct.where(seen, 0.0, -1e6)
        else:
            scores = ct.where(seen, scores, -1e6)
        now = ct.maximum(most, ct.max(scores, axis=1, keepdims=True))
        weights, old = ct.exp(scores - now), ct.exp(most - now)
        size = size * old + ct.sum(weights, axis=1, keepdims=True)
        total = ct.mma(weights.astype(q.dtype), ct.load(v, (j, 0), (N, D)), total * old)
        most = now
    ct.store(o, (i, 0), (total / size).astype(o.dtype))


@pytest.mark.parametrize("make", [interpreter_backend, ptx_backend])
@pytest.mark.parametrize(
    ("M", "N", "bias", "split"),
    [(64, 64, False, False), (64, 32, True, False), (128, 64, True, False), (128, 32, False, True)],
)
def test_attention_in_a_window(make: Any, M: int, N: int, bias: bool, split: bool) -> None:
    rng, length, window = np.random.default_rng(M + N), 256, 100
    q, k, v, o = (aligned((length, 64), np.float16) for _ in range(4))
    for x in (q, k, v):
        x[...] = rng.standard_normal(x.shape) / 4
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == MergeLoops.name:
            found.append(function)

    with observed_passes(see), make(None, target="sm_90") as backend:
        arguments = q, k, v, o, M, N, 64, window, bias, split
        ct.launch(None, (length // M,), ct.kernel(attended), arguments, backend=backend)
    seen = np.tri(length, dtype=bool) & ~np.tri(length, k=-window, dtype=bool)
    scores = np.where(seen, q.astype(np.float64) @ k.astype(np.float64).T, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    wanted = weights @ v.astype(np.float64) / weights.sum(1, keepdims=True)
    assert np.abs(o.astype(np.float64) - wanted).max() < 2e-3
    (loop,) = found[-1].ops_of(For)
    (branch,) = (op for op in loop.body.ops if isinstance(op, If))
    assert isinstance(branch.condition.op, And)
