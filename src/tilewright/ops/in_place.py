"""Memory of the inputs that an operator changes: what lies there has to belong to one element of one input."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tilewright.runtime.overlap import elements_overlap, exposed, share_memory


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


def overlaps(
    operator: str, inputs: Sequence[str], changed: Collection[str], memories: Sequence[Memory]
) -> Iterator[str]:
    """What is wrong with ``inputs`` in these ``memories``: each of the ``changed`` ones has to have its own."""
    for name, memory in zip(inputs, memories):
        if name not in changed:
            continue
        if elements_overlap(memory.shape, memory.strides, memory.size):
            yield (
                f"{operator}: '{name}' is changed in place, but several of its elements share memory, as those of an "
                "expanded array do; pass a copy"
            )
        for other_name, other in zip(inputs, memories):
            if other_name != name and memory.overlaps(other):
                yield f"{operator}: '{name}' is changed in place, but shares memory with '{other_name}'; pass a copy"
