"""Kernels whose CUDA Tile IR is in ``tests/tileir/data/cutile``, as cuTile Python 1.7.0 wrote it, and how to launch them.

``cutile_export.py`` writes the files, where ``cuda.tile`` is installed. The kernels of the examples are among them.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as ct

EXAMPLES = Path(__file__).parents[2] / "examples"


@ct.kernel
def integers(x, y, out, n):
    i = ct.bid(0)
    a, b = ct.load(x, (i,), (32,)), ct.load(y, (i,), (32,))
    low = (a // b) ^ (a % b) | (a >> 3) & (b << 2)
    wide = ct.bitcast(a, ct.uint32) % 7 + (ct.bitcast(b, ct.uint32) >> 5)
    best = ct.minimum(ct.maximum(a, b), n)
    ct.store(out, (i, 0), ct.reshape(low + wide.astype(ct.int32), (1, 32)))
    ct.store(out, (i, 1), ct.reshape(ct.where(a > b, best, ct.cdiv(a, 5)), (1, 32)))


@ct.kernel
def folds(x, out, where):
    tile = ct.load(x, (0, 0), (16, 32))
    ct.store(out, (0,), ct.sum(tile, axis=0))
    ct.store(out, (1,), ct.max(ct.cumsum(tile, axis=1), axis=0))
    ct.store(out, (2,), ct.min(ct.cumprod(tile, axis=0, reverse=True), axis=0))
    ct.store(where, (0,), ct.argmax(tile, axis=0))
    ct.store(where, (1,), ct.argmin(tile, axis=0))


@ct.kernel
def branches(counts, out, limit):
    i = ct.bid(0)
    steps = 0
    total = ct.zeros((16,), ct.int32)
    for k in range(limit):
        if k == 3:
            continue
        if k + i > 9:
            total += 100
            if k > 12:
                steps += 2
        total += k
    while True:
        steps += 1
        if steps * steps > limit + i:
            break
    ct.atomic_add(counts, (i % 4,), steps)
    ct.atomic_max(counts, ct.arange(4, dtype=ct.int32) + 4, limit + i)
    ct.store(out, (i,), total + steps)


@ct.kernel
def rows_by_index(table, index, out):
    rows = ct.load(index, (ct.bid(0),), (8,))
    found = ct.load_advanced_indexing(table, (rows, ct.Slice(3, 16)), padding_mode=ct.PaddingMode.NEG_INF)
    ct.store(out, (ct.bid(0), 0), found)
    ct.store_advanced_indexing(table, (rows, ct.Slice(0, 2)), ct.zeros((8, 2), ct.float32))


@ct.kernel
def small_floats(x, w, out, bytes):
    a = ct.load(x, (0, 0), (32, 32)).astype(ct.float8_e4m3fn)
    b = ct.load(w, (0, 0), (32, 32)).astype(ct.bfloat16)
    product = ct.mma(a, a, ct.zeros((32, 32), ct.float32))
    other = ct.mma(b, ct.transpose(b), product)
    ct.store(out, (0, 0), ct.permute(other, (1, 0)))
    signed = ct.load(bytes, (0, 0), (32, 32))
    ct.store(out, (1, 0), ct.mma(signed, signed.astype(ct.uint8), ct.zeros((32, 32), ct.int32)).astype(ct.float32))


def _product(a, b):
    """Of complex matrices, as pairs of real ones."""
    return ct.matmul(a[0], b[0]) - ct.matmul(a[1], b[1]), ct.matmul(a[1], b[0]) + ct.matmul(a[0], b[1])


def _turned(a, b):
    return a[0] * b[0] - a[1] * b[1], a[1] * b[0] + a[0] * b[1]


def _parts(array, shape, to):
    """Real and imaginary parts, which are interleaved in memory."""
    pairs = ct.load(array, (0, 0, 0), (*shape, 2))
    return tuple(ct.extract(pairs, (0, 0, i), (*shape, 1)).reshape(to) for i in ct.static_iter(range(2)))


@ct.kernel
def fourier(x, out, outer, inner, twiddles, M: ct.Constant[int], N: ct.Constant[int]):
    """Fourier transforms of rows of M * N complex numbers, as two products with a turn in between."""
    i = ct.bid(0)
    pairs = ct.load(x, (i, 0, 0), (1, M * N, 2))
    values = tuple(ct.extract(pairs, (0, 0, k), (1, M * N, 1)).reshape((1, M, N)) for k in ct.static_iter(range(2)))
    columns = _product(_parts(outer, (M, M), (1, M, M)), values)
    turned = _turned(columns, _parts(twiddles, (M, N), (1, M, N)))
    across = tuple(ct.permute(part, (0, 2, 1)) for part in ct.static_iter(turned))
    found = _product(_parts(inner, (N, N), (1, N, N)), across)
    ct.store(out, (i, 0, 0), ct.cat(tuple(part.reshape((1, M * N, 1)) for part in ct.static_iter(found)), -1))


def _roots(rows: int, columns: int, of: int) -> np.ndarray[Any, Any]:
    turn = np.exp(-2j * np.pi * np.outer(np.arange(rows), np.arange(columns)) / of).astype(np.complex64)
    return turn.view(np.float32).reshape(rows, columns, 2)


@dataclass
class Case:
    """A kernel, its grid, and what gives its arguments anew."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: Callable[[], tuple[Any, ...]]
    tolerance: float = 0.0

    @property
    def name(self) -> str:
        return str(self.kernel.function.__name__)


def _example(name: str) -> Any:
    folder = str(EXAMPLES)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def _whole(*shape: int, low: int = -50, high: int = 50, dtype: Any = np.int32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).integers(low, high, shape).astype(dtype)


def _divisors(n: int) -> np.ndarray[Any, Any]:
    return np.where(np.arange(n) % 3 == 0, -1, 1).astype(np.int32) * (np.arange(n, dtype=np.int32) % 11 + 2)


def cases() -> list[Case]:
    """Every kernel."""
    example = {name: _example(name) for name in ("vector_add", "softmax", "histogram", "attention", "layer_norm")}
    matmul, convolution, embedding = (_example(n) for n in ("matmul", "convolution", "embedding"))
    f32 = np.float32
    return [
        Case(example["vector_add"].vector_add, (4,), lambda: (_normal(250), _normal(250), np.zeros(250, f32), 64)),
        Case(example["softmax"].softmax_rows, (5,), lambda: (_normal(5, 50), np.zeros((5, 50), f32), 64), 1e-6),
        Case(example["histogram"].count, (3,), lambda: (_whole(300, low=0, high=16), np.zeros((3, 16), np.int32), 128)),
        Case(
            example["attention"].attend,
            (2, 2),
            lambda: (
                *(_normal(2, 40, 16, seed=s) for s in range(3)),
                np.zeros((2, 40, 16), f32),
                0.25,
                16,
                32,
                16,
                True,
            ),
            1e-5,
        ),
        Case(
            example["layer_norm"].normalize_rows,
            (4,),
            lambda: (_normal(4, 100), _normal(100, seed=1), _normal(100, seed=2), np.zeros((4, 100), f32), 1e-5, 64),
            1e-5,
        ),
        *(
            Case(
                kernel,
                grid,
                lambda: (_normal(50, 40), _normal(40, 70, seed=1), np.zeros((50, 70), f32), 32, 32, 16),
                1e-5,
            )
            for kernel, grid in ((matmul.matmul_plain, (2, 3)), (matmul.matmul_persistent, (2,)))
        ),
        Case(
            convolution.convolve,
            (2, 2),
            lambda: (_normal(20, 22), _normal(3, 3), np.zeros((18, 20), f32), 3, 3, 16, 16),
            1e-5,
        ),
        Case(
            embedding.look_up,
            (2,),
            lambda: (_normal(9, 24), _whole(20, low=0, high=9), np.zeros((20, 24), f32), 16, 32),
        ),
        Case(integers, (2,), lambda: (_whole(64), _divisors(64), np.zeros((2, 64), np.int32), 20)),
        Case(
            folds, (1,), lambda: (_whole(16, 32, low=-2, high=3, dtype=f32), np.zeros(96, f32), np.zeros(64, np.int32))
        ),
        Case(branches, (5,), lambda: (np.zeros(8, np.int32), np.zeros(80, np.int32), 17)),
        Case(
            rows_by_index,
            (2,),
            lambda: (
                _normal(12, 30),
                np.array([0, 9, 5, 20, 7, 1, 3, 2, 8, 4, 11, 6, 30, 10, 40, 31], np.int32),
                np.zeros((16, 16), f32),
            ),
        ),
        Case(
            small_floats,
            (1,),
            lambda: (
                _whole(32, 32, low=-4, high=5, dtype=f32),
                _whole(32, 32, dtype=f32),
                np.zeros((64, 32), f32),
                _whole(32, 32, dtype=np.int8),
            ),
        ),
        Case(
            fourier,
            (3,),
            lambda: (
                _normal(3, 128, 2),
                np.zeros((3, 128, 2), f32),
                _roots(8, 8, 8),
                _roots(16, 16, 16),
                _roots(8, 16, 128),
                8,
                16,
            ),
            1e-5,
        ),
    ]


__all__ = ["Case", "cases"]
