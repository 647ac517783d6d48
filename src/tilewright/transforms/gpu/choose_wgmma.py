"""Which matrix products are done by warp groups (wgmma), with operands that the TMA unit copies to shared memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.gpu.lowering_plan import LoweringPlan
from tilewright.analysis.gpu.producer_slice import ProducerSlice
from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.gpu.tma_descriptors import plan_lowering
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import DType, int32, int64
from tilewright.ir.effects import has_early_exit
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_parameters import Descriptor
from tilewright.ir.gpu_stage import WGMMA_REFUSED, WGMMA_WARPS
from tilewright.ir.opdef import create
from tilewright.ir.ops.arith import Cast, Cmp, Mul, Select
from tilewright.ir.ops.gpu.exit import Exit
from tilewright.ir.ops.gpu.tma import LARGEST_BOX, SWIZZLES, Fetch, Put, TensorMap, swizzled_layout
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, MOST_COLUMNS, ROWS, Wgmma, readable, wgmma_multiplies
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import LoadView, StoreView, ViewMemoryOp
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.rewrite import Rewriter, with_body
from tilewright.ir.types import PartitionViewType, SharedType

_MOST_SUMS = 128  # registers of a thread for sums: beside them there is room for what follows a loop
_MOST_GROUPS = 2


@dataclass(frozen=True)
class _Operand:
    """A tile of shared memory that an MMA op reads: what is loaded, and the axis of the operand that is contiguous."""

    load: LoadView
    type: SharedType
    through: frozenset[Op]  # the ops between the load and the MMA op

    @property
    def bytes(self) -> int:
        return self.type.bytes


@dataclass(frozen=True)
class Choice:
    """MMA ops with their operands, stores that the TMA unit makes, and the warps that multiply.

    ``reasons`` say why other MMA ops stay as they are.
    """

    products: dict[Mma, tuple[_Operand, _Operand]]
    stores: frozenset[StoreView]
    warps: int
    plan: LoweringPlan
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class ChooseWgmma:
    """Puts ``gpu.fetch`` and ``gpu.wgmma`` in the place of loads and MMA ops, where the instructions can do it.

    Both operands are tiles of arrays that a tensor map describes, loaded for such MMA ops alone; which tiles they are
    can be found out without reading memory; the sum has 64 rows for each warp group, and fits into registers.
    ``num_warps`` is how many warps multiply, if that is decided. ``budget`` bytes have room for two of each operand.
    Runs on optimized Tile IR: what comes after it knows no views.
    """

    name: ClassVar[str] = "choose-wgmma"
    target: GpuTarget
    num_warps: int | None = None
    budget: int = 220 * 1024

    def run(self, function: Function) -> Function:
        choice = choose(function, self)
        made = _Chooser(choice).function(function) if choice.products else function
        if not choice.reasons:
            return made
        made = with_body(made, made.body)
        made.hints[WGMMA_REFUSED] = choice.reasons
        return made


def choose(function: Function, options: ChooseWgmma) -> Choice:
    """What is done by wgmma in ``function``, and why other MMA ops are not."""
    plan = plan_lowering(function, options.target, descriptors=True, realign=False)
    products = [op for op in function.walk() if isinstance(op, Mma)]
    found: dict[Mma, tuple[_Operand, _Operand]] = {}
    reasons: list[str] = []
    warps = options.num_warps
    slices = ProducerSlice(function)
    ends = any(isinstance(op, Exit) for op in function.walk())
    for op in products:
        operands = [_operand(op, k, plan) for k in range(2)]
        needed = _warps(op, warps)
        why = next((o for o in operands if isinstance(o, str)), None)
        if why is None and needed is None:
            why = f"a sum of {'x'.join(map(str, op.acc.tile.shape))} is not for warp groups of {ROWS} rows"
        if why is None and ends:
            why = "an assertion may end the block, of which the thread that loads would not know"
        x, y = operands
        if why is None and isinstance(x, _Operand) and isinstance(y, _Operand):
            why = _why_not(op, x, y, slices)
            if why is None and 2 * (x.bytes + y.bytes) > options.budget:
                why = f"two stages of {x.bytes + y.bytes} bytes have no room in shared memory"
            if why is None:
                found[op] = x, y
                warps = needed
        if why is not None:
            reasons.append(f"line {op.loc.line}: mma.sync, as {why}")
    _drop_shared_loads(found, reasons)
    stores = frozenset(
        op for op in plan.descriptors if isinstance(op, StoreView) and _can_put(op, plan.descriptors[op])
    )
    return Choice(found, stores if found else frozenset(), warps or 0, plan, tuple(reasons))


def _warps(op: Mma, given: int | None) -> int | None:
    """How many warps multiply: two warp groups where there are rows for both, as long as sums fit into registers."""
    *_, m, n = op.acc.tile.shape
    for groups in range(_MOST_GROUPS, 0, -1) if given is None else [given // GROUP_WARPS]:
        exact = given is None or given == groups * GROUP_WARPS
        if exact and groups and m % (ROWS * groups) == 0 and m * n <= _MOST_SUMS * 32 * GROUP_WARPS * groups:
            return groups * GROUP_WARPS
    return None


def _why_not(op: Mma, x: _Operand, y: _Operand, slices: ProducerSlice) -> str | None:
    if op.acc.tile.rank != 2 or op.acc.tile.shape[1] % 8 or op.acc.tile.shape[1] > MOST_COLUMNS:
        return f"a sum of {op.acc.tile} is none of wgmma"
    if not wgmma_multiplies(x.type.dtype, y.type.dtype, op.acc.tile.element):
        return f"wgmma does not add products of {x.type.dtype} and {y.type.dtype} in {op.acc.tile.element}"
    if not readable(x.type, 1) or not readable(y.type, 0):
        return f"wgmma does not read operands of {x.type.dtype} that are contiguous across k"
    for operand in (x, y):
        block = operand.load.block
        assert block is not None
        if any(has_early_exit(other) for other in block.ops if not other.spec.terminator):
            return f"control may leave what is around line {operand.load.loc.line} before it multiplies"
        if not slices.covers(operand.load, operand.load.indices):
            return f"what is loaded at line {operand.load.loc.line} depends on what was read before"
    return None


def _operand(op: Mma, k: int, plan: LoweringPlan) -> _Operand | str:
    """Operand ``k`` of ``op`` in shared memory, or why it is not a tile that the TMA unit copies."""
    value = (op.x, op.y)[k]
    through: set[Op] = set()
    dtype, turned = value.tile.element, False
    while not isinstance(value.op, LoadView):
        source = value.op
        if isinstance(source, Permute) and source.axes == (1, 0):
            turned = not turned
        elif not (isinstance(source, Reshape) and _kept(source.x.tile.shape) == _kept(source.shape)) and not (
            isinstance(source, Cast) and source in plan.rounded
        ):
            return "an operand is not loaded as it is"
        through.add(source)
        value = source.x
    load = value.op
    descriptor = plan.descriptors.get(load)
    if descriptor is None or descriptor.listed:
        return "no tensor map describes what is loaded for an operand"
    partition = _partition(load)
    kept = [axis for axis, n in zip(partition.order, partition.tile_shape) if n != 1]
    shape = [n for n in partition.tile_shape if n != 1]
    if len(shape) != 2:
        return "an operand has an extent of 1"
    inner = kept.index(descriptor.axes[-1])
    if turned:
        inner, shape = 1 - inner, shape[::-1]
    swizzle = _swizzle(shape[inner] * dtype.bytes)
    if swizzle is None or max(shape[1 - inner], swizzle // dtype.bytes) > LARGEST_BOX:
        return f"rows of {shape[inner] * dtype.bytes} bytes are not swizzled"
    layout = swizzled_layout(shape, inner, swizzle, dtype.bytes)
    return _Operand(load, SharedType(dtype, layout), frozenset(through))


def _drop_shared_loads(found: dict[Mma, tuple[_Operand, _Operand]], reasons: list[str]) -> None:
    """Leave out MMA ops of which others use an operand too, or which are not in the block of their loads."""
    while True:
        inside = {op for pair in found.values() for o in pair for op in o.through} | set(found)
        wrong = [
            op
            for op, pair in found.items()
            if any(o.load.block is not op.block or not _only(o.load.result, inside) for o in pair)
        ]
        if not wrong:
            return
        for op in wrong:
            del found[op]
            reasons.append(f"line {op.loc.line}: mma.sync, as something else uses what is loaded for it")


def _only(value: Value, inside: set[Op]) -> bool:
    """Whether ``value`` goes through ``inside`` to MMA ops there, and nowhere else."""
    return all(op in inside and (isinstance(op, Mma) or _only(op.results[0], inside)) for op in value.users)


def _kept(shape: tuple[int, ...]) -> list[int]:
    return [n for n in shape if n != 1]


def _swizzle(row_bytes: int) -> int | None:
    return next((s for s in SWIZZLES if row_bytes % s == 0), None)


def _partition(op: ViewMemoryOp) -> PartitionViewType:
    t = op.view.type
    assert isinstance(t, PartitionViewType)
    return t


def _can_put(op: StoreView, d: Descriptor) -> bool:
    """Whether a store is of a matrix with rows that a swizzle suits."""
    t = _partition(op)
    kept = [(axis, n) for axis, n in zip(t.order, t.tile_shape) if n != 1]
    if d.listed or len(kept) != 2 or op.value.tile.is_pointer:
        return False
    inner = next((n for axis, n in kept if axis == d.axes[-1]), 0)
    outer = math.prod(n for _, n in kept) // max(inner, 1)
    return _swizzle(inner * t.view.dtype.bytes) is not None and inner > 0 and outer <= LARGEST_BOX


class _Chooser(Rewriter):
    def __init__(self, choice: Choice) -> None:
        super().__init__()
        self.choice = choice
        self.maps: dict[tuple[Descriptor, DType], Op] = {}
        self.fetched: dict[tuple[LoadView, SharedType], Value] = {}
        operands = [o for pair in choice.products.values() for o in pair]
        self.gone = {op for o in operands for op in (o.load, *o.through)}

    def function(self, function: Function) -> Function:
        made = super().function(function)
        first = made.body.ops[0]
        for op in self.maps.values():
            made.body.insert(op, first)
        made.hints[WGMMA_WARPS] = self.choice.warps
        return made

    def insert(self, op: Op, builder: Builder) -> None:
        builder.loc = op.loc
        if isinstance(op, Mma) and op in self.choice.products:
            x, y = (self._fetch(o, builder) for o in self.choice.products[op])
            self.values[op.result] = builder.emit(Wgmma, x, y, self.value(op.acc))
        elif isinstance(op, StoreView) and op in self.choice.stores:
            self._put(op, builder)
        elif op not in self.gone:
            super().insert(op, builder)

    def _fetch(self, operand: _Operand, b: Builder) -> Value:
        key = operand.load, operand.type
        if key not in self.fetched:
            load = operand.load
            b.loc = load.loc
            tensor_map = self._map(load, self.choice.plan.descriptors[load], operand.type.dtype, b)
            starts = self._starts(load, self.choice.plan.descriptors[load], b)
            self.fetched[key] = b.emit(Fetch, tensor_map, starts, type=operand.type)
        return self.fetched[key]

    def _put(self, op: StoreView, b: Builder) -> None:
        d, t = self.choice.plan.descriptors[op], _partition(op)
        tensor_map = self._map(op, d, t.view.dtype, b)
        kept = [axis for axis, n in zip(t.order, t.tile_shape) if n != 1]
        value, shape = self.value(op.value), tuple(n for n in t.tile_shape if n != 1)
        if value.tile.shape != shape:
            value = b.emit(Reshape, value, shape=shape)
        b.emit_op(Put, tensor_map, value, self._starts(op, d, b), inner=kept.index(d.axes[-1]))

    def _map(self, op: LoadView | StoreView, d: Descriptor, dtype: DType, b: Builder) -> Value:
        """The tensor map of the boxes of an access."""
        t = _partition(op)
        extents = dict(zip(t.order, t.tile_shape))
        swizzle = _swizzle(extents[d.axes[-1]] * dtype.bytes)
        assert swizzle is not None
        groups = self.choice.warps // GROUP_WARPS
        outer = [extents[a] for a in d.axes[:-1]]
        if isinstance(op, StoreView):  # a box for each warp group
            outer = [n // groups if n % (ROWS * groups) == 0 else n for n in outer]
        box = (*outer, swizzle // dtype.bytes)
        key = Descriptor(d.base, d.shape, d.strides, d.axes, box, d.element, rounds=d.rounds), dtype
        if key not in self.maps:
            attributes = {
                "base": d.base, "shape": d.shape, "strides": d.strides, "axes": d.axes, "box": box,
                "element": d.element, "dtype": dtype, "rounds": d.rounds,
            }  # fmt: skip
            self.maps[key] = create(TensorMap, [], attributes, b.loc)
        return self.maps[key].result

    def _starts(self, op: LoadView | StoreView, d: Descriptor, b: Builder) -> list[Value]:
        """The coordinates of a tile along the axes of ``d``; outside of the array where they need more than 32 bits."""
        t = _partition(op)
        starts = []
        for axis in d.axes:
            k = t.order.index(axis)
            index = self.value(op.indices[k])
            wide = index if index.tile.element is int64 else b.emit(Cast, index, dtype=int64)
            start = b.emit(Mul, wide, b.constant(t.steps[k], int64)) if t.steps[k] != 1 else wide
            narrow = b.emit(Cast, start, dtype=int32)
            same = b.emit(Cmp, b.emit(Cast, narrow, dtype=int64), start, predicate=CmpPredicate.EQ)
            starts.append(b.emit(Select, same, narrow, b.constant(-t.tile_shape[k], int32)))
        return starts
