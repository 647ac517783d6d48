"""Where memory is free: the first gap that is wide enough, from an aligned offset on."""

from __future__ import annotations

import pytest

from tilewright.analysis.first_fit import first_fit


@pytest.mark.parametrize(
    ("size", "taken", "alignment", "offset"),
    [
        (64, [], 16, 0),
        (64, [(64, 128)], 16, 0),
        (65, [(64, 128)], 16, 128),
        (8, [(0, 20)], 16, 32),
        (8, [(32, 64), (0, 20)], 8, 24),
        (16, [(32, 64), (0, 20)], 16, 64),
        (8, [(0, 100), (10, 20)], 4, 100),  # one range inside of another
    ],
)
def test_first_gap(size: int, taken: list[tuple[int, int]], alignment: int, offset: int) -> None:
    assert first_fit(size, taken, alignment) == offset
