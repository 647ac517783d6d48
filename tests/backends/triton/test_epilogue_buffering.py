"""Results have places of their own where there is room, and nothing else changes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton import epilogue_buffering

HOPPER = parse_target("sm_90")


@ct.kernel
def persistent(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int]):
    columns = ct.cdiv(c.shape[1], TN)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], TM) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        total = ct.zeros((TM, TN), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            total = ct.mma(ct.load(a, (i, k), (TM, 64)), ct.load(b, (k, j), (64, TN)), total)
        ct.store(c, (i, j), total.astype(c.dtype))


def places(text: str) -> list[tuple[list[str], int]]:
    """The places of the results that each straight line stores, and how often it waits for the TMA unit."""
    found = []
    for part in re.split(r"\{(?: loc\(.*\))?$|^\s*\}", text, flags=re.MULTILINE):
        names = re.findall(r"ttg\.local_store %\w+(?:#\d+)?, (%\w+) ", part)
        if names:
            found.append((names, part.count("async_tma_store_wait")))
    return found


@pytest.mark.parametrize(
    ("tile", "warps", "stages", "apart"),
    [((128, 256), 8, 3, True), ((128, 256), 8, 4, False)],
)
def test_places_where_there_is_room(tile: tuple[int, int], warps: int, stages: int, apart: bool) -> None:
    matrix = np.zeros((512, 512), np.float16)
    kernel = persistent.replace_options("triton", num_warps=warps, num_stages=stages)
    made = kernel.compile_for("sm_90", (matrix, matrix, matrix, *tile))
    halves = [(names, waits) for names, waits in places(made.stage("TTGIR")) if len(names) == 2]
    assert [(len(set(names)), waits) for names, waits in halves] == ([(2, 1)] if apart else [(1, 2)])


_LINES = """
  %1 = ttg.local_alloc : () -> !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>
  %2 = ttg.local_alloc : () -> !ttg.memdesc<64x64xf32, #shared, #smem, mutable>
  scf.for %i = %a to %b step %c {
    ttng.async_tma_store_wait {pendings = 0 : i32}
    ttg.local_store %x, %2 : tensor<64x64xf32>
    ttng.async_tma_copy_local_to_global %d[%i] %2 : !tt.tensordesc<tensor<64x64xf32>>
    BETWEEN
    ttng.async_tma_store_wait {pendings = 0 : i32}
    ttg.local_store %y, %2 : tensor<64x64xf32>
    ttng.async_tma_copy_local_to_global %e[%i] %2 : !tt.tensordesc<tensor<64x64xf32>>
  }
  ttng.async_tma_store_wait {pendings = 0 : i32}
  ttg.local_dealloc %2 : !ttg.memdesc<64x64xf32, #shared, #smem, mutable>
  ttg.local_dealloc %2 : !ttg.memdesc<64x64xf32, #shared, #smem, mutable>"""
_BYTES = 3 * 64 * 64 * 2 + 64 * 64 * 4


@pytest.mark.parametrize(
    ("between", "room", "apart"),
    [
        ("%n = arith.addi %i, %c : i32", HOPPER.shared_memory, False),  # four blocks fit, and three would
        ("%n = arith.addi %i, %c : i32", _BYTES + 64 * 64 * 4, True),
        ("%n = arith.addi %i, %c : i32", _BYTES + 64 * 64 * 4 - 1, False),
        ("%z = ttg.local_load %2 : tensor<64x64xf32>", _BYTES + 64 * 64 * 4, False),
        ("scf.if %n {", _BYTES + 64 * 64 * 4, False),
        ("", 0, False),
    ],
)
def test_only_in_straight_lines_with_room(between: str, room: int, apart: bool) -> None:
    text = _LINES.replace("BETWEEN", between)
    found = epilogue_buffering.buffer_epilogues(text, room)
    assert (found != text) == apart
    if apart:
        ((names, waits),) = places(found)
        assert len(set(names)) == 2 and waits == 1
        assert re.findall(r"to_global %\w+\[%i\] (%\w+)", found) == re.findall(r"local_dealloc (%\w+)", found) == names
        assert set(names) <= set(re.findall(r"(%\w+) = ttg\.local_alloc", found))


@ct.kernel
def three(a, b, c, d, e):
    i = ct.bid(0)
    total = ct.zeros((128, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (i, k), (128, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (i, 0), total.astype(c.dtype))
    ct.store(d, (i, 0), (total + 1).astype(d.dtype))
    ct.store(e, (i, 0), (total + 2).astype(e.dtype))


def test_one_wait_for_all_that_a_kernel_stores_in_the_end() -> None:
    matrix = np.zeros((512, 64), np.float16)
    text = three.replace_options("triton", num_stages=3).compile_for("sm_90", (matrix,) * 5).stage("TTGIR")
    stored = re.findall(r"to_global %\w+\[.*?\] (%\w+)", text)
    assert len(set(stored)) == 3 and stored == re.findall(r"local_dealloc (%\w+)", text)[-3:]
    assert text.count("async_tma_store_wait") == 1
    assert text.index("async_tma_store_wait") > text.rindex("copy_local_to_global")


_ROW = """
  %1 = ttg.local_alloc : () -> !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>
  ttg.local_dealloc %1 : !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>
  %2 = ttg.local_alloc %x : (tensor<64x64xf32>) -> !ttg.memdesc<64x64xf32, #shared, #smem>
  ttng.async_tma_copy_local_to_global %d[%i] %2 : !tt.tensordesc<tensor<64x64xf32>>
  ttng.async_tma_store_wait {pendings = 0 : i32}
  BETWEEN
  %3 = ttg.local_alloc %y : (tensor<64x64xf32>) -> !ttg.memdesc<64x64xf32, #shared, #smem>
  ttng.async_tma_copy_local_to_global %e[%i] %3 : !tt.tensordesc<tensor<64x64xf32>>
  ttng.async_tma_store_wait {pendings = 0 : i32}"""


@pytest.mark.parametrize(
    ("freed", "between", "room", "once"),
    [
        (True, "%n = arith.addi %i, %c : i32", 2 * 64 * 64 * 4, True),  # more than 3x64x64xf16, and there is room
        (True, "%n = arith.addi %i, %c : i32", 2 * 64 * 64 * 4 - 1, False),
        (True, "%n = arith.addi %i, %c : i32", HOPPER.shared_memory, False),  # eight blocks fit, and six would
        (False, "%n = arith.addi %i, %c : i32", _BYTES + 64 * 64 * 4, True),
        (False, "%n = arith.addi %i, %c : i32", _BYTES + 64 * 64 * 4 - 1, False),
        (True, "scf.if %n {", 2 * 64 * 64 * 4, False),
        (True, "%z = ttg.local_load %2 : tensor<64x64xf32>", 2 * 64 * 64 * 4, False),
    ],
)
def test_one_wait_only_in_straight_lines_with_room(freed: bool, between: str, room: int, once: bool) -> None:
    text = _ROW.replace("BETWEEN", between)
    text = text if freed else re.sub(r".*dealloc.*\n", "", text)
    found = epilogue_buffering.buffer_epilogues(text, room)
    assert (found != text) == once
    assert found.count("store_wait") == (1 if once else 2)
    if once:
        assert re.findall(r"dealloc (%[23])", found[found.index("store_wait") :]) == ["%2", "%3"]
