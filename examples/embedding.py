"""Looks up rows of a table: a gather whose indices come from memory."""

import numpy as np
from harness import Array, Case, by, main, normal

import tilewright as ct

TOKENS, COLUMNS = 16, 256


@ct.kernel
def look_up(
    table: ct.Array, tokens: ct.Array, out: ct.Array, TOKENS: ct.Constant[int], COLUMNS: ct.Constant[int]
) -> None:
    j, i = ct.bid(0), ct.bid(1)  # blocks that follow each other read the parts of a row
    rows = ct.load(tokens, (i,), (TOKENS,))
    columns = j * COLUMNS + ct.arange(COLUMNS, dtype=ct.int32)
    # A column of row numbers and a row of column numbers broadcast to a tile of positions.
    ct.store(out, (i, j), ct.gather(table, (rows[:, None], columns[None, :])))


def embedding(table: Array, tokens: Array) -> Array:
    out = np.empty((tokens.size, table.shape[1]), table.dtype)
    grid = ct.cdiv(table.shape[1], COLUMNS), ct.cdiv(tokens.size, TOKENS)
    ct.launch(None, grid, look_up, (table, tokens, out, TOKENS, COLUMNS))
    return out


def cases(small: bool = False) -> list[Case]:
    n, entries, width = (100, 50, 24) if small else (16384, 32000, 768)
    table = normal(entries, width)
    tokens = np.random.default_rng(1).integers(0, entries, n, dtype=np.int32)
    return [
        Case("embedding", f"{by(n)} of {by(entries, width)}", lambda: embedding(table, tokens), lambda: table[tokens])
    ]


if __name__ == "__main__":
    main(cases)
