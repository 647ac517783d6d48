"""The grid of a launch."""

from __future__ import annotations

from typing import Any

import numpy as np

MAX_GRID = (1 << 24) - 1  # blocks along an axis
MAX_BLOCKS = (1 << 63) - 1  # of a grid: backends count them in 64 bits


def checked_grid(grid: Any) -> tuple[int, int, int]:
    """``grid`` with three entries. TypeError, ValueError or OverflowError where it is none."""
    if type(grid) is tuple and len(grid) == 1 and type(grid[0]) is int and 0 < grid[0] <= MAX_GRID:
        return grid[0], 1, 1  # soon done: this runs at every launch
    if not isinstance(grid, tuple):
        raise TypeError(f"the grid is {grid!r}; it must be a tuple of up to three numbers of blocks, such as (n, 1, 1)")
    if len(grid) > 3:
        raise ValueError(
            f"the grid {grid} has {len(grid)} dimensions; there are at most three. Fold some into one, and take the "
            "block index apart with // and % in the kernel"
        )
    for axis, n in enumerate(grid):
        if type(n) is not int and not isinstance(n, np.integer):
            raise TypeError(f"entry {axis} of the grid {grid} is no integer; numbers of blocks come from ct.cdiv or //")
        if not 1 <= n <= MAX_GRID:
            _refuse_extent(grid, axis)
    x, y, z = (*map(int, grid), 1, 1, 1)[:3]
    if x * y * z > MAX_BLOCKS:
        raise ValueError(
            f"the grid {grid} has {x * y * z} blocks, more than 2**63 - 1, which no machine would ever finish; "
            "use larger tiles"
        )
    return x, y, z


def _refuse_extent(grid: tuple[int, ...], axis: int) -> None:
    entry = f"entry {axis} of the grid {grid}"
    if grid[axis] < 0:
        raise OverflowError(f"{entry} is negative")
    if grid[axis] == 0:
        raise ValueError(f"{entry} is 0: there is no block to run. Skip the launch for empty arrays")
    raise ValueError(f"{entry} is more than {MAX_GRID} blocks; use a second axis, or larger tiles")
