"""Operands for tests of element semantics: every value of a small dtype, random and special ones of a large one."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from tilewright.ir.dtypes import DType, tfloat32


def all_values(dtype: DType) -> np.ndarray:
    """Every bit pattern of a dtype of at most 16 bits."""
    if dtype.is_bool:
        return np.array([False, True])
    return np.arange(1 << dtype.bitwidth, dtype=f"u{dtype.bytes}").view(dtype.storage)


def floats(dtype: DType, size: int, seed: int = 0) -> np.ndarray:
    """``size`` values: random bits, random magnitudes near 1, and the edges of every format."""
    rng = np.random.default_rng([seed, dtype.bitwidth])
    raw = rng.integers(0, 1 << dtype.bitwidth, size // 2, dtype=f"u{dtype.bytes}").view(dtype.storage)
    near = rng.standard_normal(size - size // 2) * np.exp2(rng.integers(-20, 20, size - size // 2))
    edges = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 65504.0, 65519.99, 65520.0, 3.3895e38, 464.0, 464.5]
    edges += [2.0**k * f for k in (-1074, -1023, -1022, -149, -127, -126, -24, -14, 127, 1023) for f in (1, 1.5, -1)]
    with np.errstate(all="ignore"):
        near[: len(edges)] = edges
        values = np.concatenate([raw, near.astype(dtype.storage)])
    rng.shuffle(values)
    if dtype is tfloat32:
        return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return values


def integers(dtype: DType, size: int, seed: int = 0) -> np.ndarray:
    """``size`` integers of every magnitude, with the extreme ones."""
    rng = np.random.default_rng([seed, dtype.bitwidth])
    raw = rng.integers(0, 1 << 64, size, dtype=np.uint64) >> rng.integers(0, 64, size).astype(np.uint64)
    edges = np.array([dtype.min & (2**64 - 1), dtype.max, 0, 1, 2**64 - 1, 2**53 + 1], np.uint64)
    raw[: edges.size] = edges
    rng.shuffle(raw)
    return raw.astype(dtype.storage)


def edges(dtype: DType) -> list[float]:
    """Zeros, infinities, NaN, one and its neighbour, and the ends of the normal and subnormal ranges."""
    low = 2 - (1 << (dtype.exponent_bits - 1))
    least, normal, unit = math.ldexp(1.0, low - dtype.mantissa_bits), math.ldexp(1.0, low), 2.0**-dtype.mantissa_bits
    largest = math.ldexp(2 - unit, 1 - low)
    signed = [0.0, 1.0, math.inf, least, normal, normal - least, largest]
    return [*signed, *(-v for v in signed), math.nan, 1 + unit, 3 * least, math.ldexp(1.0, low // 2)]


@functools.cache
def triples(dtype: DType, size: int) -> list[np.ndarray]:
    """Three operands: all triples of ``edges``, random bits, products near both ends of the range, cancelling sums.

    About nine times ``size`` values beside the edges, and every value of a 16-bit dtype.
    """
    rng = np.random.default_rng(7)
    precision, low = dtype.mantissa_bits + 1, 2 - (1 << (dtype.exponent_bits - 1))
    unsigned = f"u{dtype.bytes}"

    def integers_at(exponent: int, spread: int) -> np.ndarray:
        mantissa = rng.integers(-(1 << precision), 1 << precision, size).astype(np.float64)
        with np.errstate(all="ignore"):
            values = np.ldexp(mantissa, exponent - precision + rng.integers(-spread, spread + 1, size))
            return values.astype(dtype.storage)

    corners = np.array(list(itertools.product(edges(dtype), repeat=3))).astype(dtype.storage)
    columns: list[list[np.ndarray]] = [[corners[:, i]] for i in range(3)]
    for column in columns:
        if dtype.bitwidth == 16:
            bits = rng.permutation(1 << 16).astype(unsigned)
        else:
            bits = rng.integers(0, 1 << dtype.bitwidth, 4 * size, dtype=unsigned)
        column.append(bits.view(dtype.storage))
        column += [integers_at(exponent, 6) for exponent in (0, low // 2, -low // 2)]
        column.append(integers_at(0, 60))
    a, b = integers_at(0, 4), integers_at(0, 4)
    with np.errstate(all="ignore"):
        product = -(a.astype(np.float64) * b.astype(np.float64)).astype(dtype.storage)
    for column, values in zip(columns, (a, b, product)):
        column.append(values)
    return [np.concatenate(column) for column in columns]
