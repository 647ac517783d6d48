"""tanh of float32 by polynomials from a table, for processors that look numbers up in tables held by registers.

The magnitude is in one of 32 intervals, four to an octave, of which the first begins at zero and the last is cut where
tanh is 1. In each, tanh(x) = c0 + t * (c1 + t * (c2 + ...)) with t = |x| - base. base is a number near the middle
whose tanh is almost a float32, c0 (Gal's accurate tables), and the rest interpolates at Chebyshev's nodes.
"""

from __future__ import annotations

import functools

import numpy as np

from tilewright.backends.vector.lookup import SIZE, lookup
from tilewright.backends.vector.value import Val, fused, larger, magnitude, where, with_sign

_INTERVAL = 21  # bits of a float32 below the number of its interval: a quarter of an octave
_FIRST = 123 << 2  # the bits above these of 2**-4, in the first interval
_LIMIT = 9.25  # beyond it tanh is 1
_DEGREE = 4  # of (tanh(base + t) - c0) / t; 3 does not keep the bound of docs/numerics.md
_CANDIDATES = 4096  # for base; one in so many has a tanh within 2**-12 ulp of a float32


def tanh(x: Val) -> Val:
    """tanh of vectors of ``lookup.LANES`` lanes."""
    size = magnitude(x)
    y = where(size > _LIMIT, _LIMIT, size)
    index = larger(y.bits(), _FIRST << _INTERVAL) >> _INTERVAL
    base, *coefficients = (lookup(index, column.tolist()) for column in _columns())
    t, result = y - base, coefficients[-1]
    for c in reversed(coefficients[:-1]):
        result = fused(result, t, c)
    return with_sign(result, x)


@functools.cache
def _columns() -> np.ndarray:
    """base, c0, c1, ..., each for all intervals, whose numbers' low bits say where they stand."""
    numbers = _FIRST + (np.arange(SIZE) - _FIRST) % SIZE
    low, high = _from_bits(numbers << _INTERVAL), _from_bits((numbers + 1) << _INTERVAL)
    first = numbers == _FIRST
    low[first] = 0.0
    middle = (low + np.clip(high, low, _LIMIT)) / 2
    bits = middle.astype(np.float32).view(np.int32)
    near = _from_bits(bits[:, None] + np.arange(-_CANDIDATES // 2, _CANDIDATES // 2))
    exact = np.tanh(near)
    base = near[np.arange(SIZE), np.abs(exact - exact.astype(np.float32)).argmin(axis=1)]
    base[first] = 0.0
    value = np.tanh(base)
    # (tanh(base + t) - tanh(base)) / t at the nodes, without a difference of numbers that are close
    nodes = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    half = ((high - low) / 2)[:, None]
    t = (low + high)[:, None] / 2 + half * nodes - base[:, None]
    slope = (1 - value[:, None] ** 2) * np.tanh(t) / t / (1 + value[:, None] * np.tanh(t))
    powers = np.arange(_DEGREE + 1)
    found = np.linalg.solve((t / half)[..., None] ** powers, slope[..., None])[..., 0] / half**powers
    return np.column_stack([base, value, found]).T.astype(np.float32)


def _from_bits(bits: np.ndarray) -> np.ndarray:
    """The float32 with these bits, as float64."""
    return bits.astype(np.int32).view(np.float32).astype(np.float64)
