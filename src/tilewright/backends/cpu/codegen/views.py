"""Addresses, bounds and element access of partition views."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from llvmlite import ir

from tilewright.backends.cpu.codegen import index, lanes
from tilewright.backends.cpu.codegen.index import Index, as_value
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import Coord, Pattern, Position, common_step, is_contiguous
from tilewright.backends.cpu.codegen.state import State, ViewBinding, storage_bytes
from tilewright.backends.cpu.loops.fused import array_tiles, reshapes
from tilewright.backends.cpu.loops.vectorize import LONGEST_STEP
from tilewright.backends.vector import storage_type
from tilewright.backends.vector.types import I1, I64
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.layouts import log2
from tilewright.ir.ops.loops import CheckLoad, LoopNest
from tilewright.ir.ops.memory import MakeTensorView, ViewMemoryOp
from tilewright.records import NamedTuple

# Tile indices are clamped to this magnitude: far outside of any array, and small enough not to wrap around.
_FARTHEST = 1 << 38
# Bytes of a row whose ends may share lines with others when it is stored past the caches. On two cores of an EPYC, with
# float32 arrays that began 16 bytes off, rows of 4 KiB lost by it (RMS norm) and rows of 16 KiB gained (addition):
# tried by hand, no benchmark keeps it.
_LONG_ROW = 1 << 14
# Times the caches: a copy of what fills them stays in them, three such arrays do not. On one core of an EPYC, arrays of
# 16 MiB, others at work beside it, stores past the caches made softmax backward 1.07 to 1.3 times as fast, and
# additions 1.3 times; norms, which read one array, lost.
_ALL_ARRAYS = 2.5


def bind_tensor_view(state: State, op: MakeTensorView) -> None:
    """make_tensor_view."""
    extents = op.type.filled(map(state.index, op.shape), map(state.index, op.strides))
    state.bind(op.result, ViewBinding(state.scalar(op.base), *extents))


class ViewAccess(NamedTuple):
    """One access to a tile of a view: everything that does not depend on the element, computed at the op.

    Per tile axis: ``origins``, the array coordinate of the tile's first element; ``extents`` of the array;
    ``strides`` in elements. ``address`` is that of the tile's first element. ``inside`` tells at run time whether
    the whole tile lies inside the array; None when that is known.
    """

    op: Op
    view: Value
    dtype: DType
    shape: tuple[int, ...]
    indices: tuple[Value, ...]
    address: ir.Value
    origins: tuple[Index, ...]
    extents: tuple[Index, ...]
    strides: tuple[Index, ...]
    checked: tuple[bool, ...]
    inside: ir.Value | None


def access(state: State, op: ViewMemoryOp | CheckLoad) -> ViewAccess:
    """The access of a load_view, store_view or atomic_view."""
    view = op.view
    assert view is not None
    type_ = view.partition
    bound, builder = state.view(view), state.builder
    in_bounds = op.promised
    origins, inside, address = [], None, bound.base
    item = storage_bytes(type_.view.dtype)
    for k, axis in enumerate(type_.order):
        at = state.index(op.indices[k])
        if op.indices[k].tile.element.bitwidth == 64 and not isinstance(at, int):
            at = index.maximum(builder, index.minimum(builder, at, _FARTHEST), -_FARTHEST)
        origin = index.mul(builder, at, type_.steps[k])
        origins.append(origin)
        offset = index.mul(builder, index.mul(builder, origin, bound.strides[axis]), item)
        address = address if isinstance(offset, int) and offset == 0 else builder.add(address, as_value(offset))
        if not in_bounds[k]:
            whole = fits(builder, origin, bound.shape[axis], type_.tile_shape[k])
            inside = whole if inside is None else builder.and_(inside, whole)
    return ViewAccess(
        op,
        view,
        type_.view.dtype,
        type_.tile_shape,
        tuple(op.indices),
        address,
        tuple(origins),
        tuple(bound.shape[axis] for axis in type_.order),
        tuple(bound.strides[axis] for axis in type_.order),
        tuple(not known for known in in_bounds),
        inside,
    )


class Streaming(NamedTuple):
    """How a tile is stored past the caches: ``worthwhile`` (i1), and the elements of a row that are before the first
    aligned vector; None where rows begin with one."""

    worthwhile: ir.Value
    first: ir.Value | None


def streaming(state: State, nest: LoopNest, tile: ViewAccess) -> Streaming:
    """How vectors of ``nest`` are stored past the caches: worthwhile where the array is larger than these, or where
    it takes, with the arrays that are read for it, more than ``_ALL_ARRAYS`` times as much.

    All rows of the tile have to be aligned alike. They have to begin with a whole vector where they are short, as the
    lines at their ends are not filled at once, and have to be read, where the loops keep what they compute, which they
    must not do twice, and where elements change their coordinates, as vectors may not go on in the next row of a tile.
    """
    builder, item = state.builder, storage_bytes(tile.dtype)
    vector = nest.lanes * item
    skew: Index = index.low_bits(builder, tile.address, item)
    for n, stride in zip(tile.shape, tile.strides):
        if n > 1 and stride != 1:
            skew = builder.or_(
                as_value(skew), as_value(index.low_bits(builder, index.mul(builder, stride, item), vector))
            )
    alike = builder.icmp_unsigned("==", as_value(skew), as_value(0))
    cache = state.processor.cache_bytes
    size = _array_bytes(builder, tile)
    read = {state.view(a.view).base: a for a in loaded(state, nest)}
    total = functools.reduce(lambda sum_, a: index.add(builder, sum_, _array_bytes(builder, a)), read.values(), size)
    large = builder.icmp_unsigned(">", as_value(size), as_value(cache))
    if read:
        all_arrays = as_value(int(_ALL_ARRAYS * cache))
        large = builder.or_(large, builder.icmp_unsigned(">", as_value(total), all_arrays))
    worthwhile = builder.and_(alike, large)
    before = builder.and_(builder.neg(tile.address), as_value(vector - 1))
    if tile.shape[-1] * item < _LONG_ROW or nest.kept or reshapes(nest):
        whole = builder.icmp_unsigned("==", before, as_value(0))
        return Streaming(builder.and_(worthwhile, whole), None)
    return Streaming(worthwhile, builder.lshr(before, as_value(log2(item))))


def loaded(state: State, nest: LoopNest) -> list[ViewAccess]:
    """The tiles that the loops of ``nest`` read from arrays."""
    return [state.accesses[v.op] for v in array_tiles(nest) if v.op is not None]


def _array_bytes(builder: ir.IRBuilder, tile: ViewAccess) -> Index:
    """Bytes of the array that ``tile`` is part of."""
    return functools.reduce(lambda size, n: index.mul(builder, size, n), tile.extents, storage_bytes(tile.dtype))


def fits(builder: ir.IRBuilder, origin: Index, extent: Index, n: Index) -> ir.Value:
    """0 <= origin and origin + n <= extent."""
    if isinstance(origin, int) and isinstance(extent, int) and isinstance(n, int):
        return ir.Constant(I1, int(origin >= 0 and origin + n <= extent))
    low = builder.icmp_signed(">=", as_value(origin), as_value(0))
    end = index.add(builder, origin, n)
    return builder.and_(low, builder.icmp_signed("<=", as_value(end), as_value(extent)))


def may_fuse(state: State, load: ViewAccess, store: ViewAccess, same_index: bool) -> ir.Value:
    """i1: may elements be stored while others are still to be loaded?

    True when the tiles do not overlap, or, with ``same_index``, when each element is loaded right before
    it is stored itself.
    """
    builder = state.builder
    (low_a, high_a), (low_b, high_b) = address_range(builder, load), address_range(builder, store)
    disjoint = builder.or_(builder.icmp_unsigned("<=", high_a, low_b), builder.icmp_unsigned("<=", high_b, low_a))
    if not same_index or load.shape != store.shape or storage_bytes(load.dtype) != storage_bytes(store.dtype):
        return disjoint
    same = builder.icmp_unsigned("==", load.address, store.address)
    for n, s, t in zip(load.shape, load.strides, store.strides):
        if n > 1 and not (isinstance(s, int) and s == t):
            same = builder.and_(same, builder.icmp_unsigned("==", as_value(s), as_value(t)))
    return builder.or_(disjoint, same)


def address_range(builder: ir.IRBuilder, tile: ViewAccess) -> tuple[ir.Value, ir.Value]:
    """The addresses between which the tile lies."""
    item = storage_bytes(tile.dtype)
    low: Index = 0
    high: Index = item
    for n, stride in zip(tile.shape, tile.strides):
        reach = index.mul(builder, stride, (n - 1) * item)
        low = index.add(builder, low, index.minimum(builder, reach, 0))
        high = index.add(builder, high, index.maximum(builder, reach, 0))
    return builder.add(tile.address, as_value(low)), builder.add(tile.address, as_value(high))


class LaneAddresses(NamedTuple):
    """Where the lanes of one element access lie.

    One address when ``lanes`` is None, or the lanes are ``step`` elements apart, or lie as far behind it as ``window``
    says; else a vector of addresses, and the first ones of ``runs`` of consecutive lanes, where these are worth it.
    """

    address: ir.Value
    lanes: int | None
    step: int
    level: int
    runs: Sequence[ir.Value] = ()
    window: Pattern = ()

    def pointers(self, builder: ir.IRBuilder, item: int) -> ir.Value:
        """The addresses of all lanes, elements of ``item`` bytes."""
        if not self.step and not self.window:
            return self.address
        apart = self.window or tuple(lane * self.step for lane in range(self.lanes or 1))
        return lanes.addresses(builder, self.address, apart, item)


def locate(nest: Nest, tile: ViewAccess, position: Position) -> LaneAddresses:
    """The addresses of ``position``."""
    item = storage_bytes(tile.dtype)
    level = max((c.level for c in position), default=0)
    address = tile.address
    fixed: list[tuple[Pattern, int]] = []
    moving: list[tuple[Pattern, Index]] = []
    for c, stride in sorted(zip(position, tile.strides), key=lambda pair: pair[0].level):
        at = nest.builders[c.level]
        offset = index.mul(at, c.base, index.mul(nest.builders[0], stride, item))
        if not (isinstance(offset, int) and offset == 0):
            address = at.add(address, as_value(offset))
        if c.pattern is not None:
            if isinstance(stride, int):
                fixed.append((c.pattern, stride))
            else:
                moving.append((c.pattern, stride))
    if not fixed and not moving:
        return LaneAddresses(address, None, 1, level)
    count = len(fixed[0][0] if fixed else moving[0][0])
    known = tuple(sum(p[lane] * s for p, s in fixed) for lane in range(count))
    builder = nest.builders[level]
    step = 0 if moving else common_step(known)
    if 0 < step <= LONGEST_STEP:
        if known[0]:
            address = builder.add(address, as_value(known[0] * item))
        return LaneAddresses(address, count, step, level)
    low, high = min(known), max(known)
    if not moving and high - low < LONGEST_STEP * count:
        address = builder.add(address, as_value(low * item))
        return LaneAddresses(address, count, 0, level, window=tuple(k - low for k in known))
    vector = lanes.addresses(builder, address, known, item)
    for pattern, stride in moving:
        distance = lanes.splat(nest.builders[0], as_value(index.mul(nest.builders[0], stride, item)), count)
        vector = builder.add(vector, nest.builders[0].mul(distance, lanes.integers(I64, pattern)))
    starts = _runs([known, *(pattern for pattern, _ in moving)])
    runs = [builder.extract_element(vector, as_value(lane)) for lane in starts]
    return LaneAddresses(vector, count, 0, level, runs)


def _runs(patterns: Sequence[Pattern]) -> Sequence[int]:
    """The first lanes of runs of one length, whose lanes are neighbours by the first of ``patterns`` and alike by the
    others; none where there are many runs."""
    known, *others = patterns
    count = len(known)
    for length in (count // 2, count // 4, count // 8):
        runs = [slice(at, at + length) for at in range(0, count, length)] if length > 1 else []
        if runs and all(is_contiguous(known[r]) and all(len({*p[r]}) == 1 for p in others) for r in runs):
            return [r.start for r in runs]
    return ()


def all_inside(nest: Nest, tile: ViewAccess, position: Position) -> tuple[ir.Value | None, int]:
    """i1: do all lanes lie inside the array? And its level. None when they surely do."""
    found, level = None, 0
    for k, c in sorted(enumerate(position), key=lambda pair: pair[1].level):
        if not tile.checked[k]:
            continue
        builder, level = nest.builders[c.level], c.level
        at = index.add(builder, tile.origins[k], c.base)
        if c.pattern is None:
            lies = builder.icmp_unsigned("<", as_value(at), as_value(tile.extents[k]))
        else:
            lies = fits(builder, at, tile.extents[k], max(c.pattern) + 1)
        found = lies if found is None else builder.and_(found, lies)
    return found, level


def bounds_mask(nest: Nest, tile: ViewAccess, position: Position) -> tuple[ir.Value, int | None, int] | None:
    """Which lanes lie inside the array: the mask, its lanes and its level. None when every one surely does."""
    count = next((len(c.pattern) for c in position if c.pattern is not None), None)
    mask, level = None, 0
    for k, c in enumerate(position):
        if not tile.checked[k]:
            continue
        found, width = _axis_mask(nest, c, tile.origins[k], tile.extents[k])
        if width is None and count is not None:
            found = lanes.splat(nest.builders[c.level], found, count)
        level = max(level, c.level)
        mask = found if mask is None else nest.builders[level].and_(mask, found)
    return None if mask is None else (mask, count, level)


def _axis_mask(nest: Nest, c: Coord, origin: Index, extent: Index) -> tuple[ir.Value, int | None]:
    """0 <= origin + coordinate < extent."""
    builder = nest.builders[c.level]
    at = index.add(builder, origin, c.base)
    if c.pattern is None:
        return builder.icmp_unsigned("<", as_value(at), as_value(extent)), None
    top = max(c.pattern) + 1
    scalar = ir.IntType(8) if top <= 64 else I64
    limits = []
    for bound in (index.sub(builder, 0, at), index.sub(builder, extent, at)):
        limit = as_value(index.maximum(builder, index.minimum(builder, bound, top), 0))
        limits.append(lanes.splat(builder, builder.trunc(limit, scalar) if scalar != I64 else limit, len(c.pattern)))
    pattern = lanes.integers(scalar, c.pattern)
    low = builder.icmp_unsigned(">=", pattern, limits[0])
    return builder.and_(low, builder.icmp_unsigned("<", pattern, limits[1])), len(c.pattern)


def load_elements(
    state: State, builder: ir.IRBuilder, dtype: DType, at: LaneAddresses, mask: ir.Value | None, padding: float
) -> ir.Value:
    """The elements at ``at`` in register form; ``padding`` where ``mask`` is false."""
    item, emitter = storage_bytes(dtype), state.emitter(builder, at.lanes)
    stored = storage_type(dtype, at.lanes)
    if at.lanes is None:
        address = at.address
        if mask is not None:
            address = builder.select(mask, address, builder.ptrtoint(state.scratch, I64))
        value = builder.load(builder.inttoptr(address, lanes.POINTER), align=item, typ=stored)
    elif at.step == 1:
        pointer = builder.inttoptr(at.address, lanes.POINTER)
        if mask is None:
            value = builder.load(pointer, align=item, typ=stored)
        else:
            value = lanes.masked_load(builder, pointer, mask, ir.Constant(stored, None), item)
    elif (at.step or at.window) and mask is None:
        window = at.window or tuple(range(0, at.lanes * at.step, at.step))
        value = lanes.load_window(builder, at.address, stored, window, item)
    elif at.runs and mask is None:
        value = lanes.load_runs(builder, at.runs, stored, item)
    else:
        value = lanes.gather(builder, at.pointers(builder, item), mask, ir.Constant(stored, None), item)
    register = emitter.to_register(dtype, value)
    if mask is None or (at.lanes is not None and padding == 0 and not _signed_zero(dtype, padding)):
        return register
    return builder.select(mask, register, emitter.constant(dtype, padding))


def _signed_zero(dtype: DType, padding: float) -> bool:
    return dtype.is_floating and str(padding).startswith("-")


def store_elements(
    state: State,
    builder: ir.IRBuilder,
    dtype: DType,
    at: LaneAddresses,
    mask: ir.Value | None,
    register: ir.Value,
    *,
    streaming: bool = False,
) -> None:
    """Store elements in register form at ``at`` where ``mask``; with ``streaming``, aligned vectors past the caches."""
    item = storage_bytes(dtype)
    value = state.emitter(builder, at.lanes).to_storage(dtype, register)
    if at.lanes is None:
        address = at.address
        if mask is not None:
            address = builder.select(mask, address, builder.ptrtoint(state.scratch, I64))
        builder.store(value, builder.inttoptr(address, lanes.POINTER), align=item)
    elif at.step == 1:
        pointer = builder.inttoptr(at.address, lanes.POINTER)
        if mask is None and streaming:
            lanes.streaming_store(builder, value, pointer, at.lanes * item)
        elif mask is None:
            builder.store(value, pointer, align=item)
        else:
            lanes.masked_store(builder, value, pointer, mask, item)
    elif at.step:
        lanes.strided_store(builder, value, at.address, at.step, item, mask)
    elif at.runs and mask is None:
        lanes.store_runs(builder, value, at.runs, item)
    else:
        lanes.scatter(builder, value, at.pointers(builder, item), mask, item)
