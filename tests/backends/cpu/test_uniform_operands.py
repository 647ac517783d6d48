"""Gathers, scatters and atomics whose addresses, masks, paddings and values may each be one for all lanes."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as ct

INDICES = {
    "lanes": "lanes",
    "a scalar": "ct.broadcast_to(n + ct.zeros((), ct.int32), (4, 8))",
    "a splat": "ct.full((4, 8), n, ct.int32)",
    "rows": "ct.broadcast_to(rows, (4, 8))",
    "loaded": "ct.load(i, (0, 0), (4, 8))",
    "gathered": "ct.gather(i, (rows % 4, lanes % 8), mask=ct.load(m, (0, 0), (4, 8)))",
}
MASKS = {
    "none": None,
    "lanes": "lanes % 3 != 0",
    "a scalar": "n > 2",
    "rows": "rows < 2",
    "loaded": "ct.load(m, (0, 0), (4, 8))",
    "gathered": "ct.gather(m, (rows, lanes % 8), mask=lanes % 2 == 0, padding_value=True)",
}
PADDINGS = (None, "-7", "n")


def kernel(statements: list[str]) -> Any:
    """A kernel of ``x`` (40,), ``i`` (4, 8), ``m`` (4, 8) bool, ``out`` (4 * statements, 8) and the number ``n``."""
    lines = [
        "def kernel(x, i, m, out, n):",
        "    lanes = ct.arange(32, dtype=ct.int32).reshape((4, 8))",
        "    rows = ct.arange(4, dtype=ct.int32).reshape((4, 1))",
        *(f"    {s}" for s in statements),
    ]
    source = "\n".join(lines) + "\n"
    filename = f"<uniform operands {len(linecache.cache)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"ct": ct}
    exec(compile(source, filename, "exec"), namespace)
    return ct.kernel(namespace["kernel"])


def outcome(made: Any, backend: str, n: int, count: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    x = rng.integers(-99, 99, 40).astype(np.int32)
    i = rng.integers(-3, 45, (4, 8)).astype(np.int32)
    m = rng.integers(0, 2, (4, 8)).astype(np.bool_)
    out = np.full((4 * count, 8), -1, np.int32)
    ct.launch(None, (1,), made, (x, i, m, out, n), backend=backend)
    return x, out


def check(statements: list[str]) -> None:
    made = kernel(statements)
    for n in (1, 3):
        expected, found = (outcome(made, backend, n, len(statements)) for backend in ("reference", "cpu"))
        assert np.array_equal(found[0], expected[0])
        wrong = np.flatnonzero((found[1] != expected[1]).any(axis=1))
        assert not wrong.size, f"n = {n}: {statements[wrong[0] // 4]}"


def arguments(**given: str | None) -> str:
    return "".join(f", {name}={value}" for name, value in given.items() if value is not None)


@pytest.mark.parametrize("index", INDICES)
def test_gathers(index: str) -> None:
    made = []
    for mask, padding in itertools.product(MASKS.values(), PADDINGS):
        call = f"ct.gather(x, {INDICES[index]}{arguments(mask=mask, padding_value=padding)})"
        made.append(f"ct.store(out, ({len(made)}, 0), ct.broadcast_to({call} + 0 * lanes, (4, 8)))")
    check(made)


def _store(index: str, mask: str | None, value: str) -> str:
    # The same value everywhere where elements may be written twice.
    return f"ct.scatter(x, {index}, {value}{arguments(mask=mask)})"


def _atomic(index: str, mask: str | None, value: str) -> str:
    chosen = index if mask is None else f"ct.where({mask}, {index}, -1)"
    return f"ct.atomic_add(x, {chosen}, {value})"


def _atomic_at_gathered(index: str, mask: str | None, value: str) -> str:
    nested = f"ct.gather(x, {index}{arguments(mask=mask)}) % 40 - ct.gather(i, (rows, lanes % 8)) % 2"
    return f"ct.atomic_max(x, {nested}, {value})"


@pytest.mark.parametrize("access", [_store, _atomic, _atomic_at_gathered])
@pytest.mark.parametrize("index", INDICES)
def test_writes(access: Callable[[str, str | None, str], str], index: str) -> None:
    values = ["n"] if access is _store else ["rows * 0 + n", "lanes % 5", "ct.gather(i, (rows, lanes % 8)) % 9"]
    pairs = zip(MASKS.values(), itertools.cycle(values))
    check([access(INDICES[index], mask, value) for mask, value in pairs])


@ct.kernel
def masked_by_a_constant(x, i, out):
    nowhere = ct.extract(ct.zeros((4,), ct.bool_), (ct.bid(0) % 4,), (1,))
    ct.store(out, (0,), ct.gather(x, (0, ct.load(i, (0,), (64,)) % 1), mask=nowhere))


@pytest.mark.parametrize("n", [1, 3])
def test_a_mask_that_is_false_everywhere_is_kept_on_copies(n: int) -> None:
    """The load may be of what is stored, as far as its mask tells, so the loops read a copy of it."""
    x, i, out = np.full((1, n), -2, np.int32), np.arange(64, dtype=np.int32), np.full(64, 9, np.int32)
    ct.launch(None, (1,), masked_by_a_constant, (x, i, out), backend="cpu")
    assert not out.any()


@ct.kernel
def doubled_columns(x, out):
    ct.store(out, (0, 0), ct.broadcast_to(-ct.load(x, (0, 0), (32, 1)), (32, 4)) << (ct.ones((32, 4), ct.int8) & 7))


def test_doubling_of_repeated_bytes_compiles() -> None:
    """LLVM does not come to an end with it in vectors of 64 bytes."""
    x, out = np.arange(32, dtype=np.int8).reshape(32, 1), np.zeros((32, 4), np.int8)
    with ct.compiler_timeout(60):
        ct.launch(None, (1,), doubled_columns, (x, out), backend="cpu")
    np.testing.assert_array_equal(out, np.broadcast_to(-2 * x, (32, 4)))
