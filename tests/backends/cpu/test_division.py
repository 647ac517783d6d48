"""Vectors divided by one number have the bits of the division, whatever the numbers are."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as ct

TILE = 1 << 12
ROUND = 50  # divisors a launch
EDGES = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    2.0**-149,
    2.0**-126,
    2.0**-100,
    2.0**-77,
    2.0**-76,
    2.0**100,
    3e38,
    1.0,
    -1.0,
]


@ct.kernel
def divide(x, divisors, out, N: ct.Constant[int]):
    tile = ct.load(x, (ct.bid(1),), (N,))
    ct.store(out, (ct.bid(0), ct.bid(1)), (tile / ct.load(divisors, (ct.bid(0),), (1,))).reshape((1, N)))


def quotients(x: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    out = np.empty((divisors.size, x.size), np.float32)
    with ct.use_backend("cpu"):
        ct.launch(None, (divisors.size, x.size // TILE), divide, (x, divisors, out, TILE))
    return out


def assert_divided(x: np.ndarray, divisors: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        wanted = x / divisors[:, None]
    got = quotients(x, divisors)
    same = (got.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(got) & np.isnan(wanted))
    where = np.argwhere(~same)
    assert not where.size, [(float(x[j]).hex(), float(divisors[i]).hex()) for i, j in where[:3]]


def floats(rng: np.random.Generator, count: int, low: int, high: int) -> np.ndarray:
    """Random signs and mantissas, with exponents in the range given."""
    scaled = np.ldexp(rng.uniform(1, 2, count), rng.integers(low, high, count))
    return (scaled * rng.choice([-1, 1], count)).astype(np.float32)


@pytest.mark.parametrize("exponents", [(-1, 1), (-20, 20), (-126, 127)], ids=str)
def test_random_numbers(exponents: tuple[int, int]) -> None:
    rng = np.random.default_rng(exponents[1])
    assert_divided(floats(rng, 64 * TILE, *exponents), floats(rng, ROUND, *exponents))


def test_quotients_next_to_where_they_round() -> None:
    """m odd, of 25 bits, lies halfway between two floats; a / b is next to m / 2**25 where a * 2**25 = b * m + 1 or - 1."""
    rng = np.random.default_rng(0)
    for b in rng.integers(1 << 22, 1 << 23, 400) * 2 + 1:
        inverse = pow(int(b), -1, 1 << 25)
        pairs = [(-inverse % (1 << 25), 1), (inverse, -1)]
        x = np.ones(TILE, np.float32)
        x[:2] = [(int(b) * m + sign) >> 25 for m, sign in pairs]
        assert_divided(x, np.array([b], np.float32))


def test_edges() -> None:
    """Numbers for which the reciprocal, a product or a remainder would leave its range, each beside ordinary ones."""
    rng = np.random.default_rng(1)
    edges = np.array(EDGES, np.float32)
    x = floats(rng, TILE, -4, 4)
    x[:: TILE // 256][: 16 * edges.size] = np.tile(edges, 16)
    assert_divided(x, np.concatenate([edges, floats(rng, 8, -30, 80)]))
    assert_divided(np.zeros(TILE, np.float32), edges)
