"""Heat that spreads over a plate: a stencil, whose neighbours are views of the same array that start elsewhere."""

import numpy as np
from harness import Array, Case, by, main

import tilewright as ct

TILE_Y, TILE_X = 8, 1024


@ct.kernel
def spread(plate: ct.Array, out: ct.Array, rate: float, TY: ct.Constant[int], TX: ct.Constant[int]) -> None:
    j, i = ct.bid(0), ct.bid(1)  # neighbouring blocks lie side by side in memory
    height, width = plate.shape
    middle = ct.load(plate.slice(0, 1, height - 1).slice(1, 1, width - 1), (i, j), (TY, TX))
    above = ct.load(plate.slice(0, 0, height - 2).slice(1, 1, width - 1), (i, j), (TY, TX))
    below = ct.load(plate.slice(0, 2, height).slice(1, 1, width - 1), (i, j), (TY, TX))
    left = ct.load(plate.slice(0, 1, height - 1).slice(1, 0, width - 2), (i, j), (TY, TX))
    right = ct.load(plate.slice(0, 1, height - 1).slice(1, 2, width), (i, j), (TY, TX))
    inner = out.slice(0, 1, height - 1).slice(1, 1, width - 1)
    ct.store(inner, (i, j), middle + rate * (above + below + left + right - 4.0 * middle))


def plate(height: int, width: int) -> Array:
    """Cold, with a hot edge and a hot spot."""
    found = np.zeros((height, width), np.float32)
    found[0] = 1.0
    found[height // 2 : height // 2 + height // 6, width // 3 : width // 3 + width // 6] = 1.0
    return found


def heat(start: Array, steps: int) -> Array:
    now: Array = np.array(start)
    after: Array = np.array(start)
    grid = ct.cdiv(start.shape[1] - 2, TILE_X), ct.cdiv(start.shape[0] - 2, TILE_Y)
    for _ in range(steps):
        ct.launch(None, grid, spread, (now, after, 0.2, TILE_Y, TILE_X))
        now, after = after, now
    return now


def heat_numpy(start: Array, steps: int) -> Array:
    now: Array = np.array(start)
    rate = np.float32(0.2)
    for _ in range(steps):
        middle: Array = now[1:-1, 1:-1]
        around: Array = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
        now[1:-1, 1:-1] = middle + rate * (around - 4 * middle)
    return now


def cases(small: bool = False) -> list[Case]:
    height, width, steps = (20, 45, 4) if small else (1024, 1024, 20)
    start = plate(height, width)
    return [
        Case(
            "heat, 5-point stencil",
            f"{by(height, width)} f32, {steps} steps",
            lambda: heat(start, steps),
            lambda: heat_numpy(start, steps),
            1e-5,
        )
    ]


if __name__ == "__main__":
    main(cases)
