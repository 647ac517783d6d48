"""Filters an image: the sum of shifted images, each a view that starts further in."""

import numpy as np
from harness import Array, Case, by, main, normal

import tilewright as ct

TILE_Y, TILE_X = 16, 64


@ct.kernel
def convolve(
    image: ct.Array,
    weights: ct.Array,
    out: ct.Array,
    KY: ct.Constant[int],
    KX: ct.Constant[int],
    TY: ct.Constant[int],
    TX: ct.Constant[int],
) -> None:
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TY, TX), ct.float32)
    for y in ct.static_iter(range(KY)):
        for x in ct.static_iter(range(KX)):
            shifted = image.slice(0, y, image.shape[0]).slice(1, x, image.shape[1])
            total += ct.load(shifted, (i, j), (TY, TX)) * ct.load(weights, (y, x), (1, 1))
    ct.store(out, (i, j), total)


def convolution(image: Array, weights: Array) -> Array:
    height, width = (n - k + 1 for n, k in zip(image.shape, weights.shape))
    out = np.empty((height, width), np.float32)
    grid = ct.cdiv(height, TILE_Y), ct.cdiv(width, TILE_X)
    ct.launch(None, grid, convolve, (image, weights, out, *weights.shape, TILE_Y, TILE_X))
    return out


def convolution_numpy(image: Array, weights: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(image, weights.shape)
    return np.einsum("ijyx,yx->ij", windows, weights)


def cases(small: bool = False) -> list[Case]:
    shape = (70, 150) if small else (1080, 1920)
    image, weights = normal(*shape), normal(5, 5, seed=1)
    return [
        Case(
            "convolution 5 x 5",
            f"{by(*shape)} f32",
            lambda: convolution(image, weights),
            lambda: convolution_numpy(image, weights),
            1e-5,
        )
    ]


if __name__ == "__main__":
    main(cases)
