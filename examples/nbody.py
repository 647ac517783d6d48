"""Gravity between all pairs of bodies: a block holds a tile of them, and walks over all the others."""

from __future__ import annotations

import numpy as np
from harness import Array, Case, by, main, normal

import tilewright as ct

TILE, STEP = 64, 64
SOFTENING = 0.01


def column(bodies: ct.Array, axis: int, tile: int | ct.Tile, size: int) -> ct.Tile:
    return ct.load(bodies, (axis, tile), (1, size), padding_mode=ct.PaddingMode.ZERO)


@ct.kernel
def accelerate(
    bodies: ct.Array, masses: ct.Array, out: ct.Array, TILE: ct.Constant[int], STEP: ct.Constant[int]
) -> None:
    i = ct.bid(0)
    x, y, z = column(bodies, 0, i, TILE), column(bodies, 1, i, TILE), column(bodies, 2, i, TILE)
    x, y, z = ct.transpose(x), ct.transpose(y), ct.transpose(z)
    ax, ay, az = ct.zeros((TILE, 1), ct.float32), ct.zeros((TILE, 1), ct.float32), ct.zeros((TILE, 1), ct.float32)
    for j in range(ct.num_tiles(masses, 0, (STEP,))):
        # Bodies past the end have no mass, and attract nobody.
        mass = ct.load(masses, (j,), (STEP,), padding_mode=ct.PaddingMode.ZERO)[None, :]
        dx, dy, dz = column(bodies, 0, j, STEP) - x, column(bodies, 1, j, STEP) - y, column(bodies, 2, j, STEP) - z
        squared = dx * dx + dy * dy + dz * dz + SOFTENING
        pull = mass * ct.rsqrt(squared) / squared
        ax += ct.sum(pull * dx, axis=1, keepdims=True)
        ay += ct.sum(pull * dy, axis=1, keepdims=True)
        az += ct.sum(pull * dz, axis=1, keepdims=True)
    for axis, total in ct.static_iter(((0, ax), (1, ay), (2, az))):
        ct.store(out, (axis, i), ct.transpose(total))


def gravity(bodies: Array, masses: Array) -> Array:
    out = np.empty_like(bodies)
    ct.launch(None, (ct.cdiv(masses.size, TILE),), accelerate, (bodies, masses, out, TILE, STEP))
    return out


def gravity_numpy(bodies: Array, masses: Array) -> Array:
    away = bodies[:, None, :] - bodies[:, :, None]
    squared = (away * away).sum(axis=0) + np.float32(SOFTENING)
    return np.asarray((masses * squared**-1.5 * away).sum(axis=2))


def cases(small: bool = False) -> list[Case]:
    n = 100 if small else 3000
    bodies, masses = normal(3, n), np.abs(normal(n, seed=1))
    return [
        Case(
            "gravity of all pairs",
            f"{by(n)} bodies f32",
            lambda: gravity(bodies, masses),
            lambda: gravity_numpy(bodies, masses),
            1e-4,
        )
    ]


if __name__ == "__main__":
    main(cases)
