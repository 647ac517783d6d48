"""Linear algebra over GF(2), whose vectors are the bits of integers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat


def sums(vectors: Iterable[int]) -> list[int]:
    """All that one gets by adding some of ``vectors``: of the first alone, in order."""
    found = [0]
    for v in vectors:
        found += [n ^ v for n in found]
    return found


class Span:
    """The span of ``vectors``: each is given with a tag, and tags add up as vectors do."""

    def __init__(self, vectors: Iterable[int] = (), tags: Iterable[int] | None = None) -> None:
        self._rows: list[tuple[int, int]] = []  # in echelon form: descending, with distinct leading bits
        for vector, tag in zip(vectors, repeat(0) if tags is None else tags):
            self.add(vector, tag)

    def __len__(self) -> int:
        """The dimension."""
        return len(self._rows)

    def add(self, vector: int, tag: int = 0) -> bool:
        """Whether ``vector`` was not in the span before."""
        vector, tag = self._reduce(vector, tag)
        if not vector:
            return False
        self._rows.append((vector, tag))
        self._rows.sort(reverse=True)
        return True

    def add_all(self, vectors: Iterable[int]) -> list[int]:
        """Add ``vectors``; returns those that are independent of each other and of what was in the span before."""
        return [v for v in vectors if self.add(v)]

    def solve(self, vector: int) -> int | None:
        """The sum of the tags of the vectors that add up to ``vector``; None outside of the span."""
        rest, tag = self._reduce(vector, 0)
        return None if rest else tag

    @property
    def basis(self) -> list[int]:
        """Vectors with the same span, none of which the others span."""
        return [vector for vector, _ in self._rows]

    def _reduce(self, vector: int, tag: int) -> tuple[int, int]:
        for row, row_tag in self._rows:
            if vector ^ row < vector:
                vector, tag = vector ^ row, tag ^ row_tag
        return vector, tag
