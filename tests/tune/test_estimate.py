"""Trimmed means and their intervals, on samples whose distribution is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright.tune.estimate import trimmed_mean


@pytest.mark.parametrize("count", [5, 10, 40])
@pytest.mark.parametrize("tails", ["normal", "long"])
def test_the_interval_holds_the_centre_as_often_as_it_says(count: int, tails: str) -> None:
    draw = np.random.default_rng(count)
    noise = draw.standard_normal((2000, count)) if tails == "normal" else draw.standard_t(2, (2000, count))
    found = [trimmed_mean((100 + row).tolist()) for row in noise]
    held = np.mean([abs(e.mean - 100) <= e.margin for e in found])
    assert 0.915 <= held <= 0.985  # with long tails the interval is wider than it need be


def test_outliers_change_little() -> None:
    samples = [100.0, 101, 99, 100, 102, 98, 100, 101, 99, 100]
    plain, disturbed = trimmed_mean(samples), trimmed_mean([*samples[:-1], 10_000.0])
    assert abs(plain.mean - disturbed.mean) < 1 and disturbed.margin < 3


def test_few_samples() -> None:
    assert trimmed_mean([7.0]) == (7.0, math.inf)
    assert trimmed_mean([7.0] * 5) == (7.0, 0.0)
    assert trimmed_mean([1.0, 2, 3, 4, 100]).mean == 3
