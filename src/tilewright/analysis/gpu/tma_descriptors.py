"""Which accesses of a function the TMA unit makes, by which descriptors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tilewright.analysis.alias import AliasAnalysis, may_alias
from tilewright.analysis.gpu.element_types import memory_element
from tilewright.analysis.gpu.target import GpuTarget, resolved
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.list_tables import Cell, Tables
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import float32, int32
from tilewright.ir.effects import ACQUIRES, RELEASES
from tilewright.ir.enums import AtomicKind, PaddingMode, RoundingMode
from tilewright.ir.gpu_parameters import LONGEST, SLICE_EXTENT, SMALLEST_BYTES, Descriptor
from tilewright.ir.opdef import Effect
from tilewright.ir.ops import memory
from tilewright.ir.ops.arith import Bitcast, Cast, Mul
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.wgmma import Interleave
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.shape import Broadcast, Cat, Permute, PtrOffset, Reshape, constant_of
from tilewright.ir.types import PartitionViewType, TensorViewType

_MOST_AXES, _AXES_OF_SLICES = 5, 2  # of a tensor map; more than those of the array
_LARGEST_BOX = 256  # elements along an axis: CUDA Driver API, cuTensorMapEncodeTiled, boxDim
Source = tuple[str, int, int]  # as in ``Descriptor``
_MOVES = (Reshape, Permute)
_TOWARD_MMA = (Reshape, Permute, Interleave, Broadcast, Cat)


class Slice(NamedTuple):
    """A view of ``extent`` elements from ``start`` on along ``axis`` of an array."""

    axis: int
    start: Value
    extent: Value


@dataclass
class LoweringPlan:
    """Decisions made before lowering: see ``plan_lowering``."""

    tables: Tables
    descriptors: dict[Op, Descriptor] = field(default_factory=dict)
    slices: dict[Op, Slice] = field(default_factory=dict)  # accesses whose descriptors are those of slices
    copyable: set[Op] = field(default_factory=set)  # loads of arrays that the launch may copy
    rounded: set[Op] = field(default_factory=set)  # conversions that a descriptor has done

    def cell(self, access: memory.ViewMemoryOp) -> Cell | None:
        """Where in a table the array of ``access`` is; None where it is in no list."""
        view = memory.array_view(access.view)
        return None if view is None else self.tables.cell(view.base)

    def places(self, access: memory.LoadView) -> list[Value]:
        """What says which tile of which array ``access`` is to."""
        cell = self.cell(access)
        return [*access.indices, *([] if cell is None or cell.first is None else [cell.first])]


def plan_lowering(function: Function, target: GpuTarget, realign: bool) -> LoweringPlan:
    """Decisions about ``function``. ``realign`` allows descriptors of copies, for arrays that are only read and that an
    MMA loop reads."""
    analyses = AnalysisManager(function)
    roots, facts = analyses.get(AliasAnalysis), analyses.get(IntegerRanges)
    plan = LoweringPlan(roots.tables)
    if target.has_tma:
        _describe(plan, function, roots, target, facts, realign)
        _leave_to_threads(plan, function, roots)
        if target.has_wgmma or target.has_tensor_memory:
            _round_operands(plan)
    return plan


def _leave_to_threads(plan: LoweringPlan, function: Function, roots: AliasAnalysis) -> None:
    """Arrays to which threads store too are not stored to by the TMA unit, which does not wait for their stores."""
    writes = (op for op in function.ops_of(memory.MemoryOp) if op.spec.effect & Effect.WRITE)
    stores = {op: roots.underlying_object(op.address) for op in writes}
    by_threads = {root for op, root in stores.items() if op not in plan.descriptors}
    for op, root in stores.items():
        if op in plan.descriptors and may_alias(root, by_threads):
            del plan.descriptors[op]


def _describe(
    plan: LoweringPlan, function: Function, roots: AliasAnalysis, target: GpuTarget, facts: IntegerRanges, realign: bool
) -> None:
    """Find the accesses by descriptors."""
    params = {value: i for i, value in enumerate(function.body.args)}
    read, written = roots.accessed(function.walk())
    apart = roots.accessed(op for op in function.walk() if not isinstance(op, memory.AtomicView))
    ordered = any(op.memory_order in (*ACQUIRES, *RELEASES) for op in function.ops_of(memory.MemoryOp))
    mixed = read & written
    if roots.shared is not None and roots.shared in written:
        mixed.add(roots.shared)
    for op in function.walk():
        if not isinstance(op, memory.ViewMemoryOp) or not _wants_descriptor(op, target):
            continue
        root, adds = roots.underlying_object(op.view), isinstance(op, memory.AtomicView)
        if may_alias(root, set().union(*apart) if adds else mixed) or (adds and ordered):
            continue  # the TMA unit is not ordered with plain accesses
        may_realign = realign and isinstance(op.parent, For) and root not in written | mixed and None not in written
        view = memory.array_view(op.view)
        part = None if view is None else _slice(view, params)
        found = descriptor(op, params, plan.tables, facts, target, may_realign=may_realign, part=part)
        if found is not None:
            if part is not None:
                plan.slices[op] = part
            plan.descriptors[op] = found
            if may_realign and len(found.axes) == 2 and not found.listed:
                plan.copyable.add(op)


def _round_operands(plan: LoweringPlan) -> None:
    """Find the loads that the TMA unit rounds to tfloat32 on the way into shared memory, for MMA ops on Hopper: then a
    conversion costs nothing, and the tile need not pass through registers."""
    for op, descriptor in plan.descriptors.items():
        casts = _casts(op.results[0]) if isinstance(op, memory.LoadView) and descriptor.element == "f32" else None
        if casts:
            plan.descriptors[op] = replace(descriptor, rounds=True)
            plan.rounded |= casts


def _casts(value: Value) -> set[Op] | None:
    """The conversions to tfloat32 for MMA ops that are all uses of ``value``; None when it has others."""
    found: set[Op] = set()
    for op in value.users:
        inner: set[Op] | None = None
        if isinstance(op, _MOVES):
            inner = _casts(op.results[0])
        elif isinstance(op, Cast) and op.dtype.short == "tf32" and _only_multiplied(op.results[0]):
            inner = {op} if op.rounding is RoundingMode.RN else None
        if inner is None:
            return None
        found |= inner
    return found


def _only_multiplied(value: Value) -> bool:
    """Whether nothing but MMA ops sees ``value``: the TMA unit rounds as a conversion does, but NaN to one NaN."""
    return all(
        isinstance(op, Mma) or (isinstance(op, _MOVES) and _only_multiplied(op.results[0])) for op in value.users
    )


def _wants_descriptor(op: memory.ViewMemoryOp, target: GpuTarget) -> bool:
    if isinstance(op, memory.AtomicView):
        return op.kind is AtomicKind.ADD and op.value.tile.element is float32 and _is_large(op.value)
    assert isinstance(op, (memory.LoadView, memory.StoreView))
    hint = resolved(op.allow_tma, target)
    if hint is False or not op.is_weak:
        return False
    if isinstance(op, memory.StoreView):
        return hint is True or (_is_large(op.value) and not _is_transposed(op, target))
    beside = op.parent is None and _is_large(op.results[0])
    return hint is True or beside or _reaches_mma(op.results[0])


def _reaches_mma(value: Value) -> bool:
    """Whether an MMA op multiplies ``value``, or what is computed from it, element by element."""
    for op in value.users:
        if isinstance(op, Mma) and op.acc is not value:
            return True
        if (op.spec.elementwise or isinstance(op, _TOWARD_MMA)) and _reaches_mma(op.results[0]):
            return True
    return False


def _is_large(value: Value) -> bool:
    """Whether storing a tile through the TMA unit saves more than it costs to hand it over."""
    return value.tile.rank >= 2 and value.tile.size >= 4096


def _is_transposed(store: memory.StoreView, target: GpuTarget) -> bool:
    """Whether ``store`` writes along another axis what threads have read along one: they hold pieces of that, and would
    hand the tile to the TMA unit element by element."""
    value, axis = store.value, _innermost(store)
    while isinstance(op := value.op, (Permute, Cast)):
        if isinstance(op, Permute) and axis is not None:
            axis = op.axes[axis]
        value = op.x
    if not isinstance(op, memory.LoadView) or resolved(op.allow_tma, target) is True:
        return False
    read = _innermost(op)
    return None not in (axis, read) and axis != read


def _innermost(access: memory.LoadView | memory.StoreView) -> int | None:
    """The axis of the tile along which memory is contiguous."""
    partition = access.view.partition
    unit = [axis for axis, stride in enumerate(partition.view.strides) if stride == 1]
    return partition.order.index(unit[-1]) if unit else None


def _slice(view: memory.MakeTensorView, params: dict[Value, int]) -> Slice | None:
    """The part of an array that ``view`` is, where that begins at a multiple of one of its strides."""
    t = view.type
    offset = view.base.op.offset.op if isinstance(view.base.op, PtrOffset) else None
    if not isinstance(offset, Mul) or t.rank + _AXES_OF_SLICES > _MOST_AXES or t.index_dtype.bitwidth > 32:
        return None
    strides, extents = iter(view.strides), iter(view.shape)
    for axis, (stride, extent) in enumerate(zip(t.strides, t.shape)):
        by = None if stride is not None else _parameter_source(next(strides), params)
        length = None if extent is not None else next(extents)
        for start, factor in ((offset.lhs, offset.rhs), (offset.rhs, offset.lhs)):
            narrow = start.op.x if isinstance(start.op, Cast) else start
            if None not in (by, length) and by == _parameter_source(factor, params) and narrow.tile.dtype is int32:
                assert length is not None
                return Slice(axis, narrow, length)
    return None


def descriptor(
    op: Any,
    params: dict[Value, int],
    tables: Tables,
    facts: IntegerRanges,
    target: GpuTarget,
    *,
    may_realign: bool,
    part: Slice | None = None,
) -> Descriptor | None:
    """The descriptor for the tiles of ``op``, which may be those of a ``part`` of an array, or None when the TMA unit
    cannot move them."""
    partition: PartitionViewType = op.view.partition
    t = partition.view
    view = memory.array_view(op.view)
    if view is None or t.rank > 5:
        return None
    listed = tables.cell(view.base)
    first = view.base if part is None else view.base.op.ptr  # type: ignore[union-attr]
    base, find = _finder(first, params, tables, listed)
    extents, strides = _sources(t.shape, view.shape, find), _sources(t.strides, view.strides, find)
    if part is not None:
        extents[part.axis] = ("c", SLICE_EXTENT, 1)
    shape = [source for source in extents if source is not None]
    if (
        base is None
        or len(shape) != t.rank
        or None in strides
        or not _is_short(shape, t, params)
        or t.dtype.is_bool
        or t.dtype.bitwidth == 4
    ):
        return None
    item = t.dtype.bytes
    tile = dict(zip(partition.order, partition.tile_shape))
    axes = _box_axes(partition)
    if axes is None:
        return None
    inner, block = axes[-1], tuple(tile[a] for a in axes)
    if isinstance(op, memory.LoadView) and not _pads_with_zero(partition):
        return None
    if not isinstance(op, memory.LoadView) and _extent_divisors(t.shape, view.shape, facts)[inner] * item % 16:
        return None  # the TMA unit would fill the last unit, of 16 bytes, of each row
    if not SMALLEST_BYTES <= math.prod(block) * item <= target.shared_memory:
        return None  # the TMA unit takes a tile from shared memory, where one follows the other
    aligned = _divisor(first, facts) % 16 == 0 and has_pitch(view, t, inner, facts, 16)
    if not aligned and not (may_realign and t.rank == 2 and listed is None):
        return None
    element, steps = memory_element(t.dtype, target), [source for source in strides if source is not None]
    if part is not None:
        steps_over = partition.steps[partition.order.index(part.axis)] >= tile[part.axis]
        if not aligned or part.axis == inner or not steps_over:
            return None  # what comes before a slice is in memory, too
        kind, n, factor = steps[part.axis]
        shape, steps = [*shape, *[("c", LONGEST, 1)] * 2], [*steps, ("w", n, -factor), (kind, n, factor)]
        axes, block = [t.rank, t.rank + 1, *axes], (1, 1, *block)
    return Descriptor(
        base, tuple(shape), tuple(steps), tuple(axes), block, element, not aligned, listed=listed is not None
    )


def _finder(
    first: Value, params: dict[Value, int], tables: Tables, listed: Any
) -> tuple[int | None, Callable[..., Any]]:
    """The parameter that has the address of an array, which is ``first``, and what finds those of its extents."""
    if listed is None:
        return _param(first, params), functools.partial(_parameter_source, params=params)
    return listed.table, functools.partial(_listed_source, tables=tables, array=listed.array)


def _box_axes(partition: PartitionViewType) -> list[int] | None:
    """The axes of the array as the TMA unit goes along them, the innermost last; None where a tile is no box of it."""
    t, tile = partition.view, dict(zip(partition.order, partition.tile_shape))
    inner = next((a for a in reversed(range(t.rank)) if t.strides[a] == 1 and tile[a] * t.dtype.bytes >= 16), None)
    if inner is None:
        return None
    axes = sorted((a for a in range(t.rank) if a != inner), key=lambda a: (tile[a] != 1, partition.order.index(a)))
    too_large = any(tile[a] > _LARGEST_BOX for a in axes)
    return None if too_large or len([a for a in (*axes, inner) if tile[a] != 1]) < 2 else [*axes, inner]


def has_pitch(view: Any, t: TensorViewType, inner: int, facts: IntegerRanges, unit: int) -> bool:
    """Whether all strides but that of ``inner`` are known to be whole units of ``unit`` bytes."""
    divisors = _extent_divisors(t.strides, view.strides, facts)
    return all(d * t.dtype.bytes % unit == 0 for axis, d in enumerate(divisors) if axis != inner)


def _extent_divisors(static: tuple[int | None, ...], dynamic: list[Value], facts: IntegerRanges) -> list[int]:
    """What divides each extent or stride: itself where it is a constant."""
    values = iter(dynamic)
    return [n if n is not None else _divisor(next(values), facts) for n in static]


def _pads_with_zero(partition: PartitionViewType) -> bool:
    """Whether what lies outside the array may be zero bits."""
    zeros = [PaddingMode.UNDETERMINED, PaddingMode.ZERO]
    if not partition.view.dtype.is_floating:
        zeros += [PaddingMode.NEG_ZERO, PaddingMode.NAN]
    return partition.padding in zeros


def _param(value: Value, params: dict[Value, int]) -> int | None:
    found = _multiple(value, params)
    return found[0] if found is not None and found[1] == 1 else None


def _multiple(value: Value, params: dict[Value, int]) -> tuple[int, int] | None:
    """The parameter that ``value`` is a multiple of, and how much of it. Extents and strides are no less than zero, so
    that a number without sign is the one with sign that it was."""
    factor = 1
    while (op := value.op) is not None:
        if isinstance(op, Mul) and (known := constant_of(op.rhs)) is not None:
            factor *= int(known)
        elif not isinstance(op, (memory.AssumeDivisible, memory.AssumeBounded, Cast, Bitcast)) or _narrows(op):
            return None
        value = op.lhs if isinstance(op, Mul) else op.x
    return (params[value], factor) if value in params else None


def _narrows(op: Op) -> bool:
    return isinstance(op, Cast) and op.result.tile.element.bitwidth < op.x.tile.element.bitwidth


def _divisor(value: Value, facts: IntegerRanges) -> int:
    if value.tile.is_pointer:
        found = 1
        while isinstance(value.op, memory.AssumeDivisible):
            found = max(found, value.op.divisor)
            value = value.op.x
        return found
    return facts.divisor(value)


def _parameter_source(value: Value, params: dict[Value, int]) -> Source | None:
    multiple = _multiple(value, params)
    return ("p", *multiple) if multiple is not None else None


def _listed_source(value: Value, tables: Tables, array: tuple[int, Value | None, int]) -> Source | None:
    cell = tables.cell(value)
    return ("t", cell.column, 1) if cell is not None and cell.array == array else None


def _sources(
    static: tuple[int | None, ...], dynamic: list[Value], find: Callable[[Value], Source | None]
) -> list[Source | None]:
    """Where the launch finds extents or strides: constants, or what ``find`` finds."""
    values = iter(dynamic)
    found: list[Source | None] = []
    for n in static:
        value = next(values) if n is None else None
        known = n if value is None else constant_of(value)
        found.append(("c", int(known), 1) if known is not None else find(value) if value is not None else None)
    return found


def _is_short(extents: Sequence[Source], t: TensorViewType, params: dict[Value, int]) -> bool:
    """Whether coordinates of 32 bits reach everything in an array with these ``extents``."""
    types = {i: value.tile for value, i in params.items()}
    for kind, n, factor in extents:
        if kind == "c" and n >= 1 << 31:
            return False
        if kind == "p" and (factor != 1 or types[n].element.bitwidth > 32):
            return False
        if kind == "t" and t.index_dtype.bitwidth > 32:
            return False
    return True
