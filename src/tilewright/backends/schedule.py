"""In which order the blocks of a launch run."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from tilewright.records import dataclass

ORDERS = ("in-order", "reverse", "random", "interleave")


@dataclass(frozen=True)
class Schedule:
    """In which order blocks start, and how they take turns. The same ``order`` and ``seed`` give the same run.

    ``in-order`` and ``reverse`` run each block to its end unless it waits; ``interleave`` lets blocks take turns at
    every memory operation, ``random`` at random ones, in random order. ValueError for another ``order``.
    """

    order: str = "in-order"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"unknown schedule {self.order!r}; choose one of {', '.join(ORDERS)}")

    @property
    def mixes(self) -> bool:
        """Whether blocks take turns at memory operations that need no other block."""
        return self.order in ("random", "interleave")

    def indices(self, grid: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
        """The blocks of ``grid`` in the order in which they start."""
        axes = [range(n) for n in reversed(grid)]
        if self.order == "reverse":
            axes = [axis[::-1] for axis in axes]
        blocks = ((x, y, z) for z, y, x in itertools.product(*axes))
        if self.order != "random":
            return blocks
        shuffled = list(blocks)
        random.Random(self.seed).shuffle(shuffled)
        return iter(shuffled)
