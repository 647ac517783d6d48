"""The kernels of the gallery in Numba, as its users write them; loops of ``cpu_numba.py`` are shared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import cpu_numba as loops
import heat
import mandelbrot
import numpy as np
from harness import normal
from numba import njit, prange

_parallel = njit(parallel=True, cache=False)


@_parallel
def attention(q, k, v, causal, out):
    heads, rows, width = q.shape
    scale = np.float32(1 / math.sqrt(width))
    for item in prange(heads * rows):
        head, i = item // rows, item % rows
        last = i + 1 if causal else rows
        weights = np.empty(last, np.float32)
        for j in range(last):
            weights[j] = np.dot(q[head, i], k[head, j]) * scale
        weights = np.exp(weights - weights.max())
        out[head, i] = np.dot(weights / weights.sum(), v[head, :last])
    return out


@_parallel
def convolution(image, weights, out):
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            total = np.float32(0)
            for y in range(weights.shape[0]):
                for x in range(weights.shape[1]):
                    total += image[i + y, j + x] * weights[y, x]
            out[i, j] = total
    return out


@_parallel
def escape_times(across, down, limit, out):
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            x, y, n = np.float32(0), np.float32(0), 0
            while n < limit and x * x + y * y <= np.float32(4):
                x, y = x * x - y * y + across[j], np.float32(2) * x * y + down[i]
                n += 1
            out[i, j] = n
    return out


@_parallel
def spread(now, out, rate):
    for i in prange(1, now.shape[0] - 1):
        for j in range(1, now.shape[1] - 1):
            around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
            out[i, j] = now[i, j] + rate * (around - np.float32(4) * now[i, j])


@_parallel
def gravity(bodies, masses, softening, out):
    for i in prange(bodies.shape[1]):
        sx = sy = sz = np.float32(0)
        for j in range(bodies.shape[1]):
            dx, dy, dz = bodies[0, j] - bodies[0, i], bodies[1, j] - bodies[1, i], bodies[2, j] - bodies[2, i]
            squared = dx * dx + dy * dy + dz * dz + softening
            pull = masses[j] / (squared * math.sqrt(squared))
            sx, sy, sz = sx + pull * dx, sy + pull * dy, sz + pull * dz
        out[0, i], out[1, i], out[2, i] = sx, sy, sz
    return out


def sides(name: str, small: bool) -> Mapping[str, Callable[[], Any]]:
    """The cases of an example by their names, on what the example computes with."""
    if name == "vector_add":
        n = 100_003 if small else 16_000_003
        a, b, out = normal(n), normal(n, seed=1), np.empty(n, np.float32)
        return {"vector add": lambda: loops.add(a, b, out)}
    if name == "transpose" and not small:  # whose loops go by squares of 32 elements
        x, turned = normal(4096, 4096), np.empty((4096, 4096), np.float32)
        return {"transpose": lambda: loops.transpose(x, turned)}
    if name == "softmax":
        x = normal(*((64, 1000) if small else (4096, 1024)))
        return {"softmax of rows": lambda: loops.softmax(x, np.empty_like(x))}
    if name == "layer_norm":
        shape = (32, 1500) if small else (2048, 3000)
        x, weight, bias = normal(*shape), normal(shape[1], seed=1), normal(shape[1], seed=2)
        return {"layer norm": lambda: loops.layer_norm(x, weight, bias, np.empty_like(x), np.float32(1e-5))}
    if name == "attention":
        q, k, v = (normal(*((2, 150, 32) if small else (8, 1024, 64)), seed=seed) for seed in range(3))
        return {
            "attention": lambda: attention(q, k, v, False, np.empty_like(q)),
            "attention, causal": lambda: attention(q, k, v, True, np.empty_like(q)),
        }
    if name == "histogram":
        n, bins = (10_007, 64) if small else (4_000_003, 1024)
        values = np.random.default_rng(0).integers(0, bins, n, dtype=np.int32)
        return {"histogram, atomics": lambda: loops.histogram(values, bins)}
    if name == "embedding":
        n, entries, width = (100, 50, 24) if small else (16384, 32000, 768)
        table, tokens = normal(entries, width), np.random.default_rng(1).integers(0, entries, n, dtype=np.int32)
        return {"embedding": lambda: loops.gather_rows(table, tokens, np.empty((n, width), np.float32))}
    if name == "convolution":
        h, w = (70, 150) if small else (1080, 1920)
        image, weights = normal(h, w), normal(5, 5, seed=1)
        return {"convolution 5 x 5": lambda: convolution(image, weights, np.empty((h - 4, w - 4), np.float32))}
    if name == "mandelbrot":
        m, (h, w, limit) = mandelbrot, (50, 70, 30) if small else (800, 960, 100)
        across, down, out = m.along(m.LEFT, m.WIDTH, w), m.along(m.TOP, m.HEIGHT, h), np.empty((h, w), np.int32)
        return {"Mandelbrot set": lambda: escape_times(across, down, limit, out)}
    if name == "heat":
        h, w, steps = (40, 90, 8) if small else (1024, 1024, 20)
        start = heat.plate(h, w)

        def steps_of_heat() -> Any:
            now, after = np.array(start), np.array(start)
            for _ in range(steps):
                spread(now, after, np.float32(0.2))
                now, after = after, now
            return now

        return {"heat, 5-point stencil": steps_of_heat}
    if name == "nbody":
        n = 100 if small else 3000
        bodies, masses = normal(3, n), np.abs(normal(n, seed=1))
        return {"gravity of all pairs": lambda: gravity(bodies, masses, np.float32(0.01), np.empty((3, n), np.float32))}
    return {}
