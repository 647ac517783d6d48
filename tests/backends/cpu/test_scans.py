"""Scans of integers along the innermost axis, whose lanes are combined with each other, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct

COMBINERS = {
    "add": (lambda a, b: a + b, 0),
    "mul": (lambda a, b: b * a, 1),
    "and": (lambda a, b: a & b, -1),
    "or": (lambda a, b: a | b, 0),
    "xor": (lambda a, b: a ^ b, 0),
    "min": (lambda a, b: ct.minimum(a, b), None),
    "max": (lambda a, b: ct.maximum(b, a), None),
    "first": (lambda a, b: a, 0),  # has no identity: goes one by one
}
SHAPES = ((256,), (4, 64), (2, 128, 1), (3, 1, 64), (1, 8))


def scanned(name: str, dtype: np.dtype[Any], shape: tuple[int, ...], backend: str) -> np.ndarray:
    combine, identity = COMBINERS[name]
    limits = np.iinfo(dtype)
    start = {"min": limits.max, "max": limits.min, "and": limits.max if limits.min == 0 else -1}.get(name, identity)
    axis = max(k for k, n in enumerate(shape) if n > 1)
    tile = tuple(1 << (n - 1).bit_length() for n in shape)
    zeros = (0,) * len(shape)

    @ct.kernel
    def kernel(x, forward, backward):  # type: ignore[no-untyped-def]
        values = ct.load(x, zeros, tile)
        ct.store(forward, zeros, ct.scan(values, axis, combine, start))
        ct.store(backward, zeros, ct.scan(values, axis, combine, start, reverse=True))

    x = np.random.default_rng(7).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if name == "mul":
        x |= 1  # so that products do not end in zeros
    out = np.zeros((2, *shape), dtype)
    ct.launch(None, (1,), kernel, (x, out[0], out[1]), backend=backend)
    return out


@pytest.mark.parametrize("name", COMBINERS)
def test_integers(name: str) -> None:
    for k, letter in enumerate("bBhHiIqQ", list(COMBINERS).index(name)):
        dtype, shape = np.dtype(letter), SHAPES[k % len(SHAPES)]
        assert np.array_equal(*(scanned(name, dtype, shape, b) for b in ("cpu", "reference"))), (dtype, shape)
