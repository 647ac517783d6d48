"""Tiles of TMA and wgmma: their layouts, and what the verifiers of the ops refuse."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from tilewright.ir.dtypes import float16, float32, int8
from tilewright.ir.layouts import LANE, OFFSET, REGISTER, WARP
from tilewright.ir.ops.gpu.tma import SWIZZLES, can_part, part_layout, part_registers, swizzle_of, swizzled_layout
from tilewright.ir.ops.gpu.wgmma import readable, wgmma_layout
from tilewright.ir.parser import IRParseError, parse_function
from tilewright.ir.types import SharedType

TILES, ROLES = ((Path(__file__).parent / f"wgmma_{n}.tir").read_text() for n in ("tiles", "roles"))


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("inner", [0, 1])
@pytest.mark.parametrize("rows", [2, 4, 16])
def test_swizzles_follow_the_address(rows: int, inner: int, swizzle: int, size: int) -> None:
    """The unit of 16 bytes within a row is exchanged by the bits of the address above 128 bytes, of further boxes too."""
    columns = 4 * swizzle // size
    shape = (columns, rows) if inner == 0 else (rows, columns)
    layout = swizzled_layout(shape, inner, swizzle, size)
    assert layout.is_injective and layout.is_surjective
    offset = np.arange(layout.size(OFFSET))
    found = layout.apply(offset=offset)
    plain = offset * size
    plain ^= (plain >> 7 & swizzle // 16 - 1) << 4
    box, row, column = plain // (rows * swizzle), plain // swizzle % rows, plain % swizzle // size
    assert (found[inner] == box * (swizzle // size) + column).all() and (found[1 - inner] == row).all()


def test_recognized_layouts() -> None:
    for inner in (0, 1):
        for swizzle in SWIZZLES:
            t = SharedType(float16, swizzled_layout((64, 64), inner, swizzle, 2))
            assert swizzle_of(t) == (inner, swizzle)
    with pytest.raises(ValueError, match="no multiple of 128 bytes"):
        swizzled_layout((64, 32), 1, 128, 2)


def test_operands_that_wgmma_reads() -> None:
    def tile(inner: int, swizzle: int, dtype: object = float16) -> SharedType:
        assert dtype in (float16, float32, int8)
        return SharedType(dtype, swizzled_layout((64, 128), inner, swizzle, dtype.bytes))  # type: ignore[arg-type, attr-defined]

    assert all(readable(tile(1, s), 1) and readable(tile(1, s, int8), 1) for s in SWIZZLES)
    assert all(readable(tile(0, s), 1) for s in SWIZZLES)  # contiguous across k
    assert not readable(tile(0, 64, int8), 1) and not readable(tile(0, 128, float32), 1)


@pytest.mark.parametrize(("shape", "warps"), [((64, 8), 4), ((128, 256), 8), ((256, 32), 8), ((64, 128), 4)])
def test_layouts_of_sums(shape: tuple[int, int], warps: int) -> None:
    """As the PTX ISA has the fragment: four warps have 16 rows each, lanes pairs of columns."""
    layout = wgmma_layout(shape, warps)
    assert layout.is_injective and layout.is_surjective
    groups = warps // 4
    for warp in range(warps):
        for lane in (0, 5, 31):
            for register in range(0, layout.size(REGISTER), 3):
                within, repeat = register % (shape[1] // 2), register // (shape[1] // 2)
                row = repeat * 64 * groups + warp // 4 * 64 + warp % 4 * 16 + lane // 4 + 8 * (within // 2 % 2)
                column = within // 4 * 8 + lane % 4 * 2 + within % 2
                assert layout.apply(register=register, lane=lane, warp=warp) == (row, column)
    with pytest.raises(ValueError, match="32 rows"):
        wgmma_layout((32, 8), 4)


def test_warp_groups_divide_the_columns_of_64_rows() -> None:
    layout, alone = wgmma_layout((64, 128), 8), wgmma_layout((64, 64), 4)
    for place in itertools.product(range(alone.size(REGISTER)), (0, 5, 31), range(8)):
        register, lane, warp = place
        row, column = alone.apply(register=register, lane=lane, warp=warp % 4)
        assert layout.apply(register=register, lane=lane, warp=warp) == (row, column + warp // 4 * 64)


def test_parts() -> None:
    layout = wgmma_layout((64, 64), 4)
    assert can_part(layout, 1, 16) and not can_part(layout, 1, 4) and not can_part(layout, 0, 32)
    part = part_layout(layout, 1, 16)
    for index in range(4):
        registers = part_registers(layout, 1, 16, index)
        for r, register in enumerate(registers):
            row, column = part.apply(register=r, lane=7, warp=2)
            assert layout.apply(register=register, lane=7, warp=2) == (row, column + 16 * index)
    assert part.size(LANE) == 32 and part.size(WARP) == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("box = (128, 16)", "box = (128, 24)", "rows of 48 bytes"),
        ("box = (128, 16)", "box = (512, 16)", r"a box of \(512, 16\)"),
        ("box = (128, 16)", "box = (128,)", "2 axes"),
        ("gpu.fetch(%0, [%", "gpu.fetch(%0, [%3, %", "3 coordinates for 2 axes"),
        ("gpu.fetch(%0,", "gpu.fetch(%3,", "is no tensor map"),
        ("box = (128, 16)", "box = (256, 16)", "in boxes"),
        ("{inner = 1,", "{inner = 2,", "along 2"),
    ],
)
def test_malformed_copies(old: str, new: str, message: str) -> None:
    assert old in TILES
    with pytest.raises(IRParseError, match=message):
        parse_function(TILES.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{count = 1}", "{count = 0}", "0 arrivals"),
        ("{bytes = 6144}", "{bytes = -1}", "-1 bytes"),
        ("{pending = 1} : f32", "{pending = -1} : f32", "-1 groups"),
        ("registers = (40, 232)", "registers = (20, 232)", r"registers \(20, 232\)"),
        ("{registers = (40, 232)}", "{producer_warps = 0}", "0 warps"),
    ],
)
def test_malformed_roles(old: str, new: str, message: str) -> None:
    assert old in ROLES
    with pytest.raises(IRParseError, match=message):
        parse_function(ROLES.replace(old, new, 1))
