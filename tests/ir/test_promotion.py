"""The promotion table of the data model, entry by entry, and the rules for constants."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tilewright.ir.dtypes import ALL_DTYPES, DType, dtype_from_short
from tilewright.ir.promotion import (
    broadcast_shapes,
    casts_implicitly,
    common_dtype,
    common_with_number,
    loose_dtype,
    number_casts_implicitly,
)

COLUMNS = ["i1", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "bf16"]
TABLE = """
i1   : i1   u8   u16  u32  u64  i8   i16  i32  i64  f16  f32  f64  bf16
u8   : u8   u8   u16  u32  u64  -    -    -    -    f16  f32  f64  bf16
u16  : u16  u16  u16  u32  u64  -    -    -    -    f16  f32  f64  bf16
u32  : u32  u32  u32  u32  u64  -    -    -    -    f16  f32  f64  bf16
u64  : u64  u64  u64  u64  u64  -    -    -    -    f16  f32  f64  bf16
i8   : i8   -    -    -    -    i8   i16  i32  i64  f16  f32  f64  bf16
i16  : i16  -    -    -    -    i16  i16  i32  i64  f16  f32  f64  bf16
i32  : i32  -    -    -    -    i32  i32  i32  i64  f16  f32  f64  bf16
i64  : i64  -    -    -    -    i64  i64  i64  i64  f16  f32  f64  bf16
f16  : f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f64  -
f32  : f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  f32
f64  : f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64
bf16 : bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 -    f32  f64  bf16
"""
EXPECTED: dict[tuple[str, str], str] = {
    (row.split(":")[0].strip(), column): entry
    for row in TABLE.strip().splitlines()
    for column, entry in zip(COLUMNS, row.split(":")[1].split())
}


@pytest.mark.parametrize("x", ALL_DTYPES)
def test_every_pair(x: DType) -> None:
    for y in ALL_DTYPES:
        wanted = EXPECTED.get((x.short, y.short), x.short if x is y else "-")
        found = common_dtype(x, y)
        assert (found.short if found else "-") == wanted, (x, y)
        assert casts_implicitly(x, y) is (wanted == y.short)


@pytest.mark.parametrize(
    ("dtype", "number", "wanted"),
    [
        ("i1", True, "i1"),
        ("i1", 1, "i32"),
        ("i1", 1 << 40, "i64"),
        ("i1", 1 << 63, "u64"),
        ("i1", 1.0, "f32"),
        ("i8", 127, "i8"),
        ("i8", 128, None),
        ("i8", 1.0, "f32"),
        ("u8", -1, None),
        ("u8", 255, "u8"),
        ("f16", 2.5, "f16"),
        ("f16", 7, "f16"),
        ("f64", 1e300, "f64"),
        ("bf16", True, "bf16"),
        ("tf32", 1.0, "tf32"),
        ("f8e5m2", 1, "f8e5m2"),
    ],
)
def test_constants(dtype: str, number: bool | int | float, wanted: str | None) -> None:
    found = common_with_number(dtype_from_short(dtype), number)
    assert (found.short if found else None) == wanted


def test_the_dtype_of_a_constant_follows_its_magnitude() -> None:
    numbers = [False, 0, -(1 << 31), (1 << 31) - 1, 1 << 31, -(1 << 31) - 1, 1 << 63, 0.5]
    assert [loose_dtype(n).short for n in numbers] == ["i1", "i32", "i32", "i32", "i64", "i64", "u64", "f32"]


@pytest.mark.parametrize(
    ("number", "dtype", "allowed"),
    [
        (0, "i1", True),
        (1, "i1", True),
        (2, "i1", False),
        (1.0, "i1", False),
        (True, "i8", True),
        (200, "i8", False),
        (200, "u8", True),
        (1.5, "i32", False),
        (3, "f16", True),
        (1e9, "f16", True),
    ],
)
def test_implicit_casts_of_constants(number: bool | int | float, dtype: str, allowed: bool) -> None:
    assert number_casts_implicitly(number, dtype_from_short(dtype)) is allowed


def test_shapes_broadcast_as_in_numpy() -> None:
    extents = (1, 2, 4)
    shapes = [s for rank in range(4) for s in itertools.product(extents, repeat=rank)]
    for x, y in itertools.product(shapes, repeat=2):
        try:
            wanted = np.broadcast_shapes(x, y)
        except ValueError:
            wanted = None
        assert broadcast_shapes(x, y) == wanted
