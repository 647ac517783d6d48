"""The Mandelbrot set: every element of a tile goes its own way, until the last one has left the circle."""

import numpy as np
from harness import Array, Case, by, main

import tilewright as ct

TILE_Y, TILE_X = 8, 64
LEFT, TOP, WIDTH, HEIGHT = -2.25, -1.25, 3.0, 2.5


@ct.kernel
def escape_times(
    out: ct.Array, dx: float, dy: float, LIMIT: ct.Constant[int], TY: ct.Constant[int], TX: ct.Constant[int]
) -> None:
    i, j = ct.bid(0), ct.bid(1)
    cy = TOP + dy * (i * TY + ct.arange(TY, dtype=ct.int32)).astype(ct.float32)[:, None]
    cx = LEFT + dx * (j * TX + ct.arange(TX, dtype=ct.int32)).astype(ct.float32)[None, :]
    x, y = ct.zeros((TY, TX), ct.float32), ct.zeros((TY, TX), ct.float32)
    steps = ct.zeros((TY, TX), ct.int32)
    for _ in range(LIMIT):
        inside = x * x + y * y <= 4.0
        if ct.max(inside.astype(ct.int32)) == 0:
            break
        x, y = ct.where(inside, x * x - y * y + cx, x), ct.where(inside, 2.0 * x * y + cy, y)
        steps += inside.astype(ct.int32)
    ct.store(out, (i, j), steps)


def mandelbrot(height: int, width: int, limit: int) -> Array:
    out = np.empty((height, width), np.int32)
    grid = ct.cdiv(height, TILE_Y), ct.cdiv(width, TILE_X)
    ct.launch(None, grid, escape_times, (out, WIDTH / width, HEIGHT / height, limit, TILE_Y, TILE_X))
    return out


def along(start: float, length: float, count: int) -> Array:
    """``count`` coordinates from ``start`` on, in float32 as the kernel computes them."""
    steps = np.multiply(np.arange(count, dtype=np.float32), np.float32(length / count))
    return np.add(steps, np.float32(start))


def mandelbrot_numpy(height: int, width: int, limit: int) -> Array:
    cx, cy = np.meshgrid(along(LEFT, WIDTH, width), along(TOP, HEIGHT, height))
    x, y = np.zeros((height, width), np.float32), np.zeros((height, width), np.float32)
    steps = np.zeros((height, width), np.int32)
    for _ in range(limit):
        inside = x * x + y * y <= 4
        if not inside.any():
            break
        x, y = np.where(inside, x * x - y * y + cx, x), np.where(inside, 2 * x * y + cy, y)
        steps += inside
    return steps


def cases(small: bool = False) -> list[Case]:
    height, width, limit = (50, 70, 30) if small else (800, 960, 100)
    return [
        Case(
            "Mandelbrot set",
            f"{by(height, width)}, {limit} steps",
            lambda: mandelbrot(height, width, limit),
            lambda: mandelbrot_numpy(height, width, limit),
        )
    ]


if __name__ == "__main__":
    main(cases)
