"""A launch that repeats one without a violation runs as machine code, unless memory could change what is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.sanitizer import repetition
from tilewright.sanitizer.backend import SanitizedExecutable


@ct.kernel
def product(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((8, 8), ct.float32)
    for k in range(ct.num_tiles(a, 1, (8, 8))):
        acc = ct.mma(ct.load(a, (i, k), (8, 8), latency=3), ct.load(b, (k, j), (8, 8)), acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def gathered(a, b, c):
    i = ct.load(b, (0, 0), (8, 8)).astype(ct.int32)
    ct.store(c, (0, 0), ct.gather(a, (i, i), check_bounds=False))


@ct.kernel
def divided(a, b, c):
    n = ct.load(b, (0, 0), (8, 8)).astype(ct.int32)
    ct.store(c, (0, 0), (7 // (n - 9)).astype(ct.float32))


@ct.kernel
def branching(a, b, c):
    if ct.load(b, (0, 0), (1, 1)).item() > 8:
        ct.store(c, (ct.bid(1) // 2, 0), ct.load(a, (0, 0), (8, 8)))


@ct.kernel
def counted(a, b, c):
    n = ct.int32(0)
    while n < ct.load(b, (0, 0), (1, 1)).item():
        ct.store(c, (n, 0), ct.load(a, (n, 0), (8, 8)))
        n += 1


@ct.kernel
def copied(a, b, c):
    ct.store(c, (ct.bid(0), ct.bid(1)), ct.load(b, (ct.bid(0), ct.bid(1)), (8, 8)))


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels of the launches whose blocks were observed; each launch is worth machine code."""
    found: list[str] = []
    check = SanitizedExecutable._check

    def observed(self: Any, *arguments: Any) -> None:
        found.append(self.function.name)
        check(self, *arguments)

    monkeypatch.setattr(SanitizedExecutable, "_check", observed)
    monkeypatch.setattr(repetition, "WORTHWHILE", 0)
    return found


def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a = np.arange(16 * 16, dtype=np.float32).reshape(16, 16) % 11
    return a, np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)


def test_what_memory_does_not_change_runs_as_machine_code(checks: list[str]) -> None:
    a, b, c = arrays()
    with ct.sanitize() as report:
        for factor in (0, 1, 3):
            b[:] = np.eye(16) * factor
            ct.launch(None, (2, 2), product, (a, b, c))
            assert (c == a * factor).all()
        ct.launch(None, (1, 2), product, (a, b, c))
        other = np.zeros_like(c)
        ct.launch(None, (2, 2), product, (a, b, other))
    assert (other == a * 3).all()
    assert (checks, report.launches, report.clean) == (["product"] * 3, 5, True)
    with ct.sanitize():
        ct.launch(None, (2, 2), product, (a, b, c))
    assert len(checks) == 4, "a session does not know what another one found"


@pytest.mark.parametrize(
    "kernel, category",
    [
        (gathered, "unchecked-bounds"),
        (divided, "division-by-zero"),
        (branching, "data-race"),
        (counted, "partition-outside"),
        (copied, "undefined-value"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_what_memory_changes_is_found(checks: list[str], kernel: Any, category: str) -> None:
    a, b, c = arrays()
    grid = (2, 2) if kernel in (branching, copied) else (1, 1)
    with ct.sanitize() as report:
        ct.launch(None, grid, kernel, (a, b, c))
        assert report.clean
        b[:] = 9 if kernel is not gathered else 16
        if kernel is copied:
            b[:] = np.empty_like(b)
        ct.launch(None, grid, kernel, (a, b, c))
    assert {v.category.name for v in report.violations} == {category}
    assert checks == [kernel.__name__] * 2


def test_what_was_found_is_found_again(checks: list[str]) -> None:
    a, b, c = arrays()

    @ct.kernel
    def colliding(a, b, c):
        ct.store(c, (ct.bid(0) // 2, ct.bid(1)), ct.load(a, (ct.bid(0), ct.bid(1)), (8, 8)))

    with ct.sanitize() as report:
        counts = []
        for _ in range(2):
            ct.launch(None, (2, 2), colliding, (a, b, c))
            counts.append(report.findings)
    assert counts[1] == 2 * counts[0] > 0
    assert len(checks) == 2
