"""A program without torch: arrays of NumPy, dataclasses of tiles, printing, assertions and compile-time checks."""

from dataclasses import dataclass
from typing import Annotated

import cuda.tile as ct
import numpy as np


@dataclass(frozen=True)
class Complex:
    re: ct.Tile
    im: ct.Tile

    def __mul__(self, other):
        return Complex(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def __add__(self, other):
        return Complex(self.re + other.re, self.im + other.im)

    @property
    def norm(self):
        return self.re * self.re + self.im * self.im


Wide = Annotated[np.ndarray, ct.ArrayAnnotation(static_shape_dims=(1,))]


@ct.function(host=True)
def blocks(n, tile):
    return ct.cdiv(n, tile)


@ct.kernel
def mandelbrot(out: Wide, steps, TM: ct.Constant[int]):
    i = ct.bid(0)
    columns = ct.ensure_constant(out.shape[1])
    ct.static_assert(columns & (columns - 1) == 0, f"{columns} is no power of two")
    y = (ct.arange(TM, dtype=ct.float32) + i * TM)[:, None] / 16 - 1
    x = ct.arange(columns, dtype=ct.float32)[None, :] / 16 - 1.5
    shape = (TM, columns)
    c = Complex(ct.broadcast_to(x, shape), ct.broadcast_to(y, shape))
    z = Complex(ct.zeros(shape, ct.float32), ct.zeros(shape, ct.float32))
    count = ct.zeros(shape, ct.int32)
    for _ in range(steps):
        inside = z.norm <= 4.0
        z = z * z + c
        z = Complex(ct.where(inside, z.re, 2.0), ct.where(inside, z.im, 2.0))
        count += inside.astype(ct.int32)
    ct.assert_(count <= steps, "counted too far")
    if i == 0:
        print("first block of", ct.num_blocks(0), "with", blocks(columns, 8), "groups")
    ct.store(out, (i, 0), count)


out = np.zeros((32, 32), np.int32)
ct.launch(0, (blocks(32, 8), 1, 1), mandelbrot, (out, 20, 8))
c = (np.arange(32, dtype=np.float32)[None] / 16 - 1.5) + 1j * (np.arange(32, dtype=np.float32)[:, None] / 16 - 1)
z, expected = np.zeros_like(c), np.zeros((32, 32), np.int32)
for _ in range(20):
    inside = abs(z) <= 2
    expected += inside
    z = np.where(inside, z * z + c, 2 + 2j)
assert (out != expected).mean() < 0.01
print("numpy only: ok")
