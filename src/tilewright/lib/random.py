"""Random numbers that depend on a seed and an index only (J. Salmon et al., "Parallel random numbers: as easy as 1, 2,
3", 2011: Philox 4x32 with 10 rounds), so that any block computes any of them, in any order."""

from __future__ import annotations

import math
from typing import Any

from tilewright import language as ct

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any], *, rounds: int = 10) -> tuple[Any, Any, Any, Any]:
    """Four uint32 tiles of random bits from a counter of four uint32 words and a key of two.

    >>> [hex(int(w)) for w in lib.philox((0, 0, 0, 0), (0, 0))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    c0, c1, c2, c3 = _low(counter[0]), _low(counter[1]), _low(counter[2]), _low(counter[3])
    k0, k1 = _low(key[0]), _low(key[1])
    for i in ct.static_iter(range(rounds)):
        high0, low0 = _product(c0, _MULTIPLIERS[0])
        high1, low1 = _product(c2, _MULTIPLIERS[1])
        step0, step1 = _low(i * _KEY_STEPS[0] % (1 << 32)), _low(i * _KEY_STEPS[1] % (1 << 32))
        c0, c1, c2, c3 = high1 ^ c1 ^ (k0 + step0), low1, high0 ^ c3 ^ (k1 + step1), low0
    return c0, c1, c2, c3


def random_bits(seed: Any, index: Any) -> Any:
    """Random uint32 numbers, one for each ``index``, which is an integer tile; both count up to 64 bits.

    >>> lib.random_bits(0, ct.zeros((1,), ct.int32))
    Tile([1713891541], dtype=uint32)
    """
    return _four(seed, index)[0]


def uniform(seed: Any, index: Any) -> Any:
    """Random float32 numbers from 0 up to but not 1, multiples of 2^-24, one for each ``index``.

    >>> lib.uniform(0, ct.zeros((1,), ct.int32))
    Tile([0.39904642], dtype=float32)
    """
    return _fraction(random_bits(seed, index))


def normal(seed: Any, index: Any) -> Any:
    """Random float32 numbers of the standard normal distribution, one for each ``index`` (G. Box, M. Muller, 1958).

    >>> lib.normal(0, ct.zeros((1,), ct.int32)).shape
    (1,)
    """
    first, second, _, _ = _four(seed, index)
    radius = ct.sqrt(-2 * ct.log(1 - _fraction(first)))
    return radius * ct.cos(2 * math.pi * _fraction(second))


def dropout(x: Any, probability: Any, seed: Any, index: Any) -> Any:
    """``x / (1 - probability)``, but 0 with the given probability; ``index`` numbers the elements of ``x``.

    The same seed and index give the same choice, so that a backward pass repeats it.

    >>> lib.dropout(ct.ones((2,), ct.float32), 0.0, 7, ct.arange(2, dtype=ct.int32))
    Tile([1., 1.], dtype=float32)
    """
    kept = uniform(seed, index) >= probability
    scale = ct.where(kept, 1 / ct.maximum(1 - ct.astype(probability, ct.float32), 2.0**-24), 0)
    return ct.astype(ct.where(kept, x * scale, 0), x.dtype)


def _four(seed: Any, index: Any) -> tuple[Any, Any, Any, Any]:
    wide, key = ct.astype(index, ct.uint64), ct.astype(seed, ct.uint64)
    zero = ct.zeros((), ct.uint32)
    return philox((_low(wide), _low(wide >> 32), zero, zero), (_low(key), _low(key >> 32)))


def _fraction(bits: Any) -> Any:
    return ct.astype(bits >> 8, ct.float32) * 2.0**-24


def _product(x: Any, factor: int) -> tuple[Any, Any]:
    """The upper and the lower word of a product of uint32 numbers."""
    product = ct.astype(x, ct.uint64) * factor
    return _low(product >> 32), _low(product)


def _low(x: Any) -> Any:
    """The lower word of integers."""
    return ct.astype(x, ct.uint32)
