"""Arithmetic with a rounding mode as it is written for AMD, computed with NumPy, gives what the reference gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.triton.evaluator import DTYPES, Computed, Evaluator
from backends.triton.test_conversions import assert_equal_bits

from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.ttir import elements
from tilewright.ir.dtypes import FLOATS, DType, bfloat16, float32, float64
from tilewright.ir.enums import RoundingMode
from tilewright.ir.location import UNKNOWN
from tilewright.ir.opdef import OPS
from tilewright.ir.semantics.arithmetic import arithmetic

RN, RZ, RM, RP = RoundingMode.RN, RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP
SIZE = 6000
SPECIAL = [0.0, -0.0, 1.0, -1.0, 3.0, np.inf, -np.inf, np.nan]


def operands(dtype: DType, count: int) -> list[np.ndarray[Any, Any]]:
    """Numbers of every magnitude, exact quotients and squares, results that overflow and underflow, special values."""
    rng = np.random.default_rng(count)
    reach = 1 << (dtype.exponent_bits - 1)
    bits = [rng.integers(0, 1 << dtype.bitwidth, SIZE, np.uint64).astype(f"u{dtype.bytes}") for _ in range(count)]
    short = [rng.integers(-99, 99, SIZE) * 2.0 ** rng.integers(-reach // 2, reach // 2, SIZE) for _ in range(count)]
    short[0] = np.where(rng.random(SIZE) < 0.5, short[0] * short[-1], short[0])
    special = np.meshgrid(*[SPECIAL] * count)
    with np.errstate(all="ignore"):
        extremes = np.meshgrid(
            *[2.0 ** np.array([-2 * reach, -reach, -reach / 2, -1, 0, reach / 2, reach - 1])] * count
        )
        rows = zip(bits, short, special, extremes)
        return [
            np.concatenate([b.view(dtype.storage), *(x.astype(dtype.storage).ravel() for x in rest)])
            for b, *rest in rows
        ]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma", "div", "sqrt"])
def test_directed_rounding(name: str, dtype: DType) -> None:
    writer = Evaluator(parse_target("gfx942"))
    xs = operands(dtype, {"sqrt": 1, "fma": 3}.get(name, 2))
    held = {d: e for e, d in DTYPES.items()}[dtype.storage.type]
    cases = [(mode, False) for mode in (RZ, RM, RP)]
    cases += [(mode, True) for mode in (RN, RZ, RM)] if dtype is float32 else []
    cases += [(RN, False)] if name == "fma" and dtype is bfloat16 else []
    for mode, ftz in cases:
        attributes = {"rounding": mode, "flush_to_zero": ftz}
        op = OPS[name]([], (), attributes, [], (), UNKNOWN)
        with np.errstate(all="ignore"):
            wanted = arithmetic(name)(dtype, attributes, *xs)
            found = elements.RULES[OPS[name]](writer, op, [Computed(x, held) for x in xs]).array  # type: ignore[arg-type]
        assert_equal_bits(found, wanted, dtype)


def test_float64_quotients_and_roots_next_to_exact_ones() -> None:
    """Where the nearest result is not the directed one, by every cause: remainders that are small, or underflow."""
    writer = Evaluator(parse_target("gfx942"))
    rng = np.random.default_rng(5)
    q = rng.standard_normal(SIZE) * 2.0 ** rng.integers(-1070, 1020, SIZE)
    y = rng.standard_normal(SIZE) * 2.0 ** rng.integers(-1070, 1020, SIZE)
    with np.errstate(all="ignore"):
        for x in (q * y, np.nextafter(q * y, np.inf), np.nextafter(q * y, -np.inf)):
            for mode in (RZ, RM, RP):
                attributes = {"rounding": mode, "flush_to_zero": False}
                for name, values in (("div", (x, y)), ("sqrt", (np.abs(x),))):
                    op = OPS[name]([], (), attributes, [], (), UNKNOWN)
                    wanted = arithmetic(name)(float64, attributes, *values)
                    operands = [Computed(v, "f64") for v in values]
                    found = elements.RULES[OPS[name]](writer, op, operands).array  # type: ignore[arg-type]
                    assert_equal_bits(found, wanted, float64)
