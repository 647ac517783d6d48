"""Accesses through pointers that become those of views: as text, and by what kernels compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.passes import check

import tilewright as ct
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.ir.ops.memory import Load, LoadView, Store, StoreView
from tilewright.runtime.launch import specialization
from tilewright.transforms.raise_to_views import RaiseToViews

MASKED_STORE = """
func @f(%p: ptr<f32> = "p".base, %n: i32 = "n".scalar, %x: f32 = "x".scalar) {
  %i = bid() {axis = 0} : i32
  %c = constant() {value = 8, type = !i32} : i32
  %s = mul(%i, %c) : i32
  %r = reshape(%s) {shape = (1)} : i32[1]
  %b = broadcast(%r) {shape = (8)} : i32[8]
  %k = iota() {type = !i32[8]} : i32[8]
  %a = add(%b, %k) : i32[8]
  %m = reshape(%n) {shape = (1)} : i32[1]
  %l = broadcast(%m) {shape = (8)} : i32[8]
  %t = cmp(%a, %l) {predicate = CmpPredicate.LT} : i1[8]
  %q = reshape(%p) {shape = (1)} : ptr<f32>[1]
  %d = broadcast(%q) {shape = (8)} : ptr<f32>[8]
  %o = ptr_offset(%d, %a) : ptr<f32>[8]
  %y = reshape(%x) {shape = (1)} : f32[1]
  %v = broadcast(%y) {shape = (8)} : f32[8]
"""
RAISED = """
  %e = cast(%n) {dtype = i64} : i64
  %z = constant() {value = 0, type = !i64} : i64
  %h = max(%e, %z) : i64
  %w = make_tensor_view(%p, [%h], []) {type = !view<f32,[?],[1],i64>} : view<f32,[?],[1],i64>
  %u = make_partition_view(%w) {type = !partition<view<f32,[?],[1],i64>,[8],[0],undetermined,[8]>}
    : partition<view<f32,[?],[1],i64>,[8],[0],undetermined,[8]>
  store_view(%u, %v, [%i]) {in_bounds = (false)}
  return()
}
"""


def test_a_masked_store_of_consecutive_elements_is_one_of_a_view() -> None:
    check(RaiseToViews(), MASKED_STORE + "store(%o, %v, %t)\n return()\n}", MASKED_STORE + RAISED, names=False)


def test_tiles_of_fewer_axes_stay_pointers() -> None:
    text = MASKED_STORE + "store(%o, %v, %t)\n return()\n}"
    check(RaiseToViews(rank=2), text, text)


@ct.kernel
def masked(x, y, out, n):
    i = ct.bid(0) * 16 + ct.arange(16, dtype=ct.int32)
    found = ct.gather(x, i, mask=i < n, padding_value=-np.inf) + ct.gather(y, i + 1)
    ct.scatter(out, i, found, mask=(i >= 3) & (i <= n))


@ct.kernel
def transposed(x, y, out, n):
    rows, columns = ct.arange(8, dtype=ct.int64)[:, None], ct.bid(0) * 16 + ct.arange(16, dtype=ct.int32)[None, :]
    ct.scatter(out, (columns, rows), ct.gather(x, (rows, columns)) + ct.gather(y, (n, columns)))


@ct.kernel
def overlapping(x, y, out, n):
    i = ct.arange(32, dtype=ct.int32)
    ct.scatter(x, i + 1, ct.gather(x, i) + ct.gather(y, 31 - i))
    ct.scatter(out, i, ct.gather(x, i, check_bounds=False), mask=n > 4)


@ct.kernel
def wrapping(x, y, out, n):
    i = n + 0x7FFFFFF0 + ct.arange(16, dtype=ct.int32)
    j = ct.bid(0).astype(ct.uint32) + ct.arange(16, dtype=ct.uint32)
    ct.scatter(out, j, ct.gather(x, i, padding_value=np.inf) + ct.gather(y, i - 0x7FFFFFE0))


@ct.kernel
def unsigned(x, y, out, n):
    i = ct.bid(0).astype(ct.uint32) * 2**20 + ct.arange(16, dtype=ct.uint32)
    j = (n * 16).astype(ct.int64).astype(ct.uint64) + ct.arange(16, dtype=ct.uint64)
    k = n.astype(ct.uint32) + ct.arange(16, dtype=ct.uint32)  # which wraps around, to elements that there are
    below = (n.astype(ct.int64) + 2).astype(ct.uint64)
    ct.scatter(out, i, ct.gather(x, j) + ct.gather(y, k) + ct.gather(x, i, mask=i < below))


@ct.kernel
def triangle(x, y, out, n):
    i, j = ct.arange(8, dtype=ct.int32)[:, None], ct.arange(8, dtype=ct.int32)[None, :]
    row = ct.bid(0) + n - 7
    found = ct.gather(x, (row, j), mask=j <= row) + ct.gather(y, (i, j), mask=j <= i)
    ct.scatter(out, (i, j), ct.broadcast_to(found, (8, 8)))


@ct.kernel
def multiples(x, y, out, n):
    i = ct.arange(16, dtype=ct.int32)
    found = ct.gather(x, 2 * i) + ct.gather(y, 3 * i + 1, mask=3 * i + 1 <= n)
    ct.scatter(out, i * 4, found)


LONG, FLAT = (37,), (5, 37)
# The blocks, the shapes of x, y and out, and how many accesses stay as they are.
KERNELS: dict[str, tuple[Callable[..., Any], int, list[tuple[int, ...]], int]] = {
    "masks": (masked, 3, [LONG, LONG, LONG], 0),
    "a transposition": (transposed, 3, [FLAT, FLAT, FLAT[::-1]], 0),
    "overlapping stores": (overlapping, 1, [LONG, LONG, LONG], 0),
    "indices that wrap around": (wrapping, 1, [LONG, LONG, LONG], 0),
    "unsigned indices": (unsigned, 2, [LONG, LONG, LONG], 2),
    "a mask of two axes": (triangle, 1, [FLAT, FLAT, FLAT], 1),
    "multiples from 0 on": (multiples, 1, [LONG, LONG, LONG], 0),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n", [-1, 4, 40])
def test_kernels_compute_the_same(name: str, n: int) -> None:
    kernel, blocks, shapes, kept = KERNELS[name]
    outcomes = []
    for backend in ("reference", "cpu"):
        arrays = [np.arange(np.prod(s), dtype=np.float32).reshape(s) * (k + 1) for k, s in enumerate(shapes)]
        ct.launch(None, (blocks,), kernel, (*arrays, n), backend=backend)
        outcomes.append(arrays)
    for reference, found in zip(*outcomes):
        np.testing.assert_array_equal(found, reference)
    ops = list(optimize(specialization(kernel, (*arrays, n), "cpu").function).walk())
    pointers, views = ([op for op in ops if isinstance(op, kinds)] for kinds in ((Load, Store), (LoadView, StoreView)))
    assert len(pointers) == kept
    assert views


STRIDED = """
func @f(%p: ptr<f32> = "p".base, %n: i32 = "n".scalar, %s: i32 = "s".scalar) {
  %r = reshape(%s) {shape = (1)} : i32[1]
  %b = broadcast(%r) {shape = (8)} : i32[8]
  %k = iota() {type = !i32[8]} : i32[8]
  %a = sub(%b, %k) : i32[8]
  %c = constant() {value = 2, type = !i32[8]} : i32[8]
  %e = mul(%a, %c) : i32[8]
  %z = constant() {value = 0, type = !i32[8]} : i32[8]
  %t = cmp(%e, %z) {predicate = CmpPredicate.GE} : i1[8]
  %q = reshape(%p) {shape = (1)} : ptr<f32>[1]
  %d = broadcast(%q) {shape = (8)} : ptr<f32>[8]
  %o = ptr_offset(%d, %e) : ptr<f32>[8]
  %f = constant() {value = 4, type = !i32[8]} : i32[8]
  %u = cmp(%e, %f) {predicate = CmpPredicate.LT} : i1[8]
  %m = and(%t, %u) : i1[8]
"""
EVERY_OTHER = """
  %0 = cast(%s) {dtype = i64} : i64
  %1 = constant() {value = 2, type = !i64} : i64
  %2 = mul(%0, %1) : i64
  %3 = cast(%2) {dtype = i32} : i32
  %4 = cast(%3) {dtype = i64} : i64
  %5 = constant() {value = 1, type = !i64} : i64
  %6 = add(%4, %5) : i64
  %7 = constant() {value = -4, type = !i64} : i64
  %8 = add(%7, %6) : i64
  %9 = constant() {value = 2, type = !i64} : i64
  %10 = div(%8, %9) {rounding = RoundingMode.RP} : i64
  %11 = constant() {value = 2, type = !i64} : i64
  %12 = div(%6, %11) {rounding = RoundingMode.RP} : i64
  %13 = constant() {value = 0, type = !i64} : i64
  %14 = max(%10, %13) : i64
  %15 = constant() {value = -1, type = !i64} : i64
  %16 = mul(%14, %15) : i64
  %17 = add(%12, %16) : i64
  %18 = constant() {value = 0, type = !i64} : i64
  %19 = max(%17, %18) : i64
  %20 = constant() {value = -2, type = !i64} : i64
  %21 = mul(%14, %20) : i64
  %22 = cast(%3) {dtype = i64} : i64
  %23 = add(%22, %21) : i64
  %24 = constant() {value = -1, type = !i64} : i64
  %25 = mul(%14, %24) : i64
  %26 = ptr_offset(%p, %23) : ptr<f32>
  %27 = make_tensor_view(%26, [%19], []) {type = !view<f32,[?],[-2],i64>} : view<f32,[?],[-2],i64>
  %28 = make_partition_view(%27) {type = !partition<view<f32,[?],[-2],i64>,[8],[0],zero,[1]>}
    : partition<view<f32,[?],[-2],i64>,[8],[0],zero,[1]>
  %29 = load_view(%28, [%25]) {in_bounds = (false)} : f32[8]
  print([%29]) {parts = (none), formats = ("")}
  return()
}
"""


def test_every_other_element_backwards_is_a_view_of_those() -> None:
    rest = 'print([%l]) {parts = (none), formats = ("")}\n return()\n}'
    check(RaiseToViews(), STRIDED + "%l = load(%o, %m, _) : f32[8]\n" + rest, STRIDED + EVERY_OTHER, names=False)


@ct.kernel
def strided(x, out, n, FACTOR: ct.Constant[int], ADDED: ct.Constant[int]):
    i = FACTOR * (n - 16 + ct.arange(32, dtype=ct.int32)) + ADDED
    j = ADDED - FACTOR * (n + ct.arange(32, dtype=ct.int32))
    found = ct.gather(x, i, mask=i < 61, padding_value=7.0) + ct.gather(x, j, mask=(j > 3) & (i >= n))
    ct.scatter(out, i, found, mask=i != 5)
    ct.scatter(out, j + 1, found)


@pytest.mark.parametrize("factor", [-3, -1, 2, 5])
@pytest.mark.parametrize("n", [-70, -3, 0, 15, 61, 2**30 + 3, -(2**31) + 40])
def test_multiples_of_indices_reach_the_same_elements(factor: int, n: int) -> None:
    for added in (0, 1, 66):
        outs = []
        for backend in ("reference", "cpu"):
            x, out = np.arange(1.0, 65.0, dtype=np.float32), np.zeros(64, np.float32)
            ct.launch(None, (1,), strided, (x, out, n, factor, added), backend=backend)
            outs.append(out)
        np.testing.assert_array_equal(*outs)
