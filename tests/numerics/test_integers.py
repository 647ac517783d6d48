"""Integer operations through kernels on each backend, against Python's integers: all pairs of 8-bit values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.elementwise import BACKENDS, apply, ir_apply
from support.values import all_values, integers

import tilewright as ct
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Div, MulHi, Rem

SIZE = 30_000
Meaning = Callable[[int, int, int], Any]  # of two numbers and the width in bits

# What is undefined in the original has the value here that docs/numerics.md gives.
BINARY: dict[str, tuple[Callable[..., Any], Meaning]] = {
    "add": (lambda a, b: a + b, lambda a, b, width: a + b),
    "sub": (lambda a, b: a - b, lambda a, b, width: a - b),
    "mul": (lambda a, b: a * b, lambda a, b, width: a * b),
    "floordiv": (lambda a, b: a // b, lambda a, b, width: a // b if b else 0),
    "mod": (lambda a, b: a % b, lambda a, b, width: a % b if b else 0),
    "divmod": (lambda a, b: sum_of(divmod(a, b)), lambda a, b, width: sum(divmod(a, b)) if b else 0),
    "cdiv": (lambda a, b: ct.cdiv(a, b), lambda a, b, width: -(-a // b) if b else 0),
    "min": (lambda a, b: min(a, b), lambda a, b, width: min(a, b)),
    "max": (lambda a, b: ct.maximum(a, b), lambda a, b, width: max(a, b)),
    "and": (lambda a, b: a & b, lambda a, b, width: a & b),
    "or": (lambda a, b: a | b, lambda a, b, width: a | b),
    "xor": (lambda a, b: a ^ b, lambda a, b, width: a ^ b),
    "lshift": (lambda a, b: a << b, lambda a, b, width: a << b if 0 <= b < width else 0),
    "rshift": (lambda a, b: a >> b, lambda a, b, width: a >> (b if 0 <= b < width else width)),
    "neg": (lambda a, b: -a, lambda a, b, width: -a),
    "not": (lambda a, b: ~a, lambda a, b, width: ~a),
    "abs": (lambda a, b: abs(a), lambda a, b, width: abs(a)),
}
COMPARISONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "less": (lambda a, b: a < b, np.less),
    "less_equal": (lambda a, b: a <= b, np.less_equal),
    "greater": (lambda a, b: a > b, np.greater),
    "greater_equal": (lambda a, b: a >= b, np.greater_equal),
    "equal": (lambda a, b: a == b, np.equal),
    "not_equal": (lambda a, b: a != b, np.not_equal),
}

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def sum_of(pair: Any) -> Any:
    quotient, rest = pair
    return quotient + rest


@functools.cache
def pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of an 8-bit dtype; of others pairs of edge values, small divisors and shift counts, and random values."""
    if dtype.bitwidth == 8:
        values = all_values(dtype)
        return np.repeat(values, values.size), np.tile(values, values.size)
    edges = [dtype.min, dtype.min + 1, dtype.max, dtype.max - 1, 0, 1, 2, 3, 5, 7, 10, dtype.bitwidth - 1]
    edges += [dtype.bitwidth, 1 << (dtype.bitwidth // 2)]
    if dtype.is_signed:
        edges += [-1, -2, -3, -7]
    corner = np.array(edges, dtype.storage)
    a, b = integers(dtype, SIZE, 1), integers(dtype, SIZE, 2)
    b[: SIZE // 4] = np.arange(SIZE // 4) % (dtype.bitwidth + 3)
    return np.concatenate([np.repeat(corner, corner.size), a]), np.concatenate([np.tile(corner, corner.size), b])


@functools.cache
def numbers(dtype: DType) -> tuple[list[int], list[int]]:
    a, b = pairs(dtype)
    return a.tolist(), b.tolist()


def meant(dtype: DType, meaning: Meaning) -> np.ndarray:
    """The meaning on all pairs, wrapped to ``dtype``."""
    return wrapped(dtype, [meaning(a, b, dtype.bitwidth) for a, b in zip(*numbers(dtype))])


def wrapped(dtype: DType, values: list[int]) -> np.ndarray:
    mask = (1 << dtype.bitwidth) - 1
    return np.array([v & mask for v in values], f"u{dtype.bytes}").view(dtype.storage)


@functools.cache
def expected(dtype: DType, name: str) -> np.ndarray:
    return meant(dtype, BINARY[name][1])


@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_arithmetic(backend: str, dtype: DType) -> None:
    got = apply(backend, [formula for formula, _ in BINARY.values()], pairs(dtype), [dtype.storage] * len(BINARY))
    for name, result in zip(BINARY, got):
        np.testing.assert_array_equal(result, expected(dtype, name), name)


@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_comparisons(backend: str, dtype: DType) -> None:
    got = apply(backend, [formula for formula, _ in COMPARISONS.values()], pairs(dtype), [np.bool_] * len(COMPARISONS))
    for (name, (_, meaning)), result in zip(COMPARISONS.items(), got):
        np.testing.assert_array_equal(result, meaning(*pairs(dtype)), name)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0


@functools.cache
def expected_in_cpp(dtype: DType) -> dict[str, np.ndarray]:
    return {
        "mulhi": meant(dtype, lambda a, b, width: (a % (1 << width)) * (b % (1 << width)) >> width),
        "div": meant(dtype, lambda a, b, width: truncated(a, b)),
        "rem": meant(dtype, lambda a, b, width: a - b * truncated(a, b) if b else 0),
    }


@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_operations_of_tile_cpp(backend: str, dtype: DType) -> None:
    want = expected_in_cpp(dtype)
    zero = {"rounding": RoundingMode.RZ}
    for name, op, attributes in (("mulhi", MulHi, {}), ("div", Div, zero), ("rem", Rem, zero)):
        np.testing.assert_array_equal(ir_apply(backend, op, pairs(dtype), dtype, **attributes), want[name], name)


def test_bools(backend: str) -> None:
    a, b = np.array([False, False, True, True] * 4), np.array([False, True] * 8)
    formulas = [
        lambda x, y: x & y,
        lambda x, y: x | y,
        lambda x, y: x ^ y,
        lambda x, y: ~x,
        lambda x, y: not x,
        lambda x, y: x < y,
        lambda x, y: ct.minimum(x, y),
        lambda x, y: ct.maximum(x, y),
    ]
    want = [a & b, a | b, a ^ b, ~a, ~a, a < b, a & b, a | b]
    for result, expected_result in zip(apply(backend, formulas, [a, b], [np.bool_] * len(formulas)), want):
        np.testing.assert_array_equal(result, expected_result)
    total, negated = apply(backend, [lambda x, y: x + 1, lambda x, y: -y], [a, b], [np.int32] * 2)
    np.testing.assert_array_equal(total, a.astype(np.int32) + 1)
    np.testing.assert_array_equal(negated, -b.astype(np.int32))


def left_operands(dtype: DType) -> np.ndarray:
    return all_values(dtype) if dtype.bitwidth == 8 else pairs(dtype)[0][:10_000]


@functools.cache
def expected_with(dtype: DType, name: str, constant: int) -> np.ndarray:
    meaning, width = BINARY[name][1], dtype.bitwidth
    return wrapped(dtype, [meaning(v, constant, width) for v in left_operands(dtype).tolist()])


@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_constants_as_operands(backend: str, dtype: DType) -> None:
    """Divisors and counts that the compiler knows: powers of two, others, and those that the original leaves undefined."""
    a = left_operands(dtype)
    divisors = [d for d in (1, 2, 8, 64, 3, 7, 10, -1, -4, -3, 0) if dtype.is_signed or d >= 0]
    counts = (0, 1, dtype.bitwidth - 1, dtype.bitwidth)
    formulas = [formula for d in divisors for formula in _divisions(d)] + [f for c in counts for f in _shifts(c)]
    got = iter(apply(backend, formulas, [a], [dtype.storage] * len(formulas)))
    for d in divisors:
        for name in ("floordiv", "mod", "cdiv"):
            np.testing.assert_array_equal(next(got), expected_with(dtype, name, d), f"{name} by {d}")
    for c in counts:
        for name in ("lshift", "rshift"):
            np.testing.assert_array_equal(next(got), expected_with(dtype, name, c), f"{name} by {c}")


def _divisions(d: int) -> list[Any]:
    return [
        lambda x: x // d,
        lambda x: x % d,
        lambda x: ct.cdiv(x, d),
    ]


def _shifts(c: int) -> list[Any]:
    return [
        lambda x: x << c,
        lambda x: x >> c,
    ]
