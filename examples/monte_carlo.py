"""Pi by throwing darts: every block makes its own random numbers, and all add up their hits."""

import numpy as np
from harness import Array, Case, by, main

import tilewright as ct
from tilewright import lib

TILE = 2048


@ct.kernel
def throw(hits: ct.Array, seed: int, darts: int, TILE: ct.Constant[int]) -> None:
    number = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    x, y = lib.uniform(seed, 2 * number), lib.uniform(seed, 2 * number + 1)
    inside = (x * x + y * y < 1.0) & (number < darts)
    ct.atomic_add(hits, (0,), ct.sum(inside.astype(ct.int32)))


def count_hits(darts: int, seed: int) -> Array:
    hits = np.zeros(1, np.int32)
    ct.launch(None, (ct.cdiv(darts, TILE),), throw, (hits, seed, darts, TILE))
    return hits


def pi(darts: int, seed: int = 1) -> float:
    return float(4 * count_hits(darts, seed)[0] / darts)


def positions(darts: int, seed: int) -> tuple[Array, Array]:
    """Where the darts land: functions of tiles work on the host, too."""
    n = 1 << (darts - 1).bit_length()
    number = ct.arange(n, dtype=ct.int32)
    x, y = lib.uniform(seed, 2 * number), lib.uniform(seed, 2 * number + 1)
    return np.asarray(x)[:darts], np.asarray(y)[:darts]


def count_hits_numpy(darts: int, seed: int) -> Array:
    x, y = positions(darts, seed)
    return np.array([np.count_nonzero(x * x + y * y < 1)], np.int32)


def cases(small: bool = False) -> list[Case]:
    darts = 10_007 if small else 1_000_003
    return [
        Case(
            "Monte Carlo, Philox",
            f"{by(darts)} darts",
            lambda: count_hits(darts, 1),
            lambda: count_hits_numpy(darts, 1),
        )
    ]


if __name__ == "__main__":
    main(cases)
