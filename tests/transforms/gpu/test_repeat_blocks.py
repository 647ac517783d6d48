"""CTAs that run several blocks of attention or products one after the other compute what each would alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_products import aligned
from support.gpu_stage import InterpreterBackend
from support.irbuild import launch_arguments
from support.passes import check
from support.ptx.backend import PtxBackend

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.analysis.mma_graph import mma_loops
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.join_blocks import JoinBlocks
from tilewright.transforms.gpu.repeat_blocks import RepeatBlocks
from tilewright.transforms.pipelines import optimize, run_passes


def heads(
    q: Any, k: Any, v: Any, o: Any, M: ct.Constant[int], D: ct.Constant[int], CAUSAL: ct.Constant[bool]
) -> None:  # fmt: skip
    """Blocks of queries along the first axis of the grid, the last one first, and heads along the second."""
    i, h = ct.num_blocks(0) - 1 - ct.bid(0), ct.bid(1)
    x = ct.load(q, (h, i, 0), (1, M, D)).reshape((M, D))
    total, size = ct.zeros((M, D), ct.float32), ct.zeros((M, 1), ct.float32)
    most = ct.full((M, 1), -1e30, ct.float32)
    for j in range((i + 1) * M // D if CAUSAL else k.shape[1] // D):
        y = ct.transpose(ct.load(k, (h, j, 0), (1, D, D)).reshape((D, D)))
        scores = ct.mma(x, y, ct.zeros((M, D), ct.float32))
        if CAUSAL:
            rows, columns = ct.arange(M, dtype=ct.int32)[:, None], ct.arange(D, dtype=ct.int32)[None, :]
            scores = ct.where(i * M + rows >= j * D + columns, scores, -1e30)
        now = ct.maximum(most, ct.max(scores, axis=1, keepdims=True))
        weights, old = ct.exp(scores - now), ct.exp(most - now)
        size = size * old + ct.sum(weights, axis=1, keepdims=True)
        z = ct.load(v, (h, j, 0), (1, D, D)).reshape((D, D))
        total, most = ct.mma(weights.astype(q.dtype), z, total * old), now
    ct.store(o, (h, i, 0), (total / size).astype(o.dtype).reshape((1, M, D)))


def in_place(
    q: Any, k: Any, v: Any, o: Any, M: ct.Constant[int], D: ct.Constant[int], CAUSAL: ct.Constant[bool]
) -> None:  # fmt: skip
    """Blocks that load what others may have stored."""
    i, h = ct.bid(0), ct.bid(1)
    x = ct.load(o, (h, i, 0), (1, M, D)).reshape((M, D))
    total = ct.zeros((M, D), ct.float32)
    for j in range(k.shape[1] // D):
        y = ct.transpose(ct.load(k, (h, j, 0), (1, D, D)).reshape((D, D)))
        weights = ct.mma(x, y, ct.zeros((M, D), ct.float32)).astype(q.dtype)
        total = ct.mma(weights, ct.load(v, (h, j, 0), (1, D, D)).reshape((D, D)), total)
    ct.store(o, (h, i, 0), total.astype(o.dtype).reshape((1, M, D)))


def late(
    q: Any, k: Any, v: Any, o: Any, M: ct.Constant[int], D: ct.Constant[int], CAUSAL: ct.Constant[bool]
) -> None:  # fmt: skip
    """Blocks some of which do not ask for their number along the second axis."""
    i = ct.bid(0)
    if i * M < q.shape[1]:
        h = ct.bid(1)
        x, total = ct.load(q, (h, i, 0), (1, M, D)).reshape((M, D)), ct.zeros((M, D), ct.float32)
        for j in range(k.shape[1] // D):
            y = ct.transpose(ct.load(k, (h, j, 0), (1, D, D)).reshape((D, D)))
            weights = ct.mma(x, y, ct.zeros((M, D), ct.float32)).astype(q.dtype)
            total = ct.mma(weights, ct.load(v, (h, j, 0), (1, D, D)).reshape((D, D)), total)
        ct.store(o, (h, i, 0), total.astype(o.dtype).reshape((1, M, D)))


def batches(a: Any, b: Any, c: Any, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]) -> None:
    """Products of a matrix of each array for each block along the third axis of the grid."""
    i, j, matrix = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[2], K)):
        x = ct.load(a, (matrix, i, k), (1, M, K), padding_mode=ct.PaddingMode.ZERO).reshape((M, K))
        y = ct.load(b, (matrix, k, j), (1, K, N), padding_mode=ct.PaddingMode.ZERO).reshape((K, N))
        total = ct.mma(x, y, total)
    ct.store(c, (matrix, i, j), total.astype(c.dtype).reshape((1, M, N)))


def numbered(a: Any, b: Any, c: Any, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]) -> None:
    """A product whose tiles are numbered along the only axis of the grid."""
    i, j = ct.bid(0) // ct.cdiv(c.shape[1], N), ct.bid(0) % ct.cdiv(c.shape[1], N)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.load(b, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def gridded(a: Any, b: Any, c: Any, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]) -> None:
    """A product with a tile for each block along two axes of the grid."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        total = ct.mma(ct.load(a, (i, k), (M, K)), ct.load(b, (k, j), (K, N)), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def rounded(a: Any, b: Any, c: Any, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]) -> None:
    """The same of tfloat32."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x, y = ct.load(a, (i, k), (M, K)).astype(ct.tfloat32), ct.load(b, (k, j), (K, N)).astype(ct.tfloat32)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


def operands(shape: tuple[int, ...], tile: tuple[int, int, int], dtype: Any = np.float16) -> tuple[Any, ...]:
    """Matrices of ``shape``: batches, rows, columns and depth."""
    *several, m, n, k = shape
    a, b, c = (aligned((*several, *size), dtype) for size in ((m, k), (k, n), (m, n)))
    for array in (a, b):
        array[...] = np.random.default_rng(array.size).integers(-3, 4, array.shape)
    c[...] = 99
    return a, b, c, *tile


def made(length: int, M: int, D: int, *, causal: bool) -> tuple[Any, ...]:
    rng = np.random.default_rng(length)
    arrays = [aligned((2, length, D), np.float16) for _ in range(4)]
    for array in arrays:
        array[...] = rng.standard_normal(array.shape) / 4
    return *arrays, M, D, causal


def specialized(kernel: Any, arguments: tuple[Any, ...], **hints: int) -> Function:
    return optimize(specialization(ct.kernel(kernel, **hints), arguments, "reference").function)


def expected(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1)
    if causal:
        scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v.astype(np.float64) / weights.sum(-1, keepdims=True)


ALONE = """
func @f(%p: ptr<f32> = "x".base, %n: i32 = "x".shape.0) {
  %one = constant() {value = 1, type = !i32} : i32
  %v = constant() {value = 1.0, type = !f32} : f32
  %x = bid() {axis = 0} : i32
  %y = bid() {axis = 1} : i32
  %w = num_blocks() {axis = 1} : i32
  %m = add(%n, %one) : i32
  %a = mul(%y, %m) : i32
  %b = add(%a, %w) : i32
  %c = ptr_offset(%p, %b) : ptr<f32>
  %d = ptr_offset(%c, %x) : ptr<f32>
  store(%d, %v, _)
  return()
}
"""
REPEATED = """
func @f(%p: ptr<f32> = "x".base, %n: i32 = "x".shape.0) {
  %zero = constant() {value = 0, type = !i32} : i32
  %1 = constant() {value = 1, type = !i32} : i32
  %four = constant() {value = 4, type = !i32} : i32
  %pair = bid() {axis = 1} : i32
  %h = num_blocks() {axis = 1} : i32
  %height = mul(%h, %four) : i32
  %row = mul(%pair, %four) : i32
  %first = bid() {axis = 0} : i32
  %width = num_blocks() {axis = 0} : i32
  %last = sub(%width, %1) : i32
  %mirrored = sub(%last, %first) : i32
  %one = constant() {value = 1, type = !i32} : i32
  %v = constant() {value = 1.0, type = !f32} : f32
  %m = add(%n, %one) : i32
  for(%zero, %four, %1, []) { ^(%i: i32)
    %of = add(%row, %i) : i32
    %bit = and(%i, %1) : i32
    %odd = cmp(%bit, %1) {predicate = CmpPredicate.EQ} : i1
    %either = select(%odd, %mirrored, %first) : i32
    %y = assume_bounded(%of) {lower = 0, upper = 16777214} : i32
    %x = assume_bounded(%either) {lower = 0, upper = 16777214} : i32
    %a = mul(%y, %m) : i32
    %b = add(%a, %height) : i32
    %c = ptr_offset(%p, %b) : ptr<f32>
    %d = ptr_offset(%c, %x) : ptr<f32>
    store(%d, %v, _)
    continue([])
  }
  return()
}
"""


def test_blocks_along_the_second_axis_become_a_loop() -> None:
    check(RepeatBlocks((1, 4, 1), mirrored=True), ALONE, REPEATED, settles=False, names=False)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "backend", [InterpreterBackend(None, None, parse_target("sm_90")), PtxBackend(None, "sm_90a")], ids=["gpu", "ptx"]
)
def test_results_are_those_of_single_blocks(backend: Any, causal: bool) -> None:
    """A CTA runs two heads, the second one from the other end."""
    arguments = made(256, 128, 64, causal=causal)
    function = specialized(heads, arguments)
    wanted = expected(*arguments[:3], causal=causal)
    arguments[3][...] = -1
    launched = launch_arguments(function, dict(zip("qkvo", arguments)))
    backend.compile(RepeatBlocks((1, 2, 1), mirrored=True).run(function), {}).launch((2, 1, 1), launched)
    assert np.abs(arguments[3].astype(np.float64) - wanted).max() < 2e-3


@pytest.mark.parametrize(
    "backend", [InterpreterBackend(None, None, parse_target("sm_90")), PtxBackend(None, "sm_90a")], ids=["gpu", "ptx"]
)
@pytest.mark.parametrize("columns", [256, 264, 260])
def test_products_are_those_of_single_blocks(backend: Any, columns: int) -> None:
    """Of rows that start on sectors, that do not, so that pairs of CTAs share loads, and that are copied."""
    for kernel, shape, blocks, grid in (
        (batches, (4, 128, columns, 208), (1, 1, 2), (1, -(-columns // 256), 2)),
        (numbered, (250, columns, 208), (2, 1, 1), (-(-columns // 256), 1, 1)),
    ):
        arguments = operands(shape, (128, 256, 64))
        function = specialized(kernel, arguments)
        launched = launch_arguments(function, dict(zip("abc", arguments)))
        backend.compile(RepeatBlocks(blocks, mirrored=False).run(function), {}).launch(grid, launched)
        a, b, c, *_ = arguments
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_joined_blocks_run_in_turn_too() -> None:
    """With tiles of 128x256 in place of 128x128."""
    arguments = operands((128, 512, 128), (128, 128, 64))
    function = specialized(gridded, arguments)
    launched = launch_arguments(function, dict(zip("abc", arguments)))
    passes = JoinBlocks((1, 2, 1)), RepeatBlocks((1, 2, 1), mirrored=False)
    backend = InterpreterBackend(None, None, parse_target("sm_90"))
    backend.compile(run_passes(function, passes), {}).launch((1, 1, 1), launched)
    a, b, c, *_ = arguments
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(
    "backend", [InterpreterBackend(None, None, parse_target("sm_90")), PtxBackend(None, "sm_90a")], ids=["gpu", "ptx"]
)
def test_products_of_tfloat32_run_in_turn(backend: Any) -> None:
    arguments = operands((128, 256, 96), (128, 128, 32), np.float32)
    function = specialized(rounded, arguments)
    assert compile_to_ptx(function, "sm_90a", None).joinable == ((1, 2, 1), (1, 4, 1), (1, 8, 1))
    launched = launch_arguments(function, dict(zip("abc", arguments)))
    backend.compile(RepeatBlocks((1, 2, 1), mirrored=False).run(function), {}).launch((1, 1, 1), launched)
    a, b, c, *_ = arguments
    np.testing.assert_array_equal(c, a @ b)
    small = specialized(rounded, operands((128, 256, 96), (128, 128, 16), np.float32))
    assert compile_to_ptx(small, "sm_90a", None).joinable == ()


def test_which_products_have_such_variants() -> None:
    """Those with sums of 128x128 elements, also when blocks are joined."""
    for kernel, shape, tile, hints, joins in [
        (batches, (4, 256, 256, 64), (128, 256, 64), {}, ((1, 1, 2), (1, 1, 4), (1, 1, 8))),
        (numbered, (256, 256, 64), (256, 128, 64), {}, ((2, 1, 1), (4, 1, 1), (8, 1, 1))),
        (numbered, (256, 256, 64), (128, 256, 64), {"num_ctas": 2}, ()),
        (numbered, (256, 256, 64), (128, 128, 64), {}, ((2, 1, 1), (4, 1, 1), (8, 1, 1))),
        (numbered, (256, 256, 64), (64, 128, 64), {}, ()),
        (gridded, (256, 512, 64), (128, 128, 64), {}, ((1, 4, 1), (1, 8, 1), (1, 16, 1))),
        (gridded, (256, 512, 64), (64, 256, 64), {}, ((2, 2, 1), (2, 4, 1), (2, 8, 1))),
    ]:
        function = specialized(kernel, operands(shape, tile), **hints)
        assert compile_to_ptx(function, "sm_90a", None).joinable == joins


def test_which_kernels_have_such_variants() -> None:
    """Those of two warp groups, one CTA of which fills an SM, and whose blocks do not load what others store."""
    wanted = ((1, 2, 1), (1, 4, 1), (1, 8, 1))
    for kernel, rows, hints, joins in [
        (heads, 128, {}, wanted),
        (heads, 128, {"occupancy": 2}, wanted),
        (heads, 128, {"num_ctas": 2}, ()),
        (heads, 64, {}, ()),
        (in_place, 128, {}, ()),
        (late, 128, {}, ()),
    ]:
        function = specialized(kernel, made(256, rows, 128, causal=True), **hints)
        made_of = compile_to_ptx(function, "sm_90a", None)
        assert (kernel.__name__, rows, made_of.joinable) == (kernel.__name__, rows, joins)


def test_a_variant_has_no_others() -> None:
    function = specialized(heads, made(256, 128, 128, causal=True))
    variant = compile_to_ptx(function, "sm_90a", None, None, Constraints(realign=False, join=(1, 8, 1)))
    assert variant.joinable == ()
    (loop,) = (op for op in variant.optimized.body.ops if isinstance(op, For))
    assert len(mma_loops(variant.optimized)) == 1 and loop is not mma_loops(variant.optimized)[0]
