"""Layouts of tiles that are accessed element by element: every element has a place, wherever the long axis is."""

from __future__ import annotations

import itertools

import pytest

from tilewright.transforms.gpu.layout_choice import blocked


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_line_along_any_axis(axis: int, order: tuple[int, ...]) -> None:
    for length, warps in ((128, 4), (512, 4), (64, 1), (32, 2)):
        shape = tuple(length if k == axis else 1 for k in range(3))
        layout = blocked(shape, order, 1, warps)
        images = itertools.chain.from_iterable(layout.images(name) for name in ("register", "lane", "warp"))
        assert {image[axis] for image in images} >= {1 << bit for bit in range(length.bit_length() - 1)}
