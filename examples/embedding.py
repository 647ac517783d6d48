"""Looks up rows of a table, whose numbers come from memory."""

import numpy as np
from harness import Array, Case, by, main, normal

import tilewright as ct

TOKENS, COLUMNS = 8, 256


@ct.kernel
def look_up(
    table: ct.Array, tokens: ct.Array, out: ct.Array, TOKENS: ct.Constant[int], COLUMNS: ct.Constant[int]
) -> None:
    first = ct.bid(0) * TOKENS
    for i in range(first, min(first + TOKENS, tokens.shape[0])):
        row = ct.gather(tokens, i)  # a number from memory, which says where the tiles are
        for j in range(ct.num_tiles(table, 1, (1, COLUMNS))):
            ct.store(out, (i, j), ct.load(table, (row, j), (1, COLUMNS)))


def embedding(table: Array, tokens: Array) -> Array:
    out = np.empty((tokens.size, table.shape[1]), table.dtype)
    ct.launch(None, (ct.cdiv(tokens.size, TOKENS),), look_up, (table, tokens, out, TOKENS, COLUMNS))
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
