"""Layer normalization of every row, with a loop over tiles: rows may have any length."""

import numpy as np
from harness import Array, Case, by, main, normal

import tilewright as ct

TILE = 256


@ct.kernel
def normalize_rows(
    x: ct.Array, weight: ct.Array, bias: ct.Array, out: ct.Array, epsilon: float, TILE: ct.Constant[int]
) -> None:
    row = ct.bid(0)
    columns = x.shape[1]
    tiles = ct.num_tiles(x, 1, (1, TILE))
    total = ct.zeros((1, TILE), ct.float32)
    for j in range(tiles):
        total += ct.load(x, (row, j), (1, TILE), padding_mode=ct.PaddingMode.ZERO)
    mean = ct.sum(total) / columns
    squares = ct.zeros((1, TILE), ct.float32)
    for j in range(tiles):
        tile = ct.load(x, (row, j), (1, TILE))
        inside = j * TILE + ct.arange(TILE, dtype=ct.int32) < columns
        distance = ct.where(inside[None, :], tile - mean, 0.0)
        squares += distance * distance
    scale = ct.rsqrt(ct.sum(squares) / columns + epsilon)
    for j in range(tiles):
        tile = (ct.load(x, (row, j), (1, TILE)) - mean) * scale
        tile = tile * ct.load(weight, (j,), (TILE,)) + ct.load(bias, (j,), (TILE,))
        ct.store(out, (row, j), tile)


def layer_norm(x: Array, weight: Array, bias: Array, epsilon: float = 1e-5) -> Array:
    out = np.empty_like(x)
    ct.launch(None, (x.shape[0],), normalize_rows, (x, weight, bias, out, epsilon, TILE))
    return out


def layer_norm_numpy(x: Array, weight: Array, bias: Array, epsilon: float = 1e-5) -> Array:
    centered = x - x.mean(axis=1, keepdims=True)
    variance = np.mean(centered * centered, axis=1, keepdims=True)
    return centered / np.sqrt(variance + np.float32(epsilon)) * weight + bias


def cases(small: bool = False) -> list[Case]:
    shape = (32, 1500) if small else (2048, 3000)
    args = normal(*shape), normal(shape[1], seed=1), normal(shape[1], seed=2)
    return [Case("layer norm", f"{by(*shape)} f32", lambda: layer_norm(*args), lambda: layer_norm_numpy(*args), 1e-5)]


if __name__ == "__main__":
    main(cases)
