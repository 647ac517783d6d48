"""The fragments of mma.sync, against the formulas of the PTX manual ("Matrix Fragments for mma.m16n8k16", ...)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.ir.dtypes import bfloat16, dtype_from_short, float16, float32, int8
from tilewright.ir.layouts import WARP, LinearLayout
from tilewright.ir.ops.gpu.mma import (
    FMA,
    accumulator_layout,
    fma_accumulator_layout,
    instruction_for,
    operand_layouts,
)


def _element(layout: LinearLayout, register: int, lane: int) -> tuple[Any, ...]:
    return layout.apply(register=register, lane=lane)


@pytest.mark.parametrize("lane", range(32))
def test_fragments_of_m16n8k16(lane: int) -> None:
    acc = accumulator_layout((16, 8, 16), (16, 8), 1)
    a, b = operand_layouts((16, 8, 16), acc, 16, 16)
    group, in_group = lane >> 2, lane % 4
    for i in range(8):
        row = group if i < 2 or 4 <= i < 6 else group + 8
        column = in_group * 2 + (i & 1) + (8 if i >= 4 else 0)
        assert _element(a, i, lane) == (row, column)
    for i in range(4):
        assert _element(b, i, lane) == (in_group * 2 + (i & 1) + (8 if i >= 2 else 0), group)
        assert _element(acc, i, lane) == (group + (8 if i >= 2 else 0), in_group * 2 + (i & 1))


@pytest.mark.parametrize("lane", range(32))
def test_fragments_of_m16n8k32(lane: int) -> None:
    acc = accumulator_layout((16, 8, 32), (16, 8), 1)
    a, b = operand_layouts((16, 8, 32), acc, 32, 8)
    group, in_group = lane >> 2, lane % 4
    for i in range(16):
        row = group if i < 4 or 8 <= i < 12 else group + 8
        assert _element(a, i, lane) == (row, in_group * 4 + (i & 3) + (16 if i >= 8 else 0))
    for i in range(8):
        assert _element(b, i, lane) == (in_group * 4 + (i & 3) + (16 if i >= 4 else 0), group)


@pytest.mark.parametrize("lane", range(32))
def test_fragments_of_m16n8k8_and_m8n8k4(lane: int) -> None:
    group, in_group = lane >> 2, lane % 4
    acc = accumulator_layout((16, 8, 8), (16, 8), 1)
    a, b = operand_layouts((16, 8, 8), acc, 8, 32)
    for i in range(4):
        assert _element(a, i, lane) == (group + 8 * (i & 1), in_group + 4 * (i >> 1))
    for i in range(2):
        assert _element(b, i, lane) == (in_group + 4 * i, group)
    acc = accumulator_layout((8, 8, 4), (8, 8), 1)
    a, b = operand_layouts((8, 8, 4), acc, 4, 64)
    assert _element(a, 0, lane) == (group, in_group) and _element(b, 0, lane) == (in_group, group)
    assert [_element(acc, i, lane) for i in (0, 1)] == [(group, in_group * 2), (group, in_group * 2 + 1)]


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("shape", [(16, 8), (64, 64), (128, 32), (8, 4), (4, 32, 16)])
@pytest.mark.parametrize("dtype", ["f16", "i8", "tf32", "f64", "f32"])
def test_every_thread_has_the_factors_of_what_it_computes(dtype: str, shape: tuple[int, ...], warps: int) -> None:
    """The product of what the warps hold is the product: for each accumulator element, all of k meets in its warp."""
    element, k = dtype_from_short(dtype), 64
    instruction = instruction_for(element, k)
    fma = instruction == FMA
    acc = fma_accumulator_layout(shape, warps) if fma else accumulator_layout(instruction, shape, warps)
    a, b = operand_layouts(instruction, acc, k, element.bitwidth)
    assert acc.is_surjective and a.is_surjective and b.is_surjective
    assert a.shape == (*shape[:-1], k) and b.shape == (*shape[:-2], k, shape[-1])
    for warp in range(warps):
        held = acc.table[:, :, warp].ravel()
        rows = set(np.unravel_index(held, shape)[-2].tolist())
        for layout, axis, wanted in ((a, -2, rows), (a, -1, set(range(k))), (b, -2, set(range(k)))):
            found = np.unravel_index(layout.table[:, :, warp].ravel(), layout.shape)[axis]
            assert set(found.tolist()) == wanted
        columns = [set(np.unravel_index(t.table[:, :, warp].ravel(), t.shape)[-1].tolist()) for t in (acc, b)]
        assert columns[0] == columns[1]


def test_warps_share_what_is_large() -> None:
    acc = accumulator_layout((16, 8, 16), (128, 128), 4)
    assert acc.num_registers == 128 and acc.is_injective
    spans = [{c for w in range(4) for c in acc.apply(warp=w)[axis : axis + 1]} for axis in (0, 1)]
    assert [len(s) for s in spans] == [2, 2]  # two by two


def test_which_instruction() -> None:
    assert instruction_for(float16, 16) == instruction_for(bfloat16, 64) == (16, 8, 16)
    assert instruction_for(float16, 8) == FMA  # not enough of k
    assert instruction_for(float32, 64) == FMA
    assert instruction_for(int8, 32) == (16, 8, 32)


@pytest.mark.parametrize(("shape", "rows"), [((128, 64), True), ((64, 128), True), ((32, 128), False)])
def test_warps_have_whole_rows_where_there_are_enough(shape: tuple[int, int], rows: bool) -> None:
    acc = accumulator_layout((16, 8, 16), shape, 4, by_rows=True)
    assert all(image[1] == 0 for image in acc.images(WARP)) is rows
    assert rows or acc == accumulator_layout((16, 8, 16), shape, 4)
