"""Softmax of every row: each block holds its row in one tile, so memory is read and written once."""

import numpy as np
from harness import Array, Case, by, main, normal

import tilewright as ct


@ct.kernel
def softmax_rows(x: ct.Array, out: ct.Array, COLUMNS: ct.Constant[int]) -> None:
    row = ct.bid(0)
    # Columns past the end of the array count as -inf: they change neither the maximum nor the sum.
    tile = ct.load(x, (row, 0), (1, COLUMNS), padding_mode=ct.PaddingMode.NEG_INF)
    shifted = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
    ct.store(out, (row, 0), shifted / ct.sum(shifted, axis=1, keepdims=True))


def softmax(x: Array) -> Array:
    rows, columns = x.shape
    out = np.empty_like(x)
    ct.launch(None, (rows,), softmax_rows, (x, out, 1 << (columns - 1).bit_length()))
    return out


def softmax_numpy(x: Array) -> Array:
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def cases(small: bool = False) -> list[Case]:
    shape = (64, 1000) if small else (4096, 1024)
    x = normal(*shape)
    return [Case("softmax of rows", f"{by(*shape)} f32", lambda: softmax(x), lambda: softmax_numpy(x), 1e-5)]


if __name__ == "__main__":
    main(cases)
