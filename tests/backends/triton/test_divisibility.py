"""Rows that a kernel computes are loaded no more at once than the alignment of all of them allows."""

from __future__ import annotations

import linecache
import math
import random
import re
from typing import Any

import numpy as np
import pytest

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")

WIDTH = 257  # elements in a row, an odd number: the alignment of a row is that of its number
ROWS = [
    "i",
    "i + i",
    "i + (i + 16)",
    "(i + 16) - i",
    "i * 2",
    "i << 1",
    "i | 32",
    "i & 48",
    "i ^ 16",
    "i // 4",
    "i >> 2",
    "i % 48",
    "(i + 3) % 64",
    "ct.minimum(i, 32)",
    "ct.maximum(i, 16)",
    "ct.where(i > n, i, 32)",
    "ct.where(n > 3, i, i + 32)",
    "64 - i",
    "-i + 64",
    "~i + 65",
    "i * i",
    "ct.abs(i - 32)",
    "ct.reshape(ct.transpose(ct.reshape(i, (8, 8))), (64,))",
    "i.astype(ct.int8).astype(ct.int32)",
]


def kernel_of(rows: str) -> Any:
    """A kernel that stores the numbers of the rows, and the rows."""
    source = f"""
@ct.kernel
def kernel(x, out, numbers, n):
    i = ct.arange(64, dtype=ct.int32)
    rows = {rows}
    ct.store(numbers, (0,), rows)
    ct.store(out, (0, 0), ct.gather(x, (rows[:, None], i[None, :])))
"""
    filename = f"<{rows}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"ct": ct}
    exec(compile(source, filename, "exec"), namespace)
    return namespace["kernel"]


def widths(kernel: Any, arguments: tuple[Any, ...]) -> list[int]:
    """How many numbers each load reads; none where instructions on other numbers would be compiled wrongly."""
    try:
        text = kernel.compile_for("sm_90", arguments).stage("PTX")
    except ct.TileUnsupportedFeatureError as e:
        assert "s16x2" in str(e)
        return []
    return [int(found or 1) for found in re.findall(r"ld\.global\b(?:\.(?!v\d|b\d)\w+)*(?:\.v(\d))?\.b32", text)]


@pytest.mark.parametrize("rows", ROWS)
def test_no_load_is_wider_than_the_rows_allow(rows: str) -> None:
    kernel = kernel_of(rows)
    x = np.arange(4096 * WIDTH, dtype=np.float32).reshape(4096, WIDTH)[:, :256]
    out, numbers = np.zeros((64, 64), np.float32), np.zeros(64, np.int32)
    arguments = (x, out, numbers, 5)
    ct.launch(None, (1,), kernel, arguments, backend="reference")
    np.testing.assert_array_equal(out, x[numbers, :64])
    assert max(widths(kernel, arguments)) <= math.gcd(4, *(int(row) * WIDTH for row in numbers))


def random_rows(rng: random.Random, depth: int) -> str:
    """An expression of the numbers ``i`` of a tile, and of n."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(["i", "i", "i", f"(i + {1 << rng.randrange(5)})", "n", str(1 << rng.randrange(7))])
    x, y = random_rows(rng, depth - 1), random_rows(rng, depth - 1)
    forms = [
        f"({x} + {y})",
        f"({x} - {y})",
        f"({x} * {rng.choice((2, 3, 4, 8, 16))})",
        f"({x} % {rng.choice((3, 4, 8, 16, 48, 64))})",
        f"({x} // {rng.choice((2, 3, 4, 8))})",
        f"ct.minimum({x}, {y})",
        f"ct.where(i > {rng.choice((3, 31, 'n'))}, {x}, {y})",
        f"(-{x})",
    ]
    return rng.choice(forms)


@pytest.mark.parametrize("seed", range(40))
def test_random_rows(seed: int) -> None:
    rng, n = random.Random(seed), (5, 16)[seed % 2]
    rows = next(found for _ in range(99) if re.search(r"\bi\b", found := random_rows(rng, 3)))
    kernel, out, numbers = kernel_of(rows), np.zeros((64, 64), np.float32), np.zeros(64, np.int32)
    arguments = (np.zeros((4096, WIDTH), np.float32)[:, :256], out, numbers, n)
    ct.launch(None, (1,), kernel, arguments, backend="reference")
    most = math.gcd(4, *(int(row) * WIDTH for row in numbers))
    assert max(widths(kernel, arguments), default=0) <= most  # none where all rows are outside


@ct.kernel
def flat(x, out):
    i = ct.arange(64, dtype=ct.int32)
    ct.store(out, (0, 0), ct.gather(x, (i[:, None] * 256 + i[None, :],)))


def test_sums_of_rows_and_columns_are_loaded_at_once() -> None:
    arguments = np.zeros(64 * 256, np.float32), np.zeros((64, 64), np.float32)
    assert set(widths(flat, arguments)) == {4}


@ct.kernel
def equal_numbers(x, out):
    """Triton makes ops on equal elements ops of scalars, and takes along all that they say."""
    largest = ct.full((128,), ct.max(ct.load(x, (0,), (64,))), ct.float16).astype(ct.float32)
    ct.store(out, (0, 0), ct.broadcast_to(largest, (64, 128)).astype(ct.int32))


def test_equal_numbers_compile() -> None:
    x, out = np.zeros(64, np.float16), np.zeros((64, 128), np.int32)
    for target in ("sm_80", "sm_90", "gfx942"):
        equal_numbers.compile_for(target, (x, out))
