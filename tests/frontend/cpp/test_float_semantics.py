"""Section 2.2 on floating point: rounding, subnormals and NaN modes and special values, computed once more exactly."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from cpp_harness import C_TYPES, PREAMBLE, launch

from tilewright.backends.registry import get_backend
from tilewright.frontend.cpp.module import Module

MODES = {
    "round_ties_to_even_t": lambda below, odd, negative: below > Fraction(1, 2) or (below == Fraction(1, 2) and odd),
    "round_toward_zero_t": lambda below, odd, negative: False,
    "round_toward_negative_t": lambda below, odd, negative: negative and below > 0,
    "round_toward_positive_t": lambda below, odd, negative: not negative and below > 0,
}
Formula = Callable[[float, float], float]


class Format:
    """An IEEE 754 format of NumPy."""

    def __init__(self, dtype: str) -> None:
        info = np.finfo(dtype)
        self.digits, self.least, self.most = info.nmant + 1, int(info.minexp), int(info.maxexp) - 1

    def rounded(self, exact: Fraction, mode: str) -> float:
        negative, size = exact < 0, abs(exact)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent -= size < Fraction(2) ** exponent
        unit = Fraction(2) ** (max(exponent, self.least) - self.digits + 1)
        steps, below = divmod(size / unit, 1)
        away = MODES[mode]
        steps += away(below, steps % 2, negative)
        largest = (2 - Fraction(2) ** (1 - self.digits)) * Fraction(2) ** self.most
        if steps * unit > largest:
            to_infinity = away(Fraction(3, 4), True, negative)
            return math.copysign(math.inf if to_infinity else float(largest), -negative or 1)
        return math.copysign(float(steps * unit), -negative or 1)

    def flushed(self, x: float) -> float:
        return math.copysign(0.0, x) if abs(x) < 2.0**self.least else x

    def samples(self) -> list[float]:
        tiny = 2.0 ** (self.least - self.digits + 1)
        largest = (2 - 2.0 ** (1 - self.digits)) * 2.0**self.most
        finite = [0.0, 1.0, 3.0, 1 + 2.0 ** (1 - self.digits), 0.3, 2.0**self.least, tiny, largest]
        return [*finite, *(-x for x in finite), math.inf, -math.inf, math.nan]


def rounds(f: Format, mode: str, operation: Callable[[Any, Any], Any]) -> Formula:
    """``operation`` rounded once; zeros and what is not finite are as double has them, but for the sign of sums."""

    def result(a: float, b: float) -> float:
        try:
            value = operation(Fraction(a), Fraction(b))
        except (ValueError, OverflowError, ZeroDivisionError):
            with np.errstate(all="ignore"):
                return float(operation(np.float64(a), np.float64(b)))
        if value != 0:
            return f.rounded(value, mode)
        zero = float(operation(a, b))
        cancelled = operation in (operator.add, operator.sub) and math.copysign(1, zero) == 1
        both_positive = operation(math.copysign(1, a), math.copysign(1, b)) > 1
        return -0.0 if cancelled and not both_positive and mode == "round_toward_negative_t" else zero

    return result


def remainder(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    return a if math.isinf(b) else math.fmod(a, b)


def extreme(greatest: bool, propagate: bool) -> Formula:
    def result(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return math.nan if propagate else b if math.isnan(a) else a
        order = sorted((a, b), key=lambda x: (x, math.copysign(1, x)))
        return order[greatest]

    return result


def flushing(f: Format, formula: Formula) -> Formula:
    return lambda a, b: f.flushed(formula(f.flushed(a), f.flushed(b)))


OPERATIONS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv}


def formulas(f: Format, flush: bool) -> dict[str, Formula]:
    table: dict[str, Formula] = {
        "ct::remainder(a, b)": remainder,
        "ct::max(a, b)": extreme(True, False),
        "ct::min(a, b)": extreme(False, False),
        "ct::max(a, b, ct::propagate_nan_t{})": extreme(True, True),
        "ct::min(a, b, ct::propagate_nan_t{})": extreme(False, True),
        "ct::abs(a)": lambda a, b: abs(a),
        "-a": lambda a, b: -a,
        "(a == b)": lambda a, b: a == b,
        "(a != b)": lambda a, b: a != b,
        "(a < b)": lambda a, b: a < b,
        "(a <= b)": lambda a, b: a <= b,
        "(a > b)": lambda a, b: a > b,
        "(a >= b)": lambda a, b: a >= b,
        "(a && b)": lambda a, b: bool(a) and bool(b),
        "!a": lambda a, b: not a,
    }
    for name, operation in OPERATIONS.items():
        table[f"ct::{name}(a, b)"] = rounds(f, "round_ties_to_even_t", operation)
        for mode in MODES:
            table[f"ct::{name}(a, b, ct::{mode}{{}})"] = once = rounds(f, mode, operation)
            if flush:
                table[f"ct::{name}(a, b, ct::{mode}{{}}, ct::round_subnormals_to_zero_t{{}})"] = flushing(f, once)
    return table


def test_floats() -> None:
    for dtype in ("float16", "float32"):
        f, c_type = Format(dtype), C_TYPES[dtype]
        pairs = [(a, b) for a in f.samples() for b in f.samples()]
        length = 1 << (len(pairs) - 1).bit_length()
        pairs += [(1.0, 1.0)] * (length - len(pairs))
        table = formulas(f, flush=dtype == "float32")
        body = "".join(
            f"ct::store(out + {j * length} + i, ct::element_cast<{c_type}>({expression}));\n"
            for j, expression in enumerate(table)
        )
        kernel = Module(
            f"""{PREAMBLE}__tile_global__ void k({c_type} const* x, {c_type} const* y, {c_type}* out) {{
                auto i = ct::iota<ct::tile<int, ct::shape<{length}>>>();
                auto a = ct::load(x + i), b = ct::load(y + i);
                {body}
            }}"""
        ).kernel("k")
        x, y = (np.array([p[side] for p in pairs]).astype(dtype) for side in (0, 1))
        out = np.zeros((len(table), length), dtype)
        launch(get_backend("reference"), kernel, (1,), x, y, out)
        exactly = list(zip(x.astype(np.float64).tolist(), y.astype(np.float64).tolist()))
        for (expression, formula), got in zip(table.items(), out):
            want = np.array([formula(a, b) for a, b in exactly]).astype(dtype)
            np.testing.assert_array_equal(got, want, err_msg=f"{expression} on {dtype}")
            numbers = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]), err_msg=expression)
