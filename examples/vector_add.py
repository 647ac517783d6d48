"""The first kernel: adds two vectors, one tile per block."""

import numpy as np
from harness import Array, Case, by, main, normal

import tilewright as ct

TILE = 4096


@ct.kernel
def vector_add(a: ct.Array, b: ct.Array, out: ct.Array, TILE: ct.Constant[int]) -> None:
    i = ct.bid(0)
    # A last tile that reaches past the end is cut off, by the loads and by the store.
    total = ct.load(a, (i,), (TILE,)) + ct.load(b, (i,), (TILE,))
    ct.store(out, (i,), total)


def add(a: Array, b: Array, out: Array) -> Array:
    ct.launch(None, (ct.cdiv(a.size, TILE),), vector_add, (a, b, out, TILE))
    return out


def cases(small: bool = False) -> list[Case]:
    n = 100_003 if small else 16_000_003
    a, b = normal(n), normal(n, seed=1)
    ours, numpys = np.empty_like(a), np.empty_like(a)
    return [Case("vector add", f"{by(n)} f32", lambda: add(a, b, ours), lambda: np.add(a, b, out=numpys))]


if __name__ == "__main__":
    main(cases)
