"""Small blocks that a CTA runs together compute, and store once, what each would alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.transforms.gpu.merge_blocks import MergeBlocks

COPIES = """
func @f(%p: ptr<f32> = "x".base, %q: ptr<f32> = "y".base) {
  %i = bid() {axis = 0} : i32
  %t = constant() {value = 256, type = !i32} : i32
  %s = mul(%i, %t) : i32
  %a = ptr_offset(%p, %s) : ptr<f32>
  %r = reshape(%a) {shape = (1,)} : ptr<f32>[1]
  %e = broadcast(%r) {shape = (256,)} : ptr<f32>[256]
  %n = iota() {type = !i32[256]} : i32[256]
  %o = ptr_offset(%e, %n) : ptr<f32>[256]
  %x = load(%o, _, _) : f32[256]
  %b = reshape(%q) {shape = (1,)} : ptr<f32>[1]
  %c = broadcast(%b) {shape = (256,)} : ptr<f32>[256]
  %d = ptr_offset(%c, %n) : ptr<f32>[256]
  %w = atomic_rmw(%d, %x, _) {kind = AtomicKind.ADD, memory_order = MemoryOrder.RELAXED, memory_scope = MemoryScope.DEVICE} : f32[256]
  return()
}
"""


def test_an_axis_for_blocks() -> None:
    """Blocks have an index each, and the last ones of the grid, of which there may be fewer, add nothing."""
    header = COPIES[: COPIES.index(" {")].replace(
        ")", ', %grid_width: i32 = "grid_width".scalar) hints {blocks_of_cta = 4}'
    )
    check(
        MergeBlocks(),
        COPIES,
        header
        + """ {
  %0 = iota() {type = !i32[4]} : i32[4]
  %1 = constant() {value = 1, type = !i32} : i32
  %2 = num_blocks() {axis = 0} : i32
  %3 = cmp(%2, %grid_width) {predicate = CmpPredicate.EQ} : i1
  %4 = constant() {value = 4, type = !i32} : i32
  %5 = select(%3, %1, %4) : i32
  %6 = bid() {axis = 0} : i32
  %7 = mul(%6, %5) : i32
  %8 = sub(%grid_width, %7) : i32
  %9 = min(%5, %8) : i32
  %10 = sub(%9, %1) : i32
  %11 = reshape(%10) {shape = (1)} : i32[1]
  %12 = broadcast(%11) {shape = (4)} : i32[4]
  %13 = reshape(%7) {shape = (1)} : i32[1]
  %14 = broadcast(%13) {shape = (4)} : i32[4]
  %15 = min(%0, %12) : i32[4]
  %16 = add(%14, %15) : i32[4]
  %17 = assume_bounded(%16) {lower = 0, upper = 16777214} : i32[4]
  %18 = cmp(%0, %12) {predicate = CmpPredicate.LE} : i1[4]
  %t = constant() {value = 256, type = !i32} : i32
  %19 = reshape(%t) {shape = (1)} : i32[1]
  %20 = broadcast(%19) {shape = (4)} : i32[4]
  %21 = mul(%17, %20) : i32[4]
  %22 = reshape(%p) {shape = (1)} : ptr<f32>[1]
  %23 = broadcast(%22) {shape = (4)} : ptr<f32>[4]
  %24 = ptr_offset(%23, %21) : ptr<f32>[4]
  %25 = reshape(%24) {shape = (4, 1)} : ptr<f32>[4,1]
  %26 = broadcast(%25) {shape = (4, 256)} : ptr<f32>[4,256]
  %n = iota() {type = !i32[256]} : i32[256]
  %27 = reshape(%n) {shape = (1, 256)} : i32[1,256]
  %28 = broadcast(%27) {shape = (4, 256)} : i32[4,256]
  %29 = ptr_offset(%26, %28) : ptr<f32>[4,256]
  %30 = load(%29, _, _) : f32[4,256]
  %b = reshape(%q) {shape = (1)} : ptr<f32>[1]
  %c = broadcast(%b) {shape = (256)} : ptr<f32>[256]
  %d = ptr_offset(%c, %n) : ptr<f32>[256]
  %31 = reshape(%d) {shape = (1, 256)} : ptr<f32>[1,256]
  %32 = broadcast(%31) {shape = (4, 256)} : ptr<f32>[4,256]
  %33 = reshape(%18) {shape = (4, 1)} : i1[4,1]
  %34 = broadcast(%33) {shape = (4, 256)} : i1[4,256]
  %35 = atomic_rmw(%32, %30, %34) {kind = AtomicKind.ADD, memory_order = MemoryOrder.RELAXED, memory_scope = MemoryScope.DEVICE} : f32[4,256]
  return()
}
""",
        names=False,
    )


LONG = COPIES.replace("256", "1024")
WAITS = COPIES.replace("  return", "  %v = add(%w, %x) : f32[256]\n  return")
IN_ORDER = COPIES.replace(
    "load(%o, _, _)", "load(%o, _, _) {memory_order = MemoryOrder.ACQUIRE, memory_scope = MemoryScope.DEVICE}"
)
HINTED = COPIES.replace(") {\n  %i", ") hints {occupancy = 2} {\n  %i")


@pytest.mark.parametrize("text", [LONG, WAITS, IN_ORDER, HINTED])
def test_blocks_that_stay(text: str) -> None:
    check(MergeBlocks(), text, text)


@ct.kernel
def turned(x, scale, out, D: ct.Constant[int]):
    """A head a block, by places that alternate; the numbers of other blocks are asked for, too."""
    token, head = ct.bid(0), ct.bid(1)
    i = ct.arange(D, dtype=ct.int32)
    s = ct.gather(scale, (token, i))
    even = head * 2 * D + 2 * i
    a, b = ct.gather(x, (token, even)), ct.gather(x, (token, even + 1))
    ct.scatter(out, (token, even), a * s - b * ct.num_blocks(0))
    ct.scatter(out, (token, even + 1), b * s + a * ct.num_blocks(1))


@ct.kernel
def softmax(x, out, T: ct.Constant[int]):
    v = ct.load(x, (ct.bid(0), 0), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
    v = ct.exp(v - ct.max(v, axis=1, keepdims=True))
    ct.store(out, (ct.bid(0), 0), ct.cumsum(v, axis=1) / ct.sum(v, axis=1, keepdims=True))


@ct.kernel
def combined(x, out, T: ct.Constant[int]):
    """With reductions of what all blocks load, one that multiplies by what all know."""
    v, first = ct.load(x, (ct.bid(0), 0), (1, T)), ct.load(x, (0, 0), (1, T))
    ct.store(out, (ct.bid(0), 0), v + ct.sum(first, axis=1, keepdims=True))


@ct.kernel
def captured(x, out, T: ct.Constant[int]):
    """A combiner depends on the block."""
    v = ct.load(x, (0, 0), (1, T))
    total = ct.reduce(v, 1, lambda a, b: ct.maximum(ct.maximum(a, b), 0.1 * ct.bid(0) * ct.num_blocks(1)), -100.0)
    ct.store(out, (ct.bid(0), 0), ct.load(x, (ct.bid(0), 0), (1, T)) + total[:, None])


@ct.kernel
def transposed(x, out, M: ct.Constant[int], N: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.transpose(ct.load(x, (i, j), (M, N))))


@ct.kernel
def counted(x, out, T: ct.Constant[int]):
    """In place, and what every block adds to one place."""
    v = ct.load(x, (ct.bid(0),), (T,))
    ct.store(x, (ct.bid(0),), v + 1)
    ct.atomic_add(out, v, 1)
    ct.atomic_add(out, 0, ct.num_blocks(0))


@ct.kernel
def replaced(indices, x, out, T: ct.Constant[int]):
    """What lies in memory is an index in bounds until the block has stored another number."""
    i = ct.bid(0)
    at = ct.load(indices, (i,), (T,))
    ct.store(out, (i,), ct.gather(x, at, check_bounds=False))
    ct.store(indices, (i,), ct.full((T,), 1 << 30, ct.int32))


def cases(width: int) -> list[tuple[Any, tuple[int, ...], tuple[Any, ...]]]:
    r = np.random.default_rng(width)
    x = r.random((width, 3 * 64), np.float32)
    return [
        (turned, (width, 3), (x, r.random((width, 32), np.float32), np.zeros_like(x), 32)),
        (turned, (width + 1, 3), (x, r.random((width, 32), np.float32), np.zeros_like(x), 32)),
        (softmax, (width,), (x[:, :100].copy(), np.zeros((width, 100), np.float32), 128)),
        (combined, (width,), (x, np.zeros_like(x), 64)),
        (captured, (width, 1), (x, np.zeros_like(x), 64)),
        (
            transposed,
            (width, 2),
            (r.random((8 * width - 3, 30), np.float32), np.zeros((30, 8 * width - 3), np.float32), 8, 16),
        ),
        (counted, (width,), (r.integers(-3, 40, 64 * width, np.int32), np.zeros(37, np.int32), 64)),
    ]


@pytest.mark.parametrize("width", [1, 15, 16, 37])
def test_same_as_each_alone(width: int) -> None:
    interpreters = (
        interpreter_backend(None, 3, "sm_90"),
        interpreter_backend(4, 3, "sm_90", 1),
        ptx_backend(None, "sm_90"),
    )
    with interpreters[0] as merged, interpreters[1] as alone, interpreters[2] as ptx:
        for i, (kernel, grid, arguments) in enumerate(cases(width)):
            wanted = cases(width)[i][2]
            ct.launch(None, grid, kernel, wanted, backend="reference")
            for backend in (merged, alone, ptx):
                given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
                ct.launch(None, grid, kernel, tuple(given), backend=backend)
                for found, expected in zip(given, wanted):
                    np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=f"{kernel.name} {backend}")


@pytest.mark.parametrize("width", [4, 11])
def test_nothing_is_loaded_after_it_was_stored(width: int) -> None:
    """A CTA that has less than all of its blocks: none of its warps loads what a block may have stored already."""
    indices, x = np.arange(16 * width, dtype=np.int32)[::-1].copy(), np.arange(16 * width, dtype=np.float32)
    out = np.zeros_like(x)
    with interpreter_backend(4, 3, "sm_90") as merged:
        ct.launch(None, (width,), replaced, (indices, x, out, 16), backend=merged)
    np.testing.assert_array_equal(out, x[::-1])
    assert (indices == 1 << 30).all()
