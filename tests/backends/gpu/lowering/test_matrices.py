"""Which tiles ``stmatrix`` stores, and ``ldmatrix`` loads, and transposes."""

from __future__ import annotations

import pytest

from tilewright.backends.gpu.lowering.matrices import matrices_across, matrices_along
from tilewright.ir.layouts import LANE, REGISTER, WARP, LinearLayout
from tilewright.ir.ops.gpu.tma import swizzled_layout
from tilewright.ir.ops.gpu.wgmma import wgmma_layout


def offsets(memory: LinearLayout, registers: list[tuple[int, int]], lanes: list[tuple[int, int]]) -> LinearLayout:
    """Where elements of a tile of 64x64 lie, those of a warp in this order."""
    tile = LinearLayout.of((64, 64), {REGISTER: registers, LANE: lanes, WARP: []})
    return memory.invert_and_compose(tile)


PLAIN = LinearLayout.row_major((64, 64))
BYTES = [swizzled_layout((64, 64), 1, 64, 1), PLAIN]
PAIRS = [(2, 0), (4, 0), (0, 2), (0, 4), (0, 8)]  # rows by two lanes, pairs of columns by three


@pytest.mark.parametrize("memory", BYTES)
def test_loads_that_transpose(memory: LinearLayout) -> None:
    found = matrices_across(offsets(memory, [(0, 1), (1, 0), (8, 0), (0, 16)], PAIRS), 1)
    assert found is not None and found.word == (0, 1) and found.matrices == (2, 3)
    swapped = matrices_across(offsets(memory, [(8, 0), (1, 0), (0, 1), (0, 16)], PAIRS), 1)
    assert swapped is not None and swapped.word == (2, 0) and swapped.matrices == (1, 3)


@pytest.mark.parametrize(
    ("registers", "lanes"),
    [
        ([(0, 2), (1, 0), (8, 0), (0, 16)], [(2, 0), (4, 0), (0, 1), (0, 4), (0, 8)]),  # no two bytes side by side
        ([(0, 1), (1, 0), (8, 0)], PAIRS),  # two matrices
        ([(0, 1), (1, 0), (8, 0), (0, 0)], PAIRS),  # elements of two registers
        ([(0, 1), (0, 2), (0, 4), (0, 8)], [(1, 0), (2, 0), (4, 0), (8, 0), (0, 16)]),  # rows of 16 bytes
    ],
)
def test_other_loads(registers: list[tuple[int, int]], lanes: list[tuple[int, int]]) -> None:
    assert matrices_across(offsets(PLAIN, registers, lanes), 1) is None


def test_stores() -> None:
    """Accumulators of wgmma in 16 bits; in 8 bits no lane has a word of them."""
    sums = wgmma_layout((64, 64), 4)
    found = matrices_along(swizzled_layout((64, 64), 1, 128, 2).invert_and_compose(sums), 2)
    assert found is not None and found.word == (0,) and found.matrices == (1, 2)
    assert matrices_along(swizzled_layout((64, 64), 1, 64, 1).invert_and_compose(sums), 1) is None
    words = offsets(PLAIN, [(0, 1), (1, 0), (0, 2), (0, 16)], [(0, 4), (0, 8), (2, 0), (4, 0), (8, 0)])
    found = matrices_along(words, 1)
    assert found is not None and found.word == (0, 2) and found.matrices == (1, 3)


def test_operands_of_16_bits() -> None:
    """The left operand of ``mma.sync`` lies along its rows; the right one, of 8 columns, is read across them, by warps
    that have the same elements, too."""
    left = offsets(PLAIN, [(0, 1), (8, 0), (0, 8), (0, 16)], [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)])
    assert matrices_across(left, 2) is None
    found = matrices_along(left, 2)
    assert found is not None and found.word == (0,) and found.rows == (64, 128, 256)
    columns = {REGISTER: [(1, 0), (8, 0), (0, 8)], LANE: [(2, 0), (4, 0), (0, 1), (0, 2), (0, 4)], WARP: [(0, 0)]}
    right = PLAIN.invert_and_compose(LinearLayout.of((64, 64), columns))
    assert matrices_along(right, 2) is None
    found = matrices_across(right, 2)
    assert found is not None and found.word == (0,) and found.rows == (64, 128, 256) and found.matrices == (1, 2)
