"""MMA ops that warp groups do (wgmma), with operands that the TMA unit copies to shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import operand_source
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import DType, int32, int64
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_parameters import SLICE_EXTENT, Descriptor
from tilewright.ir.gpu_stage import MULTICAST_PAYS, WGMMA_REFUSED, WGMMA_WARPS
from tilewright.ir.opdef import create
from tilewright.ir.ops.arith import Add, And, Cast, Cmp, Mul, Select, Sub
from tilewright.ir.ops.gpu.tma import OUTSIDE, Fetch, ListedMap, ParameterMap, Put
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, ROWS, LoadFetched, StageOperand, Wgmma
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import AtomicView, Load, LoadView, StoreView
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.rewrite import Rewriter, with_body
from tilewright.ir.types import SharedType, TileType
from tilewright.transforms.gpu.stage_stores import MOST_BYTES, PIECE_ROWS, is_turned
from tilewright.transforms.gpu.staged_operands import WAITED_COPIES, as_loaded, staged_type, swizzle_of, users_as_loaded
from tilewright.transforms.gpu.wgmma_choice import (
    Choice,
    Operand,
    Options,
    choose,
    only_used_in,
    staged_copies,
)


@dataclass(frozen=True)
class ChooseWgmma:
    """Puts ``gpu.fetch`` and ``gpu.wgmma`` in the place of loads and MMA ops, where the instructions can do it.

    Operands are tiles of arrays that a tensor map describes, loaded for such MMA ops alone; which tiles they are can be
    found out without reading memory; one of both may also be computed from such an MMA op. The sum has 64 rows for
    each warp group, and fits into registers.
    ``num_warps`` is how many warps multiply, if that is decided. ``budget`` bytes have room for two of each operand.
    With ``realign`` operands may be tiles of a copy that the launch makes of an array that TMA cannot read.
    Runs on optimized Tile IR: what comes after it knows no views.
    """

    name: ClassVar[str] = "choose-wgmma"
    target: GpuTarget
    num_warps: int | None = None
    budget: int = Options.budget
    realign: bool = False

    def run(self, function: Function) -> Function:
        options = Options(self.target, self.num_warps, self.budget, self.realign)
        choice = AnalysisManager(function).get(choose, options)
        made = _Chooser(choice).function(function) if choice.mmas else function
        if not choice.reasons:
            return made
        made = with_body(made, made.body)
        made.hints[WGMMA_REFUSED] = choice.reasons
        return made


def _is_combined(operand: Operand) -> bool:
    """Whether threads combine what is loaded with other tiles of its shape."""
    return any(len(op.operands) > 1 for op in operand.through)


class _Chooser(Rewriter):
    def __init__(self, choice: Choice) -> None:
        super().__init__()
        self.choice = choice
        self.parameters: list[Value] = []
        self.maps: dict[tuple[Descriptor, DType], Op] = {}
        self.fetched: dict[tuple[LoadView, SharedType], Value] = {}
        operands = [o for pair in choice.mmas.values() for o in pair if o is not None]
        self.loaded: dict[Op, list[Operand]] = {}
        for o in operands:
            if all(o.type != other.type for other in self.loaded.setdefault(o.load, [])):
                self.loaded[o.load].append(o)
        self.gone = {op for o in operands for op in o.through}
        self.turned = {how.load: how.transposed for how in choice.staged.values() if how.transposed is not None}
        self.gone |= set(self.turned.values())
        staged = [
            op.y.op for op, (_, y) in choice.mmas.items() if y is None and operand_source(op.y) in choice.converted
        ]
        self.gone |= {op for op in staged if op in choice.plan.rounded}  # when they are fetched
        lefts = [op.x for op, (x, _) in choice.mmas.items() if x is None and op.x not in choice.staged]
        lefts = [v for v in lefts if v.tile.element.bytes == 4]
        loads = [load for v in lefts if (load := operand_source(v)) in choice.converted]
        self.turned_lefts = {op for load in loads for op in choice.converted[load].through}
        self.late = {load for load, how in choice.converted.items() if load in self.loaded or _is_combined(how)}
        paths = {op for load in self.late for op in choice.converted[load].through}
        read = self.gone | set(choice.mmas) | paths
        self.gone |= {op for op in paths if isinstance(op, (Permute, Reshape)) and op.x.op in (*self.late, *self.gone)}
        self.staged: dict[tuple[Block, Value, SharedType], Value] = {}
        self.shared = {
            op for op in (*self.loaded, *self.gone) if not only_used_in(op.results[0], read)
        }  # others use these, too
        self.again: dict[Op, list[LoadView]] = {}  # after which MMA op what others use is loaded once more
        for load in self.late:
            through = choice.converted[load].through
            if not users_as_loaded(load, through) <= read:
                assert load.block is not None
                reads = [op for o in through for op in o.results[0].users if op in choice.mmas]
                self.again.setdefault(max(reads, key=load.block.ops.index), []).append(load)
                moved = {v.op for v in as_loaded(load, through) if v.op is not None} - {load}
                self.gone |= moved
                self.shared -= {load, *moved}

    def function(self, function: Function) -> Function:
        self.parameters = function.body.args
        made = super().function(function)
        first = made.body.ops[0]
        for op in self.maps.values():
            made.body.insert(op, first)
        made.hints[WGMMA_WARPS] = self.choice.warps
        if self.choice.multicast_pays:
            made.hints[MULTICAST_PAYS] = True
        return made

    def insert(self, op: Op, builder: Builder) -> None:
        if (op not in self.gone or op in self.shared) and op not in self.choice.mmas:
            self._load_late(op.operands, builder)
        builder.loc = op.loc
        if isinstance(op, Mma) and op in self.choice.mmas:
            left, right = self.choice.mmas[op]
            x = self._left(op, builder) if left is None else self.fetched[left.load, left.type]
            y = self._stage(op, builder) if right is None else self.fetched[right.load, right.type]
            self.values[op.result] = builder.emit(Wgmma, x, y, self.value(op.acc))
            for load in self.again.get(op, ()):
                self._load_again(load, builder)
        elif isinstance(op, LoadView) and op in self.choice.converted:
            for operand in (*self.loaded.get(op, []), self.choice.converted[op]):
                if (op, operand.type) not in self.fetched:
                    self._fetch(operand, builder)
            if op not in self.late:
                self._load_fetched(op, builder)
        elif op in self.turned_lefts and isinstance(op, (Cast, Permute, Reshape)):  # rounded when they were fetched
            x = self.value(op.x)
            self.values[op.result] = x if isinstance(op, Cast) else builder.emit(type(op), x, **op.attributes)
        elif isinstance(op, Load) and op in self.turned:
            self._turn(op, builder)
        elif op in self.loaded:
            for operand in self.loaded[op]:
                self._fetch(operand, builder)
            if op in self.shared:
                super().insert(op, builder)
        elif isinstance(op, (StoreView, AtomicView)) and op in self.choice.stores:
            self._put(op, builder)
        elif op not in self.gone or op in self.shared:
            super().insert(op, builder)

    def _load_fetched(self, load: LoadView, b: Builder) -> None:
        operand = self.choice.converted[load]
        t = operand.type
        tile = b.emit(LoadFetched, self.fetched[load, t], type=TileType(t.dtype, t.shape))
        self.values[load.result] = b.emit(Reshape, tile, shape=load.result.tile.shape)

    def _load_again(self, load: LoadView, b: Builder) -> None:
        """Load for others what was fetched, before its buffer is given back, to registers of their own."""
        through = self.choice.converted[load].through
        values = as_loaded(load, through)
        for v in values:
            self.values.pop(v, None)
        self._load_late([v for v in values if any(op not in through for op in v.users)], b)

    def _load_late(self, needed: Sequence[Value], b: Builder) -> None:
        """Load what threads combine with other tiles right before they do."""
        for v in needed:
            if v in self.values or v.op is None:
                continue
            if v.op in self.late:
                self._load_fetched(v.op, b)
            elif v.op in self.gone and v.op not in self.shared:
                self._load_late(v.op.operands, b)
                super().insert(v.op, b)

    def _left(self, op: Mma, b: Builder) -> Value:
        """The left operand of ``op`` in registers; in shared memory, where it is staged."""
        return self._in_ring(op.x, b) if op.x in self.choice.staged else self.value(op.x)

    def _in_ring(self, operand: Value, b: Builder) -> Value:
        how = self.choice.staged[operand]
        return self._put_there(self.value(operand), how.type, b, copies=how.copies, waited=how.copies == WAITED_COPIES)

    def _put_there(self, value: Value, t: SharedType, b: Builder, **how: Any) -> Value:
        """``value`` in shared memory, once for the MMA ops of a block."""
        key = b.block, value, t
        if key not in self.staged:
            self.staged[key] = b.emit(StageOperand, value, None, type=t, **how)
        return self.staged[key]

    def _turn(self, op: Load, b: Builder) -> None:
        """Load what is only seen transposed as it is seen."""
        turned = self.turned[op]
        how = [None if v is None else b.emit(Permute, self.value(v), axes=turned.axes) for v in op.operands]
        self.values[turned.result] = b.emit(Load, *how, latency=op.latency)

    def _stage(self, op: Mma, b: Builder) -> Value:
        """The right operand of ``op`` in shared memory; where it was fetched to, if nothing else reads that."""
        if op.y in self.choice.staged:
            return self._in_ring(op.y, b)
        y, t, load = op.y, staged_type(op.y.tile), operand_source(op.y)
        assert t is not None
        operand = self.choice.converted.get(load) if isinstance(load, LoadView) else None
        buffer = None
        if operand is not None and operand.load not in self.loaded and operand.type.bytes == t.bytes:
            alone = len(y.users) == len(operand.load.result.users) == 1
            buffer = self.fetched[operand.load, operand.type] if alone else None
        made = self.value(y.op.x if isinstance(y.op, Cast) and y.op in self.gone else y)  # rounded when it was fetched
        if buffer is not None:
            return b.emit(StageOperand, made, buffer, type=t)
        copies = staged_copies(op)
        return self._put_there(made, t, b, copies=copies, waited=copies == WAITED_COPIES)

    def _fetch(self, operand: Operand, b: Builder) -> None:
        load, d = operand.load, operand.descriptor
        tensor_map = self._map(load, d, operand.type.dtype, b)
        beside = [v.op for (other, _), v in self.fetched.items() if other is load]
        starts = beside[0].starts if beside and isinstance(beside[0], Fetch) else self._starts(load, d, b)
        self.fetched[load, operand.type] = b.emit(Fetch, tensor_map, starts, None, type=operand.type)

    def _put(self, op: StoreView | AtomicView, b: Builder) -> None:
        d, t = self.choice.plan.descriptors[op], op.view.partition
        tensor_map = self._map(op, d, t.view.dtype, b)
        kept = [axis for axis, n in zip(t.order, t.tile_shape) if n != 1]
        value, shape = self.value(op.value), tuple(n for n in t.tile_shape if n != 1)
        if value.tile.shape != shape:
            value = b.emit(Reshape, value, shape=shape)
        starts, after = self._starts(op, d, b), self.choice.stores[op]
        adds = isinstance(op, AtomicView)
        b.emit_op(Put, tensor_map, value, starts, inner=kept.index(d.axes[-1]), adds=adds, after_stores=after)

    def _map(self, op: LoadView | StoreView | AtomicView, d: Descriptor, dtype: DType, b: Builder) -> Value:
        """The tensor map of the boxes of an access."""
        t = op.view.partition
        extents = dict(zip(t.order, t.tile_shape))
        swizzle = swizzle_of(extents[d.axes[-1]] * dtype.bytes)
        assert swizzle is not None
        groups = self.choice.warps // GROUP_WARPS
        outer = [extents.get(a, 1) for a in d.axes[:-1]]  # a slice has more axes
        if not isinstance(op, LoadView):  # a box for each warp group, or for a piece of what is large
            large = is_turned(op.value) and op.value.tile.size * dtype.bytes > MOST_BYTES
            rows = PIECE_ROWS if large else ROWS
            outer = [rows if large and n % rows == 0 else n // groups if n % (rows * groups) == 0 else n for n in outer]
        box = (*outer, swizzle // dtype.bytes)
        attributes = {
            "base": d.base, "shape": d.shape, "strides": d.strides, "axes": d.axes, "box": box, "element": d.element,
            "dtype": dtype, "rounds": d.rounds,
        }  # fmt: skip
        if d.listed:
            cell = self.choice.plan.cell(op)
            assert cell is not None
            number = b.constant(cell.row, int64)
            number = number if cell.first is None else b.emit(Add, self.value(cell.first), number)
            return b.emit(ListedMap, self.value(self.parameters[d.base]), number, **attributes)
        key = replace(d, block=box, pairs=False), dtype
        if key not in self.maps:
            attributes |= {"needs_realign": d.needs_realign, "transposed": d.transposed}
            self.maps[key] = create(ParameterMap, [], attributes, b.loc)
        return self.maps[key].result

    def _starts(self, op: LoadView | StoreView | AtomicView, d: Descriptor, b: Builder) -> list[Value]:
        """The coordinates of a tile along the axes of ``d``; outside of the array where they need more than 32 bits."""
        t, part = op.view.partition, self.choice.plan.slices.get(op)
        starts = []
        if part is not None:
            starts = [b.constant(SLICE_EXTENT, int32), b.emit(Add, self.value(part.start), self.value(part.extent))]
        for axis in d.axes[len(starts) :]:
            k = t.order.index(axis)
            index = self.value(op.indices[k])
            wide = index if index.tile.element is int64 else b.emit(Cast, index, dtype=int64)
            start = b.emit(Mul, wide, b.constant(t.steps[k], int64)) if t.steps[k] != 1 else wide
            if part is not None and axis == part.axis:
                extent = b.emit(Cast, self.value(part.extent), dtype=int64)
                after = b.emit(Cmp, start, b.constant(0, int64), predicate=CmpPredicate.GE)
                fits = b.emit(And, after, b.emit(Cmp, start, extent, predicate=CmpPredicate.LT))
                start = b.emit(Add, start, b.emit(Sub, b.constant(SLICE_EXTENT, int64), extent))
                narrow = b.emit(Cast, start, dtype=int32)
            else:
                narrow = b.emit(Cast, start, dtype=int32)
                fits = b.emit(Cmp, b.emit(Cast, narrow, dtype=int64), start, predicate=CmpPredicate.EQ)
            starts.append(b.emit(Select, fits, narrow, b.constant(OUTSIDE, int32)))
        return starts
