"""Lowering of views to tiles of pointers and masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import DType, int32, int64
from tilewright.ir.enums import CmpPredicate, MemoryOrder, MemoryScope, PaddingMode
from tilewright.ir.gpu_stage import SHORT_ROWS, STORED_ONCE
from tilewright.ir.ops import memory
from tilewright.ir.ops.arith import Add, And, Cast, Cmp, Max, Min, Mul, Shr, Sub
from tilewright.ir.ops.shape import Broadcast, Iota, PtrOffset, Reshape, constant_of
from tilewright.ir.types import PartitionViewType, TensorViewType, TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.put_order import stored_once

_OF_VIEWS = (memory.MakeTensorView, memory.MakePartitionView, memory.ViewMemoryOp)


class LowerViews(InPlacePass):
    """Turns accesses to tiles of views into accesses through pointers, masked where a tile may leave its array.

    The address of the tile is a scalar, computed in 64 bits; within the tile offsets have 32 bits, unless extents or
    strides have 64 or the offsets could need more.
    Runs after the passes on Tile IR, which know views, and before layouts are assigned, which depends on addresses.
    """

    name: ClassVar[str] = "lower-views"

    def change(self, function: Function) -> bool:
        lowering = _Lowering(function)
        ops, args = function.ops_of(_OF_VIEWS), function.body.args
        if once := sorted(args.index(root) for root in stored_once(function) if root in args):
            function.hints[STORED_ONCE] = tuple(once)
        for op in ops:
            lowering.lower(op)
        for op in reversed(ops):  # when nothing uses the views any more
            op.erase()
        return bool(ops)


@dataclass(frozen=True)
class _View:
    """What a view consists of."""

    type: TensorViewType
    base: Value
    shape: tuple[Value | int, ...]
    strides: tuple[Value | int, ...]


class _Lowering:
    def __init__(self, function: Function) -> None:
        self.ranges = AnalysisManager(function).get(IntegerRanges)
        self.views: dict[Value, _View] = {}
        self.short = SHORT_ROWS in function.hints

    def lower(self, op: Op) -> None:
        if isinstance(op, memory.MakeTensorView):
            self.views[op.result] = _View(op.type, op.base, *op.type.filled(op.shape, op.strides))
        elif isinstance(op, memory.MakePartitionView):
            self.views[op.result] = self.views[op.view]
        elif isinstance(op, memory.ViewMemoryOp):
            self._access(op, Builder.before(op))

    def _access(self, op: memory.ViewMemoryOp, b: Builder) -> None:
        view, t = self.views[op.view], op.view.partition
        # A scalar one thread can load, too.
        single = isinstance(op, memory.LoadView) and op.result.tile.size == 1
        shape = () if single else t.tile_shape
        pointers, mask = self._tile(op, view, t, shape, b)
        order = {"memory_order": op.memory_order, "memory_scope": op.memory_scope}
        if isinstance(op, memory.LoadView):
            padding = None
            if mask is not None and t.padding is not PaddingMode.UNDETERMINED:
                padding = b.constant(memory.padding_value(t.padding, t.view.dtype), t.view.dtype, shape)
            loaded = b.emit(memory.Load, pointers, mask, padding, latency=op.latency, **order)
            op.result.replace_all_uses_with(b.emit(Reshape, loaded, shape=t.tile_shape) if single else loaded)
        elif isinstance(op, memory.StoreView):
            b.emit_op(memory.Store, pointers, op.value, mask, latency=op.latency, **order)
        else:
            assert isinstance(op, memory.AtomicView)
            if op.memory_order is MemoryOrder.WEAK:
                order = {"memory_order": MemoryOrder.RELAXED, "memory_scope": MemoryScope.DEVICE}
            b.emit_op(memory.AtomicRmw, pointers, op.value, mask, kind=op.kind, **order)

    def _tile(
        self, op: memory.ViewMemoryOp, view: _View, t: PartitionViewType, shape: tuple[int, ...], b: Builder
    ) -> tuple[Value, Value | None]:
        """The pointers to the elements of the tile, seen as of ``shape``, and which of them lie in the array (None:
        all)."""
        base, mask = view.base, None
        wide = _offset_dtype(view, t)
        for k in sorted(range(len(t.order)), key=lambda k: op.indices[k].block is op.block):  # invariants first
            start = _start(op.indices[k], t.steps[k], b)
            if constant_of(start) != 0:
                base = b.emit(PtrOffset, base, _times(b, start, view.strides[t.order[k]]), in_array=False)
        offsets: Value | None = None
        for k, (axis, n) in enumerate(zip(t.order, t.tile_shape)):
            if n > 1:
                along = _line(b, n, k, len(shape), wide)
                if view.strides[axis] != 1:
                    step = _integer(b, view.strides[axis], wide)
                    along = b.emit(Mul, along, b.splat(step, along.tile.shape))
                spread = _spread(b, along, shape)
                offsets = spread if offsets is None else b.emit(Add, offsets, spread)
            if not op.promised[k]:
                inside = self._inside(op, k, view.shape[axis], shape, b)
                mask = inside if mask is None else b.emit(And, mask, inside)
        pointers = b.splat(base, shape)
        return pointers if offsets is None else b.emit(PtrOffset, pointers, offsets), mask

    def _inside(
        self, op: memory.ViewMemoryOp, k: int, extent: Value | int, shape: tuple[int, ...], b: Builder
    ) -> Value:
        """Which elements of a tile of ``shape`` lie in the array along axis ``k``: 0 <= start + i < extent.

        Positions are relative to the tile, i < extent - start, and that is clamped to 0 and the extent of the tile: so
        elements are compared in 32 bits. One that is alone is compared as a scalar. Where all of that has 32 bits, see
        ``_narrow``.
        """
        t, index = op.view.partition, op.indices[k]
        n = t.tile_shape[k]
        line = None if n == 1 else _line(b, n, k, len(shape), int32)
        if n == t.steps[k] and t.view.index_dtype is int32 and index.tile.element is int32:
            return self._narrow(index, extent, n, line, shape, b)
        start = _start(index, t.steps[k], b)

        def compared(bound: Value | int, predicate: CmpPredicate) -> Value:
            end = _integer(b, bound, int64)
            if line is None:
                return b.emit(Cmp, start, end, predicate=predicate)
            least = b.emit(Min, b.emit(Max, b.emit(Sub, end, start), b.constant(0, int64)), b.constant(n, int64))
            narrow = b.emit(Cast, least, dtype=int32)
            return b.emit(Cmp, line, b.splat(narrow, line.tile.shape), predicate=predicate)

        inside = compared(extent, CmpPredicate.LT)
        if self.ranges.range(op.indices[k])[0] < 0:
            inside = b.emit(And, inside, compared(0, CmpPredicate.GE))
        return b.splat(inside, shape) if line is None else _spread(b, inside, shape)

    def _narrow(
        self, index: Value, extent: Value | int, n: int, line: Value | None, shape: tuple[int, ...], b: Builder
    ) -> Value:
        """See ``_inside``, of the tile ``index`` of those of ``n`` that follow each other, in 32 bits: one behind all
        others counts as the first of these, which ends no more than ``n`` behind the last element."""
        end, one = _integer(b, extent, int32), b.constant(1, int32)
        if line is None:
            inside = b.emit(Cmp, index, end, predicate=CmpPredicate.LT)
        else:
            # Of the first tile that is all. Where rows are not short it makes one mask of several, which lives longer:
            # layer norm of 8,192 columns takes 134 registers in place of 128, and has 3,690 for 4,033 GB/s (H200).
            left = end
            if constant_of(index) != 0 or not self.short:
                tiles = b.emit(Add, b.emit(Shr, b.emit(Sub, end, one), b.constant(n.bit_length() - 1, int32)), one)
                start = b.emit(Mul, b.emit(Min, index, tiles), b.constant(n, int32))
                left = b.emit(Sub, end, start)  # modulo 2 ** 32, as what is left is more than -2 ** 31
            inside = b.emit(Cmp, line, b.splat(left, line.tile.shape), predicate=CmpPredicate.LT)
        if self.ranges.range(index)[0] < 0:
            after = b.emit(Cmp, index, b.constant(0, int32), predicate=CmpPredicate.GE)
            inside = b.emit(And, inside, b.splat(after, inside.tile.shape) if inside.tile.rank else after)
        return b.splat(inside, shape) if line is None else _spread(b, inside, shape)


def _start(index: Value, step: int, b: Builder) -> Value:
    """The first element of the tile along an axis, in 64 bits."""
    number = constant_of(index)
    return b.constant(int(number) * step, int64) if number is not None else _times(b, _integer(b, index, int64), step)


def _offset_dtype(view: _View, t: PartitionViewType) -> DType:
    """The type of offsets within a tile."""
    if view.type.index_dtype.bitwidth > 32:
        return int64
    reach = 0
    for axis, n in zip(t.order, t.tile_shape):
        stride = view.strides[axis]
        if isinstance(stride, int):
            reach += (n - 1) * abs(stride)
        elif n > 1:
            return int64  # a row may be as long as 32 bits can say
    return int32 if reach < 1 << 31 else int64


def _integer(b: Builder, value: Value | int, dtype: DType) -> Value:
    if isinstance(value, int):
        return b.constant(value, dtype)
    if (number := constant_of(value)) is not None:
        return b.constant(int(number), dtype)
    return value if value.tile.element is dtype else b.emit(Cast, value, dtype=dtype)


def _times(b: Builder, value: Value, factor: Value | int) -> Value:
    if isinstance(factor, int) and factor == 1:
        return value
    return b.emit(Mul, value, _integer(b, factor, value.tile.element))


def _line(b: Builder, n: int, axis: int, rank: int, dtype: DType) -> Value:
    """0, 1, ..., n - 1 along ``axis`` of a tile of ``rank``."""
    line = b.emit(Iota, type=TileType(dtype, (n,)))
    shape = tuple(n if k == axis else 1 for k in range(rank))
    return line if rank == 1 else b.emit(Reshape, line, shape=shape)


def _spread(b: Builder, line: Value, shape: tuple[int, ...]) -> Value:
    """``line``, of one axis, along the others of ``shape``."""
    return line if line.tile.shape == shape else b.emit(Broadcast, line, shape=shape)
