"""Integer tiles and masks whose elements follow from their coordinates: what the indices of most gathers are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.ir.core import Value
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Add, And, Cast, Cmp, Mul, Sub, keeps_integers
from tilewright.ir.ops.shape import Broadcast, Iota, Permute, PtrOffset, Reshape, constant_of
from tilewright.records import NamedTuple, dataclass

_MOVING = (Reshape, Broadcast, Permute)


@dataclass(frozen=True)
class Affine:
    """The sum of ``scalars``, each times its factor, and ``constant``: one number for all elements of a tile. With
    ``axis``, the coordinate along it, below ``length``, is added to each, ``step`` times. No sum is greater than
    ``highest``.

    Signed numbers are taken not to wrap around from one element to the next; ``highest`` is where they would. The first
    one has to be wrapped to ``width`` bits, if that is not 0.
    """

    scalars: tuple[tuple[Value, int], ...] = ()
    constant: int = 0
    axis: int | None = None
    length: int = 1
    highest: int = (1 << 63) - 1
    step: int = 1
    width: int = 0

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """The sum with ``factor`` times ``other``, which has no axis where this has one."""
        sums = dict(self.scalars)
        for v, scale in other.scalars:
            sums[v] = sums.get(v, 0) + factor * scale
        scalars = tuple((v, scale) for v, scale in sums.items() if scale)
        highest, width = min(self.highest, other.highest), max(self.width, other.width)
        constant = self.constant + factor * other.constant
        if self.axis is not None or other.axis is None:
            return Affine(scalars, constant, self.axis, self.length, highest, self.step, width)
        return Affine(scalars, constant, other.axis, other.length, highest, factor * other.step, width)

    @property
    def first(self) -> Affine:
        """The number of the first element."""
        return replace(self, axis=None, length=1, step=1)

    def range(self, ranges: IntegerRanges, most: int = 1 << 64) -> tuple[int, int]:
        """Between which numbers all elements lie, where no scalar is taken for more than ``most``."""
        low = high = self.constant
        for v, scale in self.scalars:
            ends = [min(n, most) * scale for n in ranges.range(v)]
            low, high = low + min(ends), high + max(ends)
        along = self.step * (self.length - 1)
        return low + min(along, 0), high + max(along, 0)


class Term(NamedTuple):
    """``coordinate`` times ``stride``, a part of an offset from a pointer."""

    coordinate: Affine
    stride: int | Value


class Less(NamedTuple):
    """A mask that is true where ``low`` is less than ``high``. Only one of them has an axis."""

    low: Affine
    high: Affine


class AffineTiles:
    """Integer tiles, pointers and masks as sums of scalars and coordinates; None where they are not.

    ``strided``: also of multiples of coordinates.
    """

    def __init__(self, ranges: IntegerRanges, *, strided: bool = False) -> None:
        self._ranges, self._strided = ranges, strided
        self._known: dict[Value, Affine | None] = {}

    def index(self, value: Value) -> Affine | None:
        """An integer tile of which at most one axis decides."""
        if value not in self._known:
            self._known[value] = self._index(value)
        return self._known[value]

    def _index(self, value: Value) -> Affine | None:
        op, t = value.op, value.tile
        if t.is_pointer or not t.element.is_integer:
            return None
        if (constant := constant_of(value)) is not None:
            return Affine((), int(constant))
        if t.size == 1:
            return Affine(((_scalar(value), 1),))
        if isinstance(op, Iota):
            axis, rest = _axes(t.shape)[0], _axes(t.shape)[1:]
            found = Affine(axis=axis, length=t.size)
            return None if rest or t.size - 1 > t.element.max else found
        if isinstance(op, _MOVING):
            inner = self.index(op.x)
            return None if inner is None else _moved(op, inner)
        if isinstance(op, Cast):
            return self.index(op.x) if keeps_integers(op) else None
        if isinstance(op, Mul):
            return self._multiple(op) if self._strided else None
        return self._sum(op) if isinstance(op, (Add, Sub)) else None

    def _multiple(self, op: Mul) -> Affine | None:
        """A multiple of which the first number, which may have wrapped around, is still known."""
        number, index = sorted(map(self.index, op.operands), key=lambda f: f is None or f.axis is not None)
        if number is None or index is None or index.axis is None or number.scalars or not number.constant:
            return None
        dtype = op.result.tile.element
        found = replace(Affine().plus(index, number.constant), highest=index.highest * max(number.constant, 1))
        low, high = found.range(self._ranges)
        if low >= dtype.min and high <= dtype.max:
            return found
        highest = min(found.highest, dtype.max)
        return replace(found, highest=highest, width=dtype.bitwidth) if dtype.is_signed else None

    def _sum(self, op: Add | Sub) -> Affine | None:
        left, right = map(self.index, op.operands)
        if left is None or right is None or (right.axis is not None and left.axis is not None):
            return None
        dtype = op.result.tile.element
        strided = right.axis is not None and isinstance(op, Sub)
        if (strided and not self._strided) or max(left.width, right.width) not in (0, dtype.bitwidth):
            return None
        found = left.plus(right, -1 if isinstance(op, Sub) else 1)
        low, high = found.range(self._ranges)
        fits = low >= dtype.min and (high <= dtype.max or self._is_aligned(found))
        return replace(found, highest=min(found.highest, dtype.max)) if fits or dtype.is_signed else None

    def _is_aligned(self, index: Affine) -> bool:
        """Whether the first number is a scalar that the length divides, a power of two: then the others need no more
        bits."""
        alone = len(index.scalars) == 1 and not index.constant and index.scalars[0][1] == 1
        return alone and self._ranges.divisor(index.scalars[0][0]) % index.length == 0

    def pointers(self, value: Value) -> tuple[Value, list[Term]] | None:
        """The pointer that those of a tile are offsets from, and the terms of which these are sums."""
        op = value.op
        if value.tile.size == 1:
            return _scalar(value), []
        if isinstance(op, _MOVING):
            inner = self.pointers(op.x)
            moved = None if inner is None else _all_moved(op, inner[1])
            return None if inner is None or moved is None else (inner[0], moved)
        if not isinstance(op, PtrOffset):
            return None
        start, terms = self.pointers(op.ptr), self._terms(op.offset)
        return None if start is None or terms is None else (start[0], start[1] + terms)

    def _terms(self, value: Value) -> list[Term] | None:
        index, terms = self.index(value), self._split(value)
        whole = index is not None and (terms is None or all(stride == 1 for _, stride in terms))
        return [Term(index, 1)] if index is not None and whole else terms

    def _split(self, value: Value) -> list[Term] | None:
        """The terms of which ``value`` is a sum, where sums and products do not wrap around."""
        op = value.op
        if isinstance(op, _MOVING):
            inner = self._terms(op.x)
            return None if inner is None else _all_moved(op, inner)
        if isinstance(op, Cast):
            return self._terms(op.x) if keeps_integers(op) else None
        if not isinstance(op, (Add, Mul)) or not (op.no_signed_wrap or value.tile.element.bitwidth == 64):
            return None
        if isinstance(op, Mul):
            factors = sorted(map(self.index, op.operands), key=lambda f: f is None or f.axis is None)
            return _product(*factors)
        left, right = map(self._terms, op.operands)
        return None if left is None or right is None else left + right

    def comparisons(self, mask: Value) -> list[Less] | None:
        """What is true where all elements of ``mask`` are."""
        op = mask.op
        if isinstance(op, And):
            left, right = map(self.comparisons, op.operands)
            return None if left is None or right is None else left + right
        if isinstance(op, _MOVING):
            inner = self.comparisons(op.x)
            if inner is None:
                return None
            moved = [(_moved(op, low), _moved(op, high)) for low, high in inner]
            found = [Less(low, high) for low, high in moved if low is not None and high is not None]
            return found if len(found) == len(inner) else None
        if not isinstance(op, Cmp) or op.predicate not in _ORDERED:
            return None
        sides = list(map(self.index, op.operands))
        low, high = sides if op.predicate in (CmpPredicate.LT, CmpPredicate.LE) else sides[::-1]
        if low is None or high is None or (low.axis is not None and high.axis is not None):
            return None
        if op.predicate in (CmpPredicate.LT, CmpPredicate.GT):
            return [Less(low, high)]
        return [Less(low.plus(Affine((), -1)), high) if high.width else Less(low, high.plus(Affine((), 1)))]


_ORDERED = (CmpPredicate.LT, CmpPredicate.LE, CmpPredicate.GT, CmpPredicate.GE)


def _product(index: Affine | None, factor: Affine | None) -> list[Term] | None:
    if index is None or factor is None or factor.axis is not None:
        return None
    if not factor.scalars:
        return None if index.axis is None else [Term(index, factor.constant)]
    ((v, scale), *rest) = factor.scalars
    return [Term(index, v)] if scale == 1 and not rest and not factor.constant else None


def _axes(shape: Sequence[int]) -> list[int]:
    return [k for k, n in enumerate(shape) if n > 1]


def _scalar(value: Value) -> Value:
    """The scalar, of whatever shape and width, that is the only element of ``value``."""
    while isinstance(value.op, _MOVING) or keeps_integers(value.op):
        value = value.op.x
    return value


def _moved(op: Reshape | Broadcast | Permute, index: Affine) -> Affine | None:
    """``index``, of the operand of ``op``, as one of its result."""
    axis = index.axis
    if axis is None or isinstance(op, Broadcast):
        return index
    if isinstance(op, Permute):
        return replace(index, axis=op.axes.index(axis))
    source, shape = op.x.tile.shape, op.result.tile.shape
    old, new = _axes(source), _axes(shape)
    same = [source[k] for k in old] == [shape[k] for k in new]
    return replace(index, axis=new[old.index(axis)]) if same else None


def _all_moved(op: Reshape | Broadcast | Permute, terms: list[Term]) -> list[Term] | None:
    moved = [(_moved(op, coordinate), stride) for coordinate, stride in terms]
    found = [Term(coordinate, stride) for coordinate, stride in moved if coordinate is not None]
    return found if len(found) == len(terms) else None
