"""What the compiler knows must not change the numbers: constants, equal operands, and conversions in a row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.elementwise import BACKENDS, apply
from support.mpfr_oracle import assert_same
from support.values import all_values, edges, floats

import tilewright as ct
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType

pytestmark = pytest.mark.parametrize("backend", BACKENDS)

CONSTANTS = (0.0, -0.0, 1.0)  # the identities, which invite simplification; more of them for float32
MORE_CONSTANTS = (-1.0, 2.0, math.nan)
MODES = ("RN", "RM")  # of the directed ones, that in which x - x is -0.0


def samples(dtype: DType) -> np.ndarray:
    return np.concatenate([np.array(edges(dtype)).astype(dtype.storage), floats(dtype, 2000)])


def formulas(dtype: DType) -> list[Any]:
    """Exact operations of two operands."""
    found: list[Any] = [
        lambda x, y: x % y,
        lambda x, y: x // y,
        lambda x, y: x < y,
        lambda x, y: x <= y,
        lambda x, y: x == y,
        lambda x, y: x != y,
        lambda x, y: ct.where(x > y, x, y),
        lambda x, y: -(x - y),
        lambda x, y: (x + y) - y,
        lambda x, y: x * y + x * y,
    ]
    for operation in (ct.add, ct.sub, ct.mul, ct.truediv):
        found += [_rounded(operation, mode, False) for mode in MODES]
        if dtype is dtypes.float32:
            found.append(_rounded(operation, "RN", True))
    for operation in (ct.minimum, ct.maximum):
        found += [_extreme(operation, propagate) for propagate in (False, True)]
    return found


def _rounded(operation: Any, mode: str, flush: bool) -> Any:
    return lambda x, y: operation(x, y, rounding_mode=mode, flush_to_zero=flush)


def _extreme(operation: Any, propagate: bool) -> Any:
    return lambda x, y: operation(x, y, propagate_nan=propagate)


def results(backend: str, dtype: DType, x: np.ndarray, y: np.ndarray, change: Any) -> list[np.ndarray]:
    wanted = [change(f) for f in formulas(dtype)]
    logical = range(2, 6)
    kinds = [np.bool_ if i in logical else dtype.storage for i in range(len(wanted))]
    return apply(backend, wanted, [x, y], kinds)


def _constant_right(c: float, dtype: DType) -> Any:
    return lambda f: lambda x, y: f(x, ct.full((), c, dtype))


def _constant_left(c: float, dtype: DType) -> Any:
    return lambda f: lambda x, y: f(ct.full((), c, dtype), y)


@pytest.mark.parametrize("dtype", (dtypes.float16, dtypes.float32), ids=str)
def test_constant_operands(backend: str, dtype: DType) -> None:
    x = samples(dtype)
    constants = CONSTANTS + (MORE_CONSTANTS if dtype is dtypes.float32 else ())
    others = np.concatenate([np.full(x.shape, c, dtype.storage) for c in constants])
    many = np.tile(x, len(constants))
    for change, operands in ((_constant_right, (many, others)), (_constant_left, (others, many))):
        unknown = results(backend, dtype, *operands, lambda f: f)
        for i, c in enumerate(constants):
            here = slice(i * x.size, (i + 1) * x.size)
            known = results(backend, dtype, *(v[here] for v in operands), change(c, dtype))
            for a, b in zip(known, unknown):
                assert_same(a, b[here].astype(np.float64), *(v[here] for v in operands))


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_equal_operands(backend: str, dtype: DType) -> None:
    x = samples(dtype)
    known = results(backend, dtype, x, x, lambda f: lambda a, b: f(a, a))
    for a, b in zip(known, results(backend, dtype, x, x, lambda f: f)):
        assert_same(a, b.astype(np.float64), x)


CHAINS = (
    (dtypes.float32, (ct.float16, ct.float32)),
    (dtypes.float64, (ct.float32, ct.bfloat16)),
    (dtypes.float64, (ct.float32, ct.float16, ct.float64)),
    (dtypes.float32, (ct.float16, ct.bfloat16)),
    (dtypes.float16, (ct.float32, ct.float16)),
    (dtypes.float16, (ct.bfloat16, ct.float16)),
    (dtypes.float32, (ct.int32, ct.float32)),
    (dtypes.float32, (ct.int8, ct.int32)),
    (dtypes.int32, (ct.float32, ct.int32)),
    (dtypes.int64, (ct.int8, ct.int64)),
    (dtypes.int32, (ct.uint16, ct.float16, ct.int32)),
    (dtypes.float32, (ct.float8_e4m3fn, ct.float16, ct.float32)),
    (dtypes.float32, (ct.bool_, ct.float32)),
)


def _converted(x: Any, chain: tuple[DType, ...]) -> Any:
    for dtype in ct.static_iter(chain):
        x = x.astype(dtype)
    return x


@pytest.mark.parametrize(("source", "chain"), CHAINS, ids=str)
def test_conversions_in_a_row(backend: str, source: DType, chain: tuple[DType, ...]) -> None:
    """Each of them rounds or wraps."""
    if source.is_floating:
        x = all_values(source) if source.bitwidth == 16 else samples(source)
    else:
        x = np.random.default_rng(0).integers(source.min, source.max, 5000, source.storage)
    (together,) = apply(backend, [lambda v: _converted(v, chain)], [x], [chain[-1].storage])
    step = x
    for dtype in chain:
        (step,) = apply(backend, [lambda v, dtype=dtype: v.astype(dtype)], [step], [dtype.storage])
    assert_same(together, step.astype(np.float64), x)
