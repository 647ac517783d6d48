"""Transposes a matrix: a block reads a tile by rows and writes it by columns."""

import numpy as np
from harness import Array, Case, by, main, normal

import tilewright as ct

TILE = 32


@ct.kernel
def transpose_tiles(x: ct.Array, out: ct.Array, TILE: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.transpose(ct.load(x, (i, j), (TILE, TILE))))


def transpose(x: Array) -> Array:
    rows, columns = x.shape
    out = np.empty((columns, rows), x.dtype)
    ct.launch(None, (ct.cdiv(rows, TILE), ct.cdiv(columns, TILE)), transpose_tiles, (x, out, TILE))
    return out


def cases(small: bool = False) -> list[Case]:
    shape = (100, 70) if small else (4096, 4096)
    x = normal(*shape)
    return [Case("transpose", f"{by(*shape)} f32", lambda: transpose(x), lambda: np.array(np.transpose(x), order="C"))]


if __name__ == "__main__":
    main(cases)
