"""Accesses through pointers that walk along the axes of an array, as accesses of tiles of a view of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, TypeVar

from tilewright.analysis.affine import Affine, AffineTiles, Less, Term
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import DType, int8, int16, int32, int64
from tilewright.ir.effects import is_ordered
from tilewright.ir.enums import PaddingMode, RoundingMode
from tilewright.ir.ops.arith import Add, Cast, Div, Max, Min, Mul
from tilewright.ir.ops.memory import Load, LoadView, MakePartitionView, MakeTensorView, Store, StoreView, padding_value
from tilewright.ir.ops.shape import Broadcast, Permute, PtrOffset, Reshape, constant_of, is_constant
from tilewright.ir.types import PartitionViewType, TensorViewType
from tilewright.records import NamedTuple, dataclass
from tilewright.transforms.base import InPlacePass

_Number = TypeVar("_Number", int, Value, "int | Value")
_LARGEST = 1 << 62  # sums of numbers below it do not wrap around
_NARROW: dict[int, DType] = {t.bitwidth: t for t in (int8, int16, int32)}
_MOST = 1 << 61  # elements of an array: greater bounds, which unsigned numbers can be, come to the same


@dataclass(frozen=True)
class RaiseToViews(InPlacePass):
    """Makes loads and stores of pointer tiles those of views, where each axis of the tile is a term of the offset and
    the mask compares coordinates with scalars: what indices of ``arange`` and their bounds come to. Only of tiles that
    have ``rank`` axes or more.

    Loops know more of views: which tiles lie inside as a whole, along which axis neighbours lie, what is overwritten.
    The TMA unit copies them.
    """

    name: ClassVar[str] = "raise-to-views"
    rank: int = 1

    def change(self, function: Function) -> bool:
        accesses = [
            op
            for op in function.walk()
            if isinstance(op, (Load, Store)) and _axes_longer_than_one(op) >= self.rank and not is_ordered(op)
        ]
        if not accesses:
            return False
        ranges = AnalysisManager(function).get(IntegerRanges)
        affine = AffineTiles(ranges, strided=True)
        raised = [_raise(op, affine, ranges) for op in accesses]
        return any(raised)


def _axes_longer_than_one(op: Load | Store) -> int:
    return sum(n > 1 for n in op.ptrs.tile.shape)


def _raise(op: Load | Store, affine: AffineTiles, ranges: IntegerRanges) -> bool:
    found = affine.pointers(op.ptrs)
    bounds = [] if op.mask is None else affine.comparisons(op.mask)
    padding = _padding(op) if isinstance(op, Load) else PaddingMode.UNDETERMINED
    if found is None or bounds is None or padding is None:
        return False
    base, terms = found
    axes = _axes_of(terms, bounds)
    pointee, shape = op.ptrs.tile.pointee, op.ptrs.tile.shape
    if axes is None or not isinstance(pointee, DType):
        return False
    moving = sum(axis.index.axis is not None for axis in axes)
    if not moving or (isinstance(op, Store) and moving < sum(n > 1 for n in shape)):
        return False
    if any(axis.may_wrap(ranges) for axis in axes):
        return False
    view = _View(Builder.before(op), ranges, base, pointee)
    for axis in sorted(axes, key=lambda axis: axis.stride == 1):  # neighbours in memory along the last axis
        view.add(axis)
    if isinstance(op, Load):
        op.replace_by([view.load(op, padding)])
    else:
        view.store(op)
        op.erase()
    return True


def _padding(op: Load) -> PaddingMode | None:
    """What views call the padding of ``op``."""
    if op.padding is None:
        return PaddingMode.ZERO
    dtype = op.result.tile.dtype
    modes = (mode for mode in PaddingMode if mode is not PaddingMode.UNDETERMINED)
    return next((m for m in modes if isinstance(dtype, DType) and _pads(op.padding, m, dtype)), None)


def _pads(padding: Value, mode: PaddingMode, dtype: DType) -> bool:
    return constant_of(padding) is not None and is_constant(padding, padding_value(mode, dtype))


@dataclass(eq=False)
class _Axis:
    """An axis of a view: the ``index`` along it, and between which numbers that has to be."""

    index: Affine
    stride: int | Value
    low: list[Affine] = field(default_factory=list)
    high: list[Affine] = field(default_factory=list)  # which are outside

    def meet(self, bound: Less, *, equal: bool) -> bool:
        """Take ``bound``, if it is one of this axis: of an index that differs by a constant at most where ``equal``."""
        for side, other in (bound, bound[::-1]):
            off = self.index.first.plus(side.first, -1)
            named = side.scalars or side.axis is not None
            same = (side.axis, side.step) == (self.index.axis, self.index.step) and not (off.width and off.constant)
            if other.axis is None and named and same and not ((equal or off.width) and off.scalars):
                limit = other.plus(off)
                if side is bound.low:
                    self.high.append(limit)
                else:
                    self.low.append(limit.plus(Affine((), 1)))
                return True
        return False

    def begins_at_zero(self, ranges: IntegerRanges) -> bool:
        """Whether the bounds are those of an array."""
        if not self.low:
            return self.index.range(ranges)[0] >= 0
        return not any(low.scalars for low in self.low) and max(low.constant for low in self.low) == 0

    def may_wrap(self, ranges: IntegerRanges) -> bool:
        """Whether what is computed of this axis might wrap around."""
        numbers = [self.index.first, *self.low, *self.high]
        if self.begins_at_zero(ranges) or not self.high:
            numbers = [n for n in numbers if n.constant or len(n.scalars) > 1 or not all(map(_is_signed, n.scalars))]
        return any(low <= -_LARGEST or high >= _LARGEST for low, high in (n.range(ranges, _MOST) for n in numbers))


def _is_signed(scaled: tuple[Value, int]) -> bool:
    value, factor = scaled
    return factor == 1 and value.tile.element.max <= int64.max


def _axes_of(terms: Sequence[Term], bounds: Sequence[Less]) -> list[_Axis] | None:
    """The axes of a view for ``terms``; None if there is none in which ``bounds`` can be said."""
    axes = [_Axis(*term) for term in terms]
    moving = [axis.index.axis for axis in axes if axis.index.axis is not None]
    if len(set(moving)) < len(moving):
        return None
    for bound in bounds:
        if any(axis.meet(bound, equal=True) for axis in axes):
            continue
        if bound.low.axis is None and bound.high.axis is None:
            axes.append(_Axis(Affine(), 0, [Affine()], [bound.high.plus(bound.low, -1)]))
        elif not any(axis.meet(bound, equal=False) for axis in axes):
            return None
    return axes if all(axis.high or not axis.low for axis in axes) else None


class _ViewAxis(NamedTuple):
    """An axis of a view, and where along it the tile is, whose axis is ``axis``: so many steps of ``step`` elements."""

    axis: int | None
    length: int
    extent: int | Value
    stride: int | Value
    start: int | Value
    in_bounds: bool = False
    step: int = 1


class _View:
    """A view under construction, of the array of ``dtype`` elements at ``base``."""

    def __init__(self, builder: Builder, ranges: IntegerRanges, base: Value, dtype: DType) -> None:
        self._builder, self._ranges, self._base, self._dtype = builder, ranges, base, dtype
        self._offset: int | Value = 0
        self._axes: list[_ViewAxis] = []

    def add(self, axis: _Axis) -> None:
        """An axis. Where its lowest index is not surely 0, it begins with that, or where the tile does."""
        index, stride = axis.index, self._scalar(axis.stride)
        start, step = self._sum(index.first), 1
        if index.width in _NARROW:
            start = self._builder.emit(Cast, self._wide(start), dtype=_NARROW[index.width])
        if not axis.high:
            self._move(start, stride)
            if index.axis is not None:
                stride = self._times(stride, index.step)
                self._axes.append(_ViewAxis(index.axis, index.length, index.length, stride, 0, in_bounds=True))
            return
        high = list(axis.high)
        if any(n.range(self._ranges, _MOST)[1] > index.highest + 1 for n in high):
            high.append(Affine((), index.highest + 1))
        end = self._most(Min, [self._sum(n, bound=True) for n in high])
        if index.step != 1 or index.width:
            low = self._most(Max, [self._sum(n, bound=True) for n in axis.low]) if axis.low else None
            self._add_steps(index, stride, start, (low, end))
            return
        if axis.begins_at_zero(self._ranges):
            if any(n.range(self._ranges)[0] < 0 for n in high):
                end = self._most(Max, [end, 0])
            if (tile := self._tile_number(index)) is not None:
                start, step = tile, index.length
        else:
            low = self._most(Max, [self._sum(n, bound=True) for n in axis.low]) if axis.low else start
            self._move(low, stride)
            less = self._times(low, -1)
            start = self._plus(start, less) if axis.low else 0
            end = self._most(Max, [self._plus(end, less), 0])
        self._axes.append(_ViewAxis(index.axis, index.length, end, stride, start, step=step))

    def _add_steps(
        self, index: Affine, stride: int | Value, start: int | Value, inside: tuple[int | Value | None, int | Value]
    ) -> None:
        """An axis of every so many elements, from the first one of the tile on that is ``inside`` these bounds."""
        (low, end), apart = inside, abs(index.step)
        number = start if index.step > 0 else self._plus(start, 1)

        def behind(bound: int | Value | None) -> int | Value | None:
            """How far ``bound`` is from the start, in the direction of the steps."""
            if bound is None:
                return None
            signs = (1, -1) if index.step > 0 else (-1, 1)
            return self._plus(self._times(bound, signs[0]), self._times(number, signs[1]))

        ends = (behind(low), behind(end)) if index.step > 0 else (behind(end), behind(low))
        first, last = (None if n is None else self._ceiling(n, apart) for n in ends)
        skipped = 0 if first is None else self._most(Max, [first, 0])
        last = index.length if last is None else last
        extent = self._most(Max, [self._plus(last, self._times(skipped, -1)), 0])
        self._move(self._plus(start, self._times(skipped, index.step)), stride)
        stride, start = self._times(stride, index.step), self._times(skipped, -1)
        self._axes.append(_ViewAxis(index.axis, index.length, extent, stride, start))

    def _ceiling(self, number: int | Value, divisor: int) -> int | Value:
        if divisor == 1:
            return number
        if isinstance(number, int):
            return -(-number // divisor)
        return self._builder.emit(Div, self._wide(number), self._wide(divisor), rounding=RoundingMode.RP)

    def _tile_number(self, index: Affine) -> Value | None:
        """The scalar of which the first of ``index`` is a multiple by its length, if nothing wraps around there."""
        ((first, factor), *others) = index.scalars or ((None, 0),)
        if first is None or others or factor != 1 or index.constant or not isinstance(product := first.op, Mul):
            return None
        low, high = (n * index.length for n in self._ranges.range(product.lhs))
        dtype = first.tile.element
        fits = constant_of(product.rhs) == index.length and dtype.min <= low and high <= dtype.max
        return self._scalar(product.lhs) if fits else None

    def load(self, op: Load, padding: PaddingMode) -> Value:
        """What ``op`` loads."""
        moving, shape = [a.axis for a in self._axes], op.result.tile.shape
        order = sorted(range(len(moving)), key=lambda k: -1 if (axis := moving[k]) is None else axis)
        view, indices = self._partition(order, padding)
        tile = self._builder.emit(LoadView, view, indices, in_bounds=self._in_bounds(order), latency=op.latency)
        once = tuple(n if k in moving else 1 for k, n in enumerate(shape))
        tile = self._reshaped(tile, once)
        return tile if once == shape else self._builder.emit(Broadcast, tile, shape=shape)

    def store(self, op: Store) -> None:
        """Store what ``op`` does."""
        order = range(len(self._axes))
        view, indices = self._partition(order, PaddingMode.UNDETERMINED)
        value, moving = op.value, [a.axis for a in self._axes if a.axis is not None]
        axes = (*(k for k in range(value.tile.rank) if k not in moving), *moving)
        if axes != tuple(range(len(axes))):
            value = self._builder.emit(Permute, value, axes=axes)
        value = self._reshaped(value, tuple(a.length for a in self._axes))
        in_bounds = self._in_bounds(order)
        self._builder.emit_op(StoreView, view, value, indices, in_bounds=in_bounds, latency=op.latency)

    def _partition(self, order: Sequence[int], padding: PaddingMode) -> tuple[Value, list[Value]]:
        """The view, of whose axes those of the tile are in ``order``, and the index of the tile."""
        b, base = self._builder, self._scalar(self._base)
        if self._offset != 0:
            base = b.emit(PtrOffset, base, self._wide(self._offset))
        numbers = [[a.extent for a in self._axes], [a.stride for a in self._axes]]
        shape, strides = (tuple(n if isinstance(n, int) else None for n in ns) for ns in numbers)
        type_ = TensorViewType(self._dtype, shape, strides, int64)
        view = b.emit(MakeTensorView, base, *([n for n in ns if isinstance(n, Value)] for ns in numbers), type=type_)
        lengths = tuple(self._axes[k].length for k in order)
        parts = PartitionViewType(type_, lengths, tuple(order), padding, tuple(self._axes[k].step for k in order))
        starts = [self._axes[k].start for k in order]
        indices = [self._wide(n) if isinstance(n, int) else n for n in starts]
        return b.emit(MakePartitionView, view, type=parts), indices

    def _in_bounds(self, order: Sequence[int]) -> tuple[bool, ...]:
        return tuple(self._axes[k].in_bounds for k in order)

    def _reshaped(self, tile: Value, shape: tuple[int, ...]) -> Value:
        return tile if tile.tile.shape == shape else self._builder.emit(Reshape, tile, shape=shape)

    def _move(self, by: int | Value, stride: int | Value) -> None:
        self._offset = self._plus(self._offset, self._times(by, stride))

    # Scalars: sums and products are of 64 bits.

    def _sum(self, number: Affine, *, bound: bool = False) -> int | Value:
        total: int | Value = number.constant
        for v, factor in number.scalars:
            scalar, dtype = self._scalar(v), v.tile.element
            if bound and dtype.max > int64.max:
                scalar = self._builder.emit(Min, scalar, self._builder.constant(_MOST, dtype))
            total = self._plus(total, self._times(scalar, factor))
        return total

    def _scalar(self, value: _Number) -> _Number:
        if isinstance(value, int) or not value.tile.rank:
            return value
        return self._builder.emit(Reshape, value, shape=())

    def _plus(self, a: int | Value, b: int | Value) -> int | Value:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        return b if a == 0 else a if b == 0 else self._emit(Add, a, b)

    def _times(self, a: int | Value, b: int | Value) -> int | Value:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        return 0 if 0 in (a, b) else b if a == 1 else a if b == 1 else self._emit(Mul, a, b)

    def _most(self, cls: type[Max | Min], numbers: Sequence[int | Value]) -> int | Value:
        found, *others = dict.fromkeys(numbers)
        for n in others:
            found = self._emit(cls, found, n)
        return found

    def _emit(self, cls: type[Add | Mul | Max | Min], a: int | Value, b: int | Value) -> Value:
        return self._builder.emit(cls, self._wide(a), self._wide(b))

    def _wide(self, number: int | Value) -> Value:
        if isinstance(number, int):
            return self._builder.constant(number, int64)
        return number if number.tile.dtype is int64 else self._builder.emit(Cast, number, dtype=int64)
