"""What the documents define is not reported, and the sanitizer does not change it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct


@ct.kernel
def _beyond(x: Any, out: Any, PADDING: ct.Constant[int]) -> None:
    mode = ct.static_eval(list(ct.PaddingMode)[PADDING])
    ct.store(out, (0,), x.tiled_view((4,), padding_mode=mode).load((5,)))
    ct.store(out, (1,), ct.load(x, (-2,), (4,), padding_mode=mode))


@pytest.mark.parametrize("mode", [m for m in ct.PaddingMode if m is not ct.PaddingMode.UNDETERMINED])
def test_a_tile_wholly_outside_is_the_padding_that_is_named(mode: ct.PaddingMode) -> None:
    x, number = np.ones(8, np.float32), list(ct.PaddingMode).index(mode)
    found, expected = np.zeros(8, np.float32), np.zeros(8, np.float32)
    ct.launch(None, (1,), _beyond, (x, expected, number), backend="reference")
    with ct.sanitize() as report:
        ct.launch(None, (1,), _beyond, (x, found, number))
    assert report.clean and found.tobytes() == expected.tobytes()


def test_a_tile_wholly_outside_without_a_named_padding_is_reported() -> None:
    x, number = np.ones(8, np.float32), list(ct.PaddingMode).index(ct.PaddingMode.UNDETERMINED)
    with ct.sanitize() as report:
        ct.launch(None, (1,), _beyond, (x, np.zeros(8, np.float32), number))
    assert {v.category.name for v in report.violations} >= {"partition-outside"}


@ct.kernel
def _product(x: Any, y: Any, out: Any) -> None:
    ct.store(out, (0,), ct.load(x, (0,), (8,)) * ct.load(y, (0,), (8,)))


def test_one_array_for_two_parameters_that_are_only_read() -> None:
    x = np.arange(8, dtype=np.float32)
    with ct.sanitize() as report:
        ct.launch(None, (1,), _product, (x, x, np.zeros_like(x)))
    assert report.clean
    with ct.sanitize() as report:
        ct.launch(None, (1,), _product, (x, x.copy(), x))
    assert [v.category.name for v in report.violations] == ["overlapping-arguments"]
