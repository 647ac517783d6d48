"""Operands for tests of element semantics: every value of a small dtype, random and special ones of a large one."""

from __future__ import annotations

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
