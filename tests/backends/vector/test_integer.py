"""Integer, bitwise, shift and comparison ops against Python's integers: all pairs of 8-bit values, samples beyond."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from element_harness import LANES, element_function

from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import CmpPredicate, RoundingMode

RZ, RM, RP = RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP


def pairs(dtype: DType, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of an 8-bit dtype; for wider ones every pair of edge values, and random values of every size."""
    if dtype.bitwidth == 8:
        values = np.arange(dtype.min, dtype.max + 1).astype(dtype.storage)
        return np.repeat(values, values.size), np.tile(values, values.size)
    rng = np.random.default_rng(seed)
    edges = [dtype.min, dtype.min + 1, dtype.max, dtype.max - 1, 0, 1, 2, 3, 5, 7, 10, dtype.bitwidth]
    if dtype.is_signed:
        edges += [-1, -2, -3, -7]
    edges_array = np.array(edges, dtype.storage)
    size = 2000
    bits = rng.integers(0, 1 << 64, (2, size), dtype=np.uint64) >> rng.integers(0, 64, (2, size)).astype(np.uint64)
    randoms = bits.astype(dtype.storage)
    multiples = (randoms[0] // 3) * 3, np.full(size, 3, dtype.storage)
    return (
        np.concatenate([np.repeat(edges_array, edges_array.size), randoms[0], multiples[0]]),
        np.concatenate([np.tile(edges_array, edges_array.size), randoms[1], multiples[1]]),
    )


def wrapped(dtype: DType, values: list[int]) -> np.ndarray:
    mask = (1 << dtype.bitwidth) - 1
    return np.array([v & mask for v in values], f"u{dtype.bytes}").view(dtype.storage)


def quotient(a: int, b: int, mode: RoundingMode) -> int:
    if b == 0:
        return 0
    if mode is RM:
        return a // b
    return -(-a // b) if mode is RP else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


BINARY: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, width: a + b,
    "sub": lambda a, b, width: a - b,
    "mul": lambda a, b, width: a * b,
    "min": lambda a, b, width: min(a, b),
    "max": lambda a, b, width: max(a, b),
    "and": lambda a, b, width: a & b,
    "or": lambda a, b, width: a | b,
    "xor": lambda a, b, width: a ^ b,
    "mulhi": lambda a, b, width: (a % (1 << width)) * (b % (1 << width)) >> width,
    "shl": lambda a, b, width: a << b if 0 <= b < width else 0,
    "shr": lambda a, b, width: a >> (b if 0 <= b < width else width),
}


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_binary(dtype: DType, lanes: int | None) -> None:
    a, b = pairs(dtype)
    for name, meaning in BINARY.items():
        expected = wrapped(dtype, [meaning(x, y, dtype.bitwidth) for x, y in zip(a.tolist(), b.tolist())])
        np.testing.assert_array_equal(element_function(name, dtype, dtype, lanes=lanes)(a, b), expected, name)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_division(dtype: DType, lanes: int | None) -> None:
    a, b = pairs(dtype, seed=1)
    for mode in (RZ, RM, RP):
        q = [quotient(x, y, mode) for x, y in zip(a.tolist(), b.tolist())]
        rest = [x - y * z if y else 0 for x, y, z in zip(a.tolist(), b.tolist(), q)]
        divide = element_function("div", dtype, dtype, lanes=lanes, rounding=mode)
        remainder = element_function("rem", dtype, dtype, lanes=lanes, rounding=mode)
        np.testing.assert_array_equal(divide(a, b), wrapped(dtype, q), mode.name)
        np.testing.assert_array_equal(remainder(a, b), wrapped(dtype, rest), mode.name)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_unary(dtype: DType, lanes: int | None) -> None:
    a, _ = pairs(dtype)
    for name, meaning in {"neg": lambda v: -v, "abs": abs, "not": lambda v: ~v}.items():
        expected = wrapped(dtype, [meaning(v) for v in a.tolist()])
        np.testing.assert_array_equal(element_function(name, dtype, lanes=lanes)(a), expected, name)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_compare(dtype: DType, lanes: int | None) -> None:
    a, b = pairs(dtype)
    numpy_names = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater"}
    for predicate in CmpPredicate:
        compare = element_function("cmp", dtype, dtype, result=dtypes.bool_, lanes=lanes, predicate=predicate)
        expected = getattr(np, numpy_names.get(predicate.value, "greater_equal"))(a, b)
        np.testing.assert_array_equal(compare(a, b), expected, predicate.name)


@pytest.mark.parametrize("lanes", LANES)
def test_bool(lanes: int | None) -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    for name, expected in {"and": a & b, "or": a | b, "xor": a ^ b, "min": a & b, "max": a | b}.items():
        np.testing.assert_array_equal(element_function(name, dtypes.bool_, dtypes.bool_, lanes=lanes)(a, b), expected)
    np.testing.assert_array_equal(element_function("not", dtypes.bool_, lanes=lanes)(a), ~a)
    less = element_function("cmp", dtypes.bool_, dtypes.bool_, lanes=lanes, predicate=CmpPredicate.LT)
    np.testing.assert_array_equal(less(a, b), a < b)


@pytest.mark.parametrize("lanes", LANES)
def test_select(lanes: int | None) -> None:
    for dtype in (dtypes.int8, dtypes.float16, dtypes.float64, dtypes.bool_):
        x, y = np.arange(8).astype(dtype.storage), np.arange(8)[::-1].astype(dtype.storage)
        condition = np.arange(8) % 3 == 0
        select = element_function("select", dtypes.bool_, dtype, dtype, lanes=lanes)
        np.testing.assert_array_equal(select(condition, x, y), np.where(condition, x, y))
