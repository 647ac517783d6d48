"""Memory of the inputs that an operator changes: what lies there has to belong to one element of one input."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from tilewright.runtime.overlap import exposed, share_memory


class Memory(NamedTuple):
    """Where an array is. ``strides`` and ``size``, that of an element, are in bytes."""

    address: int
    shape: Sequence[int]
    strides: Sequence[int]
    size: int

    def range(self) -> tuple[int, int]:
        """The addresses of the first byte and behind the last one."""
        reach = [(n - 1) * stride for n, stride in zip(self.shape, self.strides)]
        low = self.address + sum(r for r in reach if r < 0)
        return low, self.address + sum(r for r in reach if r > 0) + self.size

    def overlaps(self, other: Memory) -> bool:
        """Whether an element of each has a byte in common; interleaved slices have none."""
        (low, high), (other_low, other_high) = self.range(), other.range()
        if low >= other_high or other_low >= high or 0 in self.shape or 0 in other.shape:
            return False
        return share_memory(exposed(*self), exposed(*other))

    def overlaps_itself(self) -> bool:
        """Whether two elements have a byte in common, as those of an expanded array and of sliding windows do."""
        span = self.size
        axes = sorted((abs(stride), n) for stride, n in zip(self.strides, self.shape) if n != 1)
        for stride, n in axes:
            if stride < span:
                break
            span = stride * (n - 1) + span
        else:
            return False
        if any(stride == 0 for stride, _ in axes):
            return 0 not in self.shape
        offsets = reduce(np.add.outer, [np.arange(n) * stride for stride, n in axes]).ravel()
        offsets.sort()
        return bool((np.diff(offsets) < self.size).any())


def overlaps(
    operator: str, inputs: Sequence[str], changed: Collection[str], memories: Sequence[Memory]
) -> Iterator[str]:
    """What is wrong with ``inputs`` in these ``memories``: each of the ``changed`` ones has to have its own."""
    for name, memory in zip(inputs, memories):
        if name not in changed:
            continue
        if memory.overlaps_itself():
            yield (
                f"{operator}: '{name}' is changed in place, but several of its elements share memory, as those of an "
                "expanded array do; pass a copy"
            )
        for other_name, other in zip(inputs, memories):
            if other_name != name and memory.overlaps(other):
                yield f"{operator}: '{name}' is changed in place, but shares memory with '{other_name}'; pass a copy"
