"""Operands of products that blocks leave packed to those behind them: text in and text out, and what kernels compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.passes import check

import tilewright as ct
from tilewright.backends.cpu.loops.pack_panels import PackPanels

VIEW = "view<f32,[?,?],[?,1],i32>"
LEFT, RIGHT, OUT = (f"partition<{VIEW},{t},[0,1],zero,{t}>" for t in ("[16,64]", "[64,64]", "[16,64]"))
ROWS_FIRST, COLUMNS_FIRST, GROUPS = range(3)
KEPT = ", panels = (40960, 128)"


def product(
    panels: str, *, index: str = "[%k, %j]", written: str = "%w", start: str = "%zero", room: int = 20480
) -> str:
    """A block of a product; ``index`` is that of the right operand, ``written`` the view that is stored to."""
    return f"""func @k(%a: ptr<f32> = "a".base, %b: ptr<f32> = "b".base, %c: ptr<f32> = "c".base, %n: i32 = "a".shape.0) {{
      reserve_scratch() {{bytes = {room}}}
      %u = make_tensor_view(%a, [%n, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %x = make_partition_view(%u) {{type = !{LEFT}}} : {LEFT}
      %v = make_tensor_view(%b, [%n, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %y = make_partition_view(%v) {{type = !{RIGHT}}} : {RIGHT}
      %o = make_tensor_view(%c, [%n, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %w = make_partition_view(%o) {{type = !{OUT}}} : {OUT}
      %z = make_partition_view(%v) {{type = !{OUT}}} : {OUT}
      %i = bid() {{axis = 0}} : i32
      %j = bid() {{axis = 1}} : i32
      %zero = constant() {{value = 0, type = !i32}} : i32
      %one = constant() {{value = 1, type = !i32}} : i32
      %init = nest([], [], []) {{lanes = 16, buffers = (0)}} : f32[16,64] {{
        %f = constant() {{value = 0.0, type = !f32[16,64]}} : f32[16,64]
        yield([%f])
      }}
      %sum = for({start}, %n, %one, [%init]) : f32[16,64] {{ ^(%k: i32, %acc: f32[16,64])
        %s = load_view(%x, [%i, %k]) {{in_bounds = (false, false)}} : f32[16,64]
        %t = load_view(%y, {index}) {{in_bounds = (false, false)}} : f32[64,64]
        %p = nest([], [], []) {{lanes = 16, buffers = (4096){panels}}} : f32[64,64] {{
          yield([%t])
        }}
        %q = nest([], [], []) {{lanes = 16, buffers = (0), scratch = (none, none, 0)}} : f32[16,64] {{
          %r = mma(%s, %p, %acc) : f32[16,64]
          yield([%r])
        }}
        continue([%q])
      }}
      nest([], [], []) {{lanes = 16}} {{
        store_view({written}, %sum, [%i, %j]) {{in_bounds = (false, false)}}
        yield([])
      }}
      return()
    }}"""


def test_right_operands_have_room_for_all_iterations() -> None:
    """Wherever these begin, if that is the same in all blocks."""
    for start in ("%zero", "%n"):
        kept = product(KEPT, start=start, room=40960 + 64 + 128 * 16384)
        check(PackPanels(), product("", start=start, room=40960), kept)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(product("", written="%z"), id="of an array that is written"),
        pytest.param(product("", index="[%j, %j]"), id="the same tile in each iteration"),
        pytest.param(product("", start="%i"), id="iterations that begin elsewhere in each block"),
    ],
)
def test_what_is_copied_by_each_block(text: str) -> None:
    check(PackPanels(), text, text)


@ct.kernel
def multiply(a, b, c, ORDER: ct.Constant[int], SKIP: ct.Constant[int], TM: ct.Constant[int], T: ct.Constant[int]):
    if ORDER == ROWS_FIRST:
        i, j = ct.bid(0), ct.bid(1)
    elif ORDER == COLUMNS_FIRST:
        j, i = ct.bid(0), ct.bid(1)
    else:  # three rows of blocks, column by column
        block, columns = ct.bid(0), ct.cdiv(b.shape[2], T)
        group = block // (3 * columns)
        i, j = 3 * group + block % 3, block % (3 * columns) // 3
    for batch in range(b.shape[0]):
        acc = ct.zeros((TM, T), ct.float32)
        for k in range(ct.cdiv(b.shape[1], T)):
            if SKIP and (k + i) % 3 == 0:
                continue
            x = ct.load(a, (i, k), (TM, T), padding_mode=ct.PaddingMode.ZERO)
            y = ct.load(b, (batch, k, j), (1, T, T), padding_mode=ct.PaddingMode.ZERO)
            acc = ct.mma(x, y.reshape((T, T)), acc)
        ct.store(c, (batch, i, j), acc.reshape((1, TM, T)))


def expected(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], skip: int, rows: int, tile: int) -> np.ndarray[Any, Any]:
    if not skip:
        return a @ b
    left = a.copy()
    for i in range(-(-a.shape[0] // rows)):
        for k in range(-(-a.shape[1] // tile)):
            if (k + i) % 3 == 0:
                left[i * rows : (i + 1) * rows, k * tile : (k + 1) * tile] = 0
    return left @ b


@pytest.mark.parametrize(
    ("order", "skip"),
    [
        pytest.param(ROWS_FIRST, 0, id="rows first"),
        pytest.param(COLUMNS_FIRST, 0, id="columns first"),
        pytest.param(GROUPS, 0, id="groups of rows"),
        pytest.param(ROWS_FIRST, 1, id="some iterations end early"),
    ],
)
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [
        pytest.param(90, 200, 130, id="at edges"),
        pytest.param(96, 130 * 64, 128, id="more than there is room for"),
    ],
)
def test_products(order: int, skip: int, rows: int, depth: int, columns: int) -> None:
    """Small integers, whose sums are exact. The second launch has another right operand in the same array."""
    draw = np.random.default_rng(rows)
    a = draw.integers(-3, 4, (rows, depth)).astype(np.float32)
    b = draw.integers(-3, 4, (2, depth, columns)).astype(np.float32)
    grid = (-(-rows // 16), -(-columns // 64))
    if order != ROWS_FIRST:
        grid = (grid[1], grid[0]) if order == COLUMNS_FIRST else (grid[0] * grid[1],)
    for _ in range(2):
        c = np.full((2, rows, columns), np.nan, np.float32)
        ct.launch(None, grid, multiply, (a, b, c, order, skip, 16, 64), backend="cpu")
        np.testing.assert_array_equal(c, expected(a, b, skip, 16, 64))
        b += 1


def test_iterations_that_do_not_count_from_zero() -> None:
    @ct.kernel
    def multiply_from(a, b, c, first, T: ct.Constant[int]):
        acc = ct.zeros((16, T), ct.float32)
        for k in range(first, ct.cdiv(b.shape[0], T)):
            x = ct.load(a, (ct.bid(0), k), (16, T), padding_mode=ct.PaddingMode.ZERO)
            acc = ct.mma(x, ct.load(b, (k, ct.bid(1)), (T, T), padding_mode=ct.PaddingMode.ZERO), acc)
        ct.store(c, (ct.bid(0), ct.bid(1)), acc)

    draw = np.random.default_rng(0)
    a, b = (draw.integers(-3, 4, shape).astype(np.float32) for shape in ((90, 300), (300, 128)))
    for first in (0, 2, 4, 9):
        c = np.full((90, 128), np.nan, np.float32)
        ct.launch(None, (6, 2), multiply_from, (a, b, c, first, 64), backend="cpu")
        np.testing.assert_array_equal(c, a[:, first * 64 :] @ b[first * 64 :])
