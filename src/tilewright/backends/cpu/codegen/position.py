"""Where in a tile the lanes of a vector lie.

Along each axis, lane l stands at ``base + pattern[l]``. All extents are powers of two, and the bits of the base and
of the pattern never overlap; so splitting and joining coordinates works on the two parts separately.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from llvmlite import ir

from tilewright.backends.cpu.codegen import index
from tilewright.backends.cpu.codegen.index import Index, as_value
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.ir.layouts import log2
from tilewright.records import NamedTuple

Pattern = tuple[int, ...]


class Coord(NamedTuple):
    """The coordinate of every lane along one axis. Without ``pattern`` all lanes have that of ``base``.

    ``level`` is the depth of the loop that ``base`` is computed in.
    """

    base: Index = 0
    level: int = 0
    pattern: Pattern | None = None

    def first_lane(self) -> Coord:
        """The coordinate of lane 0 alone."""
        return self if self.pattern is None else Coord(self.base, self.level, (self.pattern[0],))


ZERO = Coord()
Position = tuple[Coord, ...]


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides."""
    strides = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * shape[k + 1]
    return tuple(strides)


def is_uniform(position: Position) -> bool:
    """Whether all lanes lie at one element."""
    return all(c.pattern is None for c in position)


def is_contiguous(pattern: Pattern) -> bool:
    return all(p == pattern[0] + lane for lane, p in enumerate(pattern))


def common_step(pattern: Pattern) -> int:
    """How far each lane is behind the one before; 0 where they differ in that, or there is one."""
    steps = {after - before for before, after in itertools.pairwise(pattern)}
    return steps.pop() if len(steps) == 1 else 0


def _coord(nest: Nest, base: Index, level: int, pattern: Pattern | None) -> Coord:
    if pattern is not None and len(set(pattern)) == 1:
        base, pattern = index.add(nest.builders[level], base, pattern[0]), None
    return Coord(base, 0 if isinstance(base, int) else level, pattern)


class Mapper:
    """Derives positions from positions. Equal requests give the same result, so that values can be found again."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self._flat: dict[tuple[Position, tuple[int, ...]], Coord] = {}
        self._split: dict[tuple[Coord, tuple[int, ...]], Position] = {}

    def flatten(self, position: Position, strides: tuple[int, ...]) -> Coord:
        """The sum of coordinate times stride: with the strides of a shape, the row-major number of each lane."""
        key = (position, strides)
        if key not in self._flat:
            level = max((c.level for c in position), default=0)
            base: Index = 0
            lanes: list[int] | None = None
            for c, stride in zip(position, strides):
                at = self.nest.builders[max(c.level, 0)]
                base = index.add(self.nest.builders[level], base, index.mul(at, c.base, stride))
                if c.pattern is not None:
                    scaled = [p * stride for p in c.pattern]
                    lanes = scaled if lanes is None else [a + b for a, b in zip(lanes, scaled)]
            self._flat[key] = _coord(self.nest, base, level, None if lanes is None else tuple(lanes))
        return self._flat[key]

    def unflatten(self, flat: Coord, shape: tuple[int, ...]) -> Position:
        """The inverse of ``flatten`` for the strides of ``shape``."""
        key = (flat, shape)
        if key not in self._split:
            builder = self.nest.builders[flat.level]
            found = []
            for n, stride in zip(shape, strides_of(shape)):
                if n == 1:
                    found.append(ZERO)
                    continue
                base = index.low_bits(builder, index.shift_right(builder, flat.base, log2(stride)), n)
                pattern = None if flat.pattern is None else tuple(p // stride % n for p in flat.pattern)
                found.append(_coord(self.nest, base, flat.level, pattern))
            self._split[key] = tuple(found)
        return self._split[key]

    def shift(self, coord: Coord, offset: Index) -> Coord:
        """``coord`` moved by ``offset``, computed outside all loops; a multiple of a power of two above ``coord``."""
        if isinstance(offset, int) and offset == 0:
            return coord
        key = (coord, (id(offset) if not isinstance(offset, int) else offset, -1))
        if key not in self._split:
            base = index.add(self.nest.builders[coord.level], coord.base, offset)
            self._split[key] = (Coord(base, coord.level, coord.pattern),)
        return self._split[key][0]


def chunk_lanes(shape: tuple[int, ...], lanes: int) -> list[tuple[int, Pattern | None]]:
    """For each axis, how many elements of it a vector of ``lanes`` row-major elements covers, and its pattern."""
    found: list[tuple[int, Pattern | None]] = []
    inner, rest = 1, lanes
    for n in reversed(shape):
        take = min(n, rest)
        pattern = tuple(lane // inner % take for lane in range(lanes)) if take > 1 else None
        found.append((take, pattern))
        inner, rest = inner * take, rest // take
    return found[::-1]


def open_chunks(nest: Nest, shape: tuple[int, ...], lanes: int) -> Position:
    """Open loops over ``shape`` in vectors of ``lanes`` elements in row-major order."""
    position = []
    for n, (take, pattern) in zip(shape, chunk_lanes(shape, lanes)):
        base: Index = nest.begin(n, take) if take < n else 0
        position.append(Coord(base, nest.level if take < n else 0, pattern))
    return tuple(position)


def side_by_side(position: Position, count: int) -> list[Position]:
    """The ``count`` parts of a run of lanes along the innermost axis."""
    if count == 1:
        return [position]
    *outer, along = position
    assert along.pattern is not None
    size = len(along.pattern) // count
    parts = [along.pattern[k : k + size] for k in range(0, count * size, size)]
    return [(*outer, Coord(along.base, along.level, part)) for part in parts]


def open_trimmed_chunks(nest: Nest, counts: Sequence[Index], lanes: int, first: Index) -> tuple[Position, ir.Value]:
    """Open loops over the first ``counts`` elements of a tile along each axis, whose vectors along the innermost one
    stand at ``first``, ``first + lanes`` and so on.

    Vectors that would leave the row at its ends are moved into it; also returns by how many elements. The bits of base
    and pattern overlap here, so positions cannot be mapped through reshapes.
    """
    *outer, n = counts
    builder = nest.builders[0]
    start, last = first, index.sub(builder, n, lanes)
    if not isinstance(first, int):  # else it is 0
        whole = builder.icmp_unsigned("==", first, as_value(0))
        start = builder.select(whole, first, builder.sub(first, as_value(lanes)))
    position = [ZERO if count == 1 else Coord(nest.begin(count), nest.level) for count in outer]
    at = nest.begin(n, lanes, start)
    base = at if isinstance(first, int) else index.maximum(nest.builder, at, 0)
    base = index.minimum(nest.builder, base, last)
    position.append(Coord(base, nest.level, tuple(range(lanes))))
    return tuple(position), nest.builder.sub(as_value(base), as_value(at))
