"""Integer arithmetic, shifts, comparisons and bits: exhaustive on pairs of 8-bit values, sampled on 64-bit ones."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from support.values import all_values, floats, integers

from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.semantics import evaluate

RZ, RM, RP = RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP


def wrap(value: int, dtype: DType) -> int:
    value &= (1 << dtype.bitwidth) - 1
    return value - (1 << dtype.bitwidth) if value > dtype.max else value


def quotient(a: int, b: int, mode: RoundingMode) -> int:
    if b == 0:
        return 0
    exact = Fraction(a, b)
    floor = exact.numerator // exact.denominator
    inexact = exact.denominator != 1
    return floor + (inexact and (mode is RP or (mode is RZ and exact < 0)))


def unsigned(a: int, dtype: DType) -> int:
    return a & ((1 << dtype.bitwidth) - 1)


CASES: dict[str, tuple[str, dict[str, object], Callable[[int, int, DType], int]]] = {
    "add": ("add", {}, lambda a, b, t: a + b),
    "sub": ("sub", {}, lambda a, b, t: a - b),
    "mul": ("mul", {}, lambda a, b, t: a * b),
    "div_c": ("div", {"rounding": RZ}, lambda a, b, t: quotient(a, b, RZ)),
    "div_floor": ("div", {"rounding": RM}, lambda a, b, t: quotient(a, b, RM)),
    "div_ceil": ("div", {"rounding": RP}, lambda a, b, t: quotient(a, b, RP)),
    "rem_c": ("rem", {"rounding": RZ}, lambda a, b, t: (a - b * quotient(a, b, RZ)) if b else 0),
    "rem_floor": ("rem", {"rounding": RM}, lambda a, b, t: (a - b * quotient(a, b, RM)) if b else 0),
    "rem_ceil": ("rem", {"rounding": RP}, lambda a, b, t: (a - b * quotient(a, b, RP)) if b else 0),
    "mulhi": ("mulhi", {}, lambda a, b, t: unsigned(a, t) * unsigned(b, t) >> t.bitwidth),
    "min": ("min", {}, lambda a, b, t: min(a, b)),
    "max": ("max", {}, lambda a, b, t: max(a, b)),
    "and": ("and", {}, lambda a, b, t: a & b),
    "or": ("or", {}, lambda a, b, t: a | b),
    "xor": ("xor", {}, lambda a, b, t: a ^ b),
    "shl": ("shl", {}, lambda a, b, t: a << unsigned(b, t) if unsigned(b, t) < t.bitwidth else 0),
    "shr": ("shr", {}, lambda a, b, t: a >> min(unsigned(b, t), t.bitwidth)),
}


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.int64, dtypes.uint64], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_binary(case: str, dtype: DType) -> None:
    if dtype.bitwidth == 8:
        values = all_values(dtype)
        a, b = np.repeat(values, 256), np.tile(values, 256)
    else:
        a, b = integers(dtype, 2000, 1), integers(dtype, 2000, 2)
        b[:200] %= 70  # shift counts around the width
    name, attributes, model = CASES[case]
    got = evaluate(name, dtype, attributes, [a, b])
    expected = [wrap(model(x, y, dtype), dtype) for x, y in zip(a.tolist(), b.tolist())]
    np.testing.assert_array_equal(got, np.array(expected, dtype.storage))
    assert got.dtype == dtype.storage


@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_unary(dtype: DType) -> None:
    values = integers(dtype, 500)
    for name, model in {"neg": operator.neg, "abs": abs, "not": operator.invert}.items():
        expected = [wrap(model(v), dtype) for v in values.tolist()]
        np.testing.assert_array_equal(evaluate(name, dtype, {}, [values]), np.array(expected, dtype.storage))


@pytest.mark.parametrize("dtype", [dtypes.bool_, dtypes.uint64, dtypes.float16, dtypes.float8_e4m3fn], ids=str)
def test_comparisons(dtype: DType) -> None:
    if dtype.bitwidth == 8:
        values = np.resize(all_values(dtype), 256)
    else:
        values = floats(dtype, 256) if dtype.is_float else integers(dtype, 256)
    a, b = np.repeat(values, 256), np.tile(values, 256)
    for predicate in CmpPredicate:
        compare = getattr(operator, predicate.value)
        expected = [compare(x, y) for x, y in zip(a.tolist(), b.tolist())]
        np.testing.assert_array_equal(evaluate("cmp", dtype, {"predicate": predicate}, [a, b]), expected)


def test_unsigned_8_bit_float_compares_by_value() -> None:
    nan = np.array([255], np.uint8)
    one = np.array([15 << 3], np.uint8)
    less = {"predicate": CmpPredicate.LT}
    assert not evaluate("cmp", dtypes.float8_e5m3fnu, less, [one, nan])[0]
    assert evaluate("cmp", dtypes.float8_e5m3fnu, less, [one, one + np.uint8(1)])[0]


def test_bool() -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    for name, expected in {
        "and": a & b,
        "or": a | b,
        "xor": a ^ b,
        "min": a & b,
        "max": a | b,
        "add": a ^ b,
        "sub": a ^ b,
        "mul": a & b,
    }.items():
        np.testing.assert_array_equal(evaluate(name, dtypes.bool_, {}, [a, b]), expected)
    np.testing.assert_array_equal(evaluate("not", dtypes.bool_, {}, [a]), ~a)


def test_select_broadcasts() -> None:
    condition = np.array([True, False])
    got = evaluate("select", dtypes.bfloat16, {}, [condition, *(np.array(v, dtypes.bfloat16.storage) for v in (1, 2))])
    np.testing.assert_array_equal(got.astype(np.float32), [1, 2])


def test_misuse() -> None:
    with pytest.raises(ValueError, match="integer division has no rounding mode RN"):
        evaluate("div", dtypes.int32, {}, [np.ones(1, np.int32)] * 2)
    with pytest.raises(KeyError):
        evaluate("reshape", dtypes.int32, {}, [])
