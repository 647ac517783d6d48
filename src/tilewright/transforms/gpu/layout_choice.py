"""Which layout each tile of a kernel has: coalesced at accesses to global memory, and carried on from there."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from tilewright.analysis.gpu.contiguity import Contiguity
from tilewright.analysis.gpu.layout_conversion import is_transposed
from tilewright.analysis.gpu.warps import state_shapes
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import chained_mmas, is_factor
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import DType, float8_e4m3fn, float8_e5m2, float16, float32, tfloat32
from tilewright.ir.layouts import LANE, LANES, REGISTER, WARP, LinearLayout, log2
from tilewright.ir.opdef import Effect
from tilewright.ir.ops import memory
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import CONTROL_FLOW, Break, Continue, If, Loop, LoopOp, Yield
from tilewright.ir.ops.gpu import mma
from tilewright.ir.ops.gpu.tma import can_part, swizzle_of
from tilewright.ir.ops.gpu.wgmma import (
    GROUP_WARPS,
    INTERLEAVED,
    ROWS,
    Interleave,
    LoadFetched,
    StageOperand,
    Wgmma,
    left_layout,
    wgmma_layout,
)
from tilewright.ir.ops.linear import Mma, Reduce, Scan
from tilewright.ir.ops.shape import Cat, Extract, Insert, Permute, Reshape
from tilewright.ir.reachable import reachable
from tilewright.ir.types import SharedType, TileType
from tilewright.transforms.gpu.mma_loops import is_by_element, readers, turns_from
from tilewright.transforms.gpu.operand_layouts import layout_before
from tilewright.transforms.gpu.used_beside import longer_axes, used_beside

VECTOR_BYTES = 16  # the widest access of a thread
_FEW_REGISTERS = 8  # of a thread
_LEAST_ROWS, _LEAST_COLUMNS = 16, 8  # of a product of float32 for tensor cores: those of an instruction
_WORD = 4  # bytes
_VECTOR_ELEMENTS = 4  # of tiles that no access to memory has a say in
_Shape = tuple[int, ...]


def widest_access(op: memory.PointerMemoryOp, contiguity: Contiguity) -> tuple[tuple[int, ...], int]:
    """The axes of what ``op`` accesses, those with the longest runs in memory first, and how many elements along the
    first one a thread can access at once."""
    t, runs, size = op.ptrs.tile, contiguity.runs(op.ptrs), op.ptrs.tile.pointee.bytes
    order = tuple(sorted(range(t.rank), key=lambda k: (-runs.contiguity[k], -k)))
    fastest = order[0]
    vector = min(runs.contiguity[fastest], max(runs.alignment[fastest] // size, 1), max(VECTOR_BYTES // size, 1))
    return order, vector if op.mask is None else min(vector, contiguity.runs(op.mask).constancy[fastest])


class AccessLayouts:
    """For each tile shape the layout in which the accesses to global memory of that shape are coalesced.

    One for all accesses of a shape, so that what is loaded, computed and stored needs no conversion: the axis that is
    contiguous in most bytes goes fastest over the threads, each with as many elements as the widest access takes.
    Loads of nothing but operands of MMA ops, which are converted anyway, have layouts of their own.
    """

    def __init__(self, function: Function, cores: TensorCores) -> None:
        self.cores, self.warps = cores, cores.warps
        self._function = function
        self._votes: dict[_Shape, dict[tuple[int, ...], int]] = {}
        self._vectors: dict[tuple[_Shape, int], int] = {}
        self._layouts: dict[_Shape, LinearLayout] = {}
        self._own: dict[Op, LinearLayout] = {}
        self._beside: dict[Op, tuple[Op, _Shape, int]] = {}
        self._across = _turned(function)
        self._reduced = {_along(op.values[0].tile.shape, op.axis) for op in function.ops_of(Reduce)}
        self._states = set() if function.ops_of((Mma, Wgmma)) else state_shapes(function)
        accesses = [op for op in function.ops_of(memory.PointerMemoryOp) if op.ptrs.tile.rank]
        for op in accesses:
            self._vote(op)
        if not function.ops_of(LoopOp):
            self._fit(filter(_writes, accesses), min)
        elif not function.ops_of((Mma, Wgmma)):
            self._fit(filter(self._is_copied, accesses), max)

    @functools.cached_property
    def contiguity(self) -> Contiguity:
        """What is known of addresses, which not all functions have."""
        return AnalysisManager(self._function).get(Contiguity)

    def _vote(self, op: memory.PointerMemoryOp) -> None:
        t, size = op.ptrs.tile, op.ptrs.tile.pointee.bytes
        order, vector = widest_access(op, self.contiguity)
        fastest = order[0]
        if isinstance(op, memory.Load) and is_factor(op.result):
            self._own[op] = blocked(t.shape, order, vector, self.warps)
            return
        if isinstance(op, memory.Load) and (beside := self._used_beside(op)) is not None:
            if isinstance(beside[0], memory.Load) or beside[0].spec.elementwise:
                self._beside[op] = beside  # whose layout is known when all have voted
            elif (layout := self._as_used(op, *beside)) is not None:
                self._own[op] = layout
                return
        votes = self._votes.setdefault(t.shape, {})
        votes[order] = votes.get(order, 0) + t.size * size
        key = t.shape, fastest
        self._vectors[key] = max(self._vectors.get(key, 1), vector)

    def _used_beside(self, op: memory.Load) -> tuple[Op, _Shape, int] | None:
        """See ``used_beside``, of what ``op`` loads in each step of a loop."""
        return used_beside(op.result, self._states) if isinstance(op.parent, LoopOp) else None

    def of(self, op: memory.PointerMemoryOp) -> LinearLayout:
        """The layout in which ``op`` accesses memory."""
        if isinstance(op, memory.Load) and op in self._beside:
            self._own[op] = self._as_used(op, *self._beside.pop(op)) or self.layout(op.ptrs.tile.shape)
        return self._own.get(op) or self.layout(op.ptrs.tile.shape or (1,))

    def _as_used(self, op: memory.Load, other: Op, shape: _Shape, axis: int) -> LinearLayout | None:
        """How threads hold what ``op`` loads where they have what ``other`` makes, in that ``shape``, if that are few
        elements. Several load the same ones, and none waits for another one."""
        if isinstance(other, memory.Load):
            home = self.of(other)
        elif isinstance(other, LoadFetched):
            home = fetched_layout(other, self.warps)
        elif isinstance(other, Mma):
            home = self.cores.home(other)
        elif isinstance(other, Wgmma):
            home = other.sum_layout(self.warps)
            if longer_axes(home.shape) != longer_axes(shape):
                home = left_layout(other.x.tile.shape, self.warps)
        else:
            home = self.layout(shape)
        found = home.reshape(shape).shrink(axis).reshape(op.result.tile.shape)
        few = min(found.num_registers, found.num_registers * op.result.tile.element.bytes // _WORD)
        return found if few <= _FEW_REGISTERS else None

    def _fit(self, accesses: Iterable[memory.PointerMemoryOp], chosen: Callable[[Iterable[int]], int]) -> None:
        """No more elements of a thread side by side than the ``chosen`` one of these ``accesses`` takes. Stores of a
        warp would have gaps, which what is loaded of them has in the cache; what is copied ahead goes past that, and
        halves of sectors would be fetched twice."""
        widest: dict[_Shape, list[int]] = {}
        for op in accesses:
            widest.setdefault(longer_axes(op.ptrs.tile.shape), []).append(widest_access(op, self.contiguity)[1])
        for key, vector in self._vectors.items():
            if (found := widest.get(longer_axes(key[0]))) is not None:
                self._vectors[key] = min(vector, chosen(found))

    def _is_copied(self, op: memory.PointerMemoryOp) -> bool:
        """Whether a loop loads what may be copied ahead, 16 bytes at once."""
        looped = isinstance(op, memory.Load) and isinstance(op.parent, LoopOp)
        return looped and widest_access(op, self.contiguity)[1] * op.ptrs.tile.pointee.bytes == VECTOR_BYTES

    def keep(self, shape: _Shape, layout: LinearLayout) -> bool:
        """Have tiles of ``shape`` in ``layout``. Whether that is news."""
        if self._layouts.get(shape) == layout:
            return False
        self._layouts[shape] = layout
        return True

    def layout(self, shape: _Shape) -> LinearLayout:
        """The layout of tiles of ``shape``, of rank 1 or more."""
        if shape not in self._layouts:
            votes = self._votes.get(shape)
            row_major = tuple(reversed(range(len(shape))))
            order = max(votes, key=lambda o: votes[o]) if votes else row_major
            vector = self._vectors.get((shape, order[0]), _VECTOR_ELEMENTS if votes is None else 1)
            axis, lines = self._across.get(shape, (order[0], 1))
            if shape in self._states:
                axis, lines = order[1], max(math.prod(shape) // (LANES * self.warps * vector), 1)
            across = {} if axis == order[0] else {axis: lines}
            reduced = _along(shape, order[0]) in self._reduced
            self._layouts[shape] = blocked(shape, order, vector, self.warps, across, rows_apart=reduced)
        return self._layouts[shape]


def _writes(op: memory.PointerMemoryOp) -> bool:
    return bool(op.spec.effect & Effect.WRITE)


def _along(shape: _Shape, axis: int) -> tuple[_Shape, _Shape]:
    """An axis of a shape, without those of one element."""
    return longer_axes(shape), longer_axes(shape[axis:])


def _turned(function: Function) -> dict[_Shape, tuple[int, int]]:
    """For shapes of tiles whose rows become columns, or were columns, the other axis, and how many lines along it fill
    a word of 32 bits: a thread has as many, and brings words to others rather than single elements."""
    found = {}
    for op in function.ops_of(Permute):
        source, target = (_inner(t.shape) for t in (op.x.tile, op.result.tile))
        lines = 1 if op.x.tile.is_pointer else _WORD // op.x.tile.element.bytes
        if lines > 1 and op.axes[target] != source:
            found[op.x.tile.shape] = op.axes[target], lines
            found[op.result.tile.shape] = op.axes.index(source), lines
    return found


def _inner(shape: _Shape) -> int:
    """The last axis with several elements."""
    return max((k for k, n in enumerate(shape) if n > 1), default=len(shape) - 1)


def blocked(
    shape: _Shape,
    order: Sequence[int],
    vector: int,
    warps: int,
    across: Mapping[int, int] = MappingProxyType({}),
    *,
    rows_apart: bool = False,
) -> LinearLayout:
    """``vector`` elements of a thread side by side along ``order[0]``, and ``across`` other axes; threads along
    ``order``, and so on around. With ``rows_apart`` warps have rows along that axis for themselves, of several rows.

    Fewer elements where the threads would not have as many.
    """
    size = 1
    for n in shape:
        size *= n
    room = max(size // (LANES * warps), 1)
    if vector == 1 and max(shape) == size >= LANES * warps:
        return _warp_by_warp(shape, warps)
    left = [1] * len(shape)
    for axis, lines in across.items():
        left[axis] = min(lines, room, shape[axis])
        room //= left[axis]
    left[order[0]] = min(vector, room, shape[order[0]])
    lanes, warp = [1] * len(shape), [1] * len(shape)
    along = (*order[1:], order[0]) if rows_apart else order
    for extents, count, axes in ((lanes, LANES, order), (warp, warps, along)):
        for axis in axes:
            free = max(shape[axis] // (left[axis] * lanes[axis] * warp[axis]), 1)
            extents[axis] = min(free, count)
            count //= extents[axis]
        extents[order[-1]] *= count  # more threads than elements
    return LinearLayout.blocked(shape, left, lanes, warp, order)


def _warp_by_warp(shape: _Shape, warps: int) -> LinearLayout:
    """For each warp a part of the line that the tile is, with elements of its lanes side by side: where accesses begin
    anywhere, two that follow each other share a sector of memory, which one warp has in the cache then."""
    units = [tuple(1 << bit if n > 1 else 0 for n in shape) for bit in range(log2(max(shape)))]
    lanes, own = log2(LANES), len(units) - log2(warps)
    return LinearLayout.of(shape, {REGISTER: units[lanes:own], LANE: units[:lanes], WARP: units[own:]})


def stored_by_rows(home: LinearLayout) -> LinearLayout | None:
    """The layout in which a warp stores its part of an accumulator in ``home`` row by row, each lane an element: where
    no more are side by side in memory, lanes would leave gaps otherwise. None for other layouts.

    Registers alone choose between the parts of as many columns as there are lanes.
    """
    column = home.rank - 1
    units = [tuple(1 << bit if k == column else 0 for k in range(home.rank)) for bit in range(log2(home.shape[column]))]
    own, lanes = home.images(REGISTER), home.images(LANE)
    if [*own[:1], *lanes[:2]] != units[:3] or not can_part(home, column, LANES):
        return None
    rows = [image for image in (*own, *lanes) if image not in units]
    bits = log2(LANES)
    bases = {REGISTER: [*rows, *units[bits:]], LANE: units[:bits], WARP: home.images(WARP)}
    return LinearLayout.of(home.shape, bases)


def fetched_layout(op: LoadFetched, warps: int) -> LinearLayout:
    """The layout in which threads load a tile from where it was fetched to: that of sums to which it is added, or of
    left operands that are computed of it in registers, which is the same, or that are seen transposed; or in which they
    convert it."""
    converted = readers(op.buffer)
    turns = {mma.x: turns_from(op.result, mma.x) for mma in converted}
    turned = next((x for x, ways in turns.items() if True in ways), None)
    if turned is not None:
        return left_layout(turned.tile.shape, warps, turned.tile.element.bytes).permute((1, 0))
    left = any(turns.values())
    if not converted or left or _meets_accumulator(op.result):
        return wgmma_layout(op.type.shape, warps)
    lefts = [mma.x for mma in converted if isinstance(mma.x.type, TileType)]
    packed = (layout_before(x, left_layout(x.tile.shape, warps), op) for x in lefts)
    return next((layout for layout in packed if layout is not None), None) or _converted_layout(op, warps)


def _made_of(x: Value) -> Iterator[Value]:
    """What is made of ``x``, element by element."""
    return reachable([x], lambda v: [r for u in v.users if is_by_element(u) for r in u.results])


def _meets_accumulator(x: Value) -> bool:
    """Whether what is made of ``x``, element by element, is combined with what is made of an accumulator."""
    users = {u for v in _made_of(x) for u in v.users if u.spec.elementwise and len(u.operands) > 1}
    given = [v for u in users for v in u.operands]
    beside = reachable(given, lambda v: v.op.operands if v.op is not None and is_by_element(v.op) else ())
    return any(isinstance(v.op, Wgmma) for v in beside)


def _converted_layout(op: LoadFetched, warps: int) -> LinearLayout:
    """The layout of what threads convert, and put back: 16 bytes of a row at once; where rows are to lie side by side
    afterwards, as instructions transpose matrices of them."""
    assert isinstance(op.buffer.type, SharedType)
    found = swizzle_of(op.buffer.type)
    inner = 1 if found is None else found[0]
    (n, d), users = op.result.tile.shape, list(op.result.users)
    while len(users) == 1 and isinstance(users[0], Reshape):
        users = list(users[0].result.users)
    interleaved = any(isinstance(user, Interleave) for user in users)
    size = op.result.tile.element.bytes
    if inner == size == 1 and all(isinstance(user, Cast) and user.dtype.bytes == 2 for user in users):
        return blocked((n, d), (1, 0), VECTOR_BYTES // 2, warps)  # as they are stored again
    if inner == 1 and (interleaved or (size == 1 and min(n, d) >= INTERLEAVED)):
        # ``ldmatrix`` gives a lane two bytes of two rows, and transposes them in pairs: with those of the next rows, or
        # of those that ``Interleave`` puts beside them, they are words to store by ``stmatrix``.
        rows = [1 << i for i in range(log2(INTERLEAVED))]
        one, next_, *others = ((Interleave.source(row) if interleaved else row, 0) for row in rows)
        left = [
            *((0, INTERLEAVED << i) for i in range(log2(d // INTERLEAVED))),
            *((INTERLEAVED << i, 0) for i in range(log2(n // INTERLEAVED))),
        ]
        lanes = [*others, *((0, 2 << i) for i in range(log2(INTERLEAVED // 2)))]
        own = max(len(left) - log2(warps), 0)
        left += [(0, 0)] * (log2(warps) - len(left))  # more warps than matrices
        return LinearLayout.of((n, d), {REGISTER: [(0, 1), one, next_, *left[:own]], LANE: lanes, WARP: left[own:]})
    if inner == 1 and size == 4 and n >= LANES and d >= INTERLEAVED:
        # A thread transposes four rows of four. Those of a quarter of a warp are apart in both directions by as much as
        # the swizzles of rows and columns need to keep them out of the same banks.
        lanes = [(8, 4), (16, 8), (4, 0), (8, 0), (16, 0)]
        left = [(0, INTERLEAVED << i) for i in range(log2(d // INTERLEAVED))]
        left += [(LANES << i, 0) for i in range(log2(n // LANES))]
        own = max(len(left) - log2(warps), 0)
        left += [(0, 0)] * (log2(warps) - len(left))
        registers = [(0, 1), (0, 2), (1, 0), (2, 0), *left[:own]]
        return LinearLayout.of((n, d), {REGISTER: registers, LANE: lanes, WARP: left[own:]})
    return blocked(op.result.tile.shape, (inner, 1 - inner), VECTOR_BYTES // size, warps)


def along_axis(shape: _Shape, axis: int, warps: int, *, fewest: int = 0) -> LinearLayout:
    """A layout in which each line along ``axis`` lies in one warp: runs in registers, these side by side over lanes.
    Warps that no line is left for have a part of one while runs are longer than ``fewest``, if that is given."""
    order = (axis, *(k for k in reversed(range(len(shape))) if k != axis))
    lanes, extents, runs = [1] * len(shape), [1] * len(shape), [1] * len(shape)
    lanes[axis] = min(shape[axis], LANES)
    runs[axis] = shape[axis] // lanes[axis]
    left = LANES // lanes[axis]
    for k in order[1:]:
        lanes[k] = min(shape[k], left)
        left //= lanes[k]
    lanes[axis] *= left
    count = warps
    for k in order[1:]:
        extents[k] = min(shape[k] // lanes[k], count)
        count //= extents[k]
    while fewest and count > 1 and runs[axis] > fewest:
        runs[axis], extents[axis], count = runs[axis] // 2, extents[axis] * 2, count // 2
    extents[order[-1]] *= count
    return LinearLayout.blocked(shape, runs, lanes, extents, order)


@dataclass(frozen=True)
class TensorCores:
    """What multiplies in a CTA of so many ``warps``; whether ``fp8`` operands as they are, and ``f32`` ones as sums of
    two of tfloat32. ``chained`` has, by block, the MMA ops that keep whole rows in a warp."""

    warps: int
    fp8: bool = False
    f32: bool = False
    chained: dict[Block, set[Op | None]] = field(default_factory=dict, compare=False)

    def dtype(self, op: Mma) -> DType:
        """What ``op`` multiplies its operands as: 8-bit floats as float16, which has all their values, where the
        architecture does not multiply them, or fewer along k than its instruction."""
        dtype, k = op.x.tile.element, op.x.tile.shape[-1]
        if dtype not in (float8_e4m3fn, float8_e5m2):
            return dtype
        return dtype if self.fp8 and mma.instruction_for(dtype, k) != mma.FMA else float16

    def instruction(self, op: Mma) -> mma.Instruction:
        """The instruction that multiplies the operands of ``op``, converted to ``dtype``."""
        dtype, k, shape = self.dtype(op), op.x.tile.shape[-1], op.acc.tile.shape
        large = shape[-2] >= _LEAST_ROWS and shape[-1] >= _LEAST_COLUMNS
        return mma.instruction_for(tfloat32 if self.f32 and dtype is float32 and large else dtype, k)

    def home(self, op: Mma) -> LinearLayout:
        """The layout of the accumulator of ``op``."""
        instruction, shape = self.instruction(op), op.acc.tile.shape
        if instruction == mma.FMA:
            return mma.fma_accumulator_layout(shape, self.warps)
        assert op.block is not None
        if op.block not in self.chained:
            self.chained[op.block] = chained_mmas(op.block)
        return mma.accumulator_layout(instruction, shape, self.warps, by_rows=op in self.chained[op.block])


_LIKE_OPERAND = (memory.AssumeBlocked, memory.AssumeBounded, memory.AssumeDivisible, Scan)


class Homes:
    """The layout that each tile is computed in, its *home*; None for tiles that are recomputed wherever they are used.

    Loads have the layout of their accesses; elementwise ops, scans, permutations, reshapes and reductions that of
    their operands; loops and branches that of what they carry. What depends on no such value (indices, pointers,
    masks, constants) and broadcasts have no home.
    """

    def __init__(self, function: Function, accesses: AccessLayouts) -> None:
        self._accesses = accesses
        self._homes: dict[Value, LinearLayout | None] = {}
        while self._visit(function.body, []):
            pass
        self._settle(function)

    def home(self, value: Value) -> LinearLayout | None:
        return self._homes.get(value)

    def of_carried(self, value: Value) -> LinearLayout:
        """The layout of a tile that has to have one."""
        return self._homes.get(value) or self._accesses.layout(value.tile.shape)

    def _set(self, value: Value, layout: LinearLayout | None) -> bool:
        """Whether that is news."""
        if layout is None or not isinstance(value.type, TileType) or not value.type.rank:
            return False
        if self._homes.get(value) is not None:
            return False
        self._homes[value] = layout
        return True

    def _visit(self, block: Block, enclosing: list[Op]) -> bool:
        changed = False
        for op in block.ops:
            if isinstance(op, LoopOp):
                for arg, init in zip(op.carried, op.inits):
                    changed |= self._set(arg, self._of_accumulator(op, arg) or self.home(init))
            if op.regions and isinstance(op, CONTROL_FLOW):
                for region in op.regions:
                    changed |= self._visit(region, [*enclosing, op])
            if op.spec.terminator:
                for target, source in self._passed(op, enclosing):
                    changed |= self._set(target, self.home(source))
            for value in op.results:
                if isinstance(value.type, TileType) and value.type.rank and value not in self._homes:
                    changed |= self._set(value, self._rule(op, value))
        return changed

    def _of_accumulator(self, loop: LoopOp, arg: Value) -> LinearLayout | None:
        """The layout that an MMA op gives what ``loop`` carries as ``arg``: what is loaded before is converted once."""
        end = loop.body.terminator
        following = end.values[list(loop.carried).index(arg)] if isinstance(end, Continue) else arg
        return self._rule(following.op, following) if isinstance(following.op, (Mma, Wgmma)) else None

    @staticmethod
    def _passed(op: Op, enclosing: list[Op]) -> Iterator[tuple[Value, Value]]:
        """What a terminator hands on, and to where."""
        if isinstance(op, Yield) and enclosing and isinstance(enclosing[-1], If):
            yield from zip(enclosing[-1].results, op.operands)
        elif isinstance(op, (Continue, Break)):
            loop = next(o for o in reversed(enclosing) if isinstance(o, LoopOp))
            if isinstance(op, Break):
                yield from zip(loop.results, op.operands)
            else:
                yield from zip(loop.carried, op.operands)
                if not isinstance(loop, Loop):
                    yield from zip(loop.results, op.operands)

    def _rule(self, op: Op, value: Value) -> LinearLayout | None:
        if op.spec.elementwise or isinstance(op, _LIKE_OPERAND):
            homes = [h for v in op.operands if (h := self.home(v)) is not None]
            if isinstance(op, Scan) and not homes:
                return self._accesses.layout(value.tile.shape)
            # One in which no element is held twice, rather than what a reduction left.
            return next((h for h in homes if h.is_injective), homes[0] if homes else None)
        if isinstance(op, Reduce):
            return self.of_carried(op.values[0]).slice(op.axis)
        if isinstance(op, Reshape):
            home = self.home(op.x)
            return home.reshape(op.shape) if home is not None else None
        if isinstance(op, Permute):
            home = self.home(op.x)
            return None if home is None else self._as_sums(op, home) or home.permute(op.axes)
        if isinstance(op, Mma):
            return self._accesses.cores.home(op)
        if isinstance(op, Wgmma):
            return op.sum_layout(self._accesses.warps)
        if isinstance(op, memory.Load):
            return self._accesses.of(op)
        if isinstance(op, LoadFetched):
            return fetched_layout(op, self._accesses.warps)
        if isinstance(op, Interleave):
            if op.axis == 1:
                return left_layout(value.tile.shape, self._accesses.warps, value.tile.element.bytes)
            home = self.home(op.x)
            return None if home is None else home.reshape(op.split).permute(op.order).reshape(value.tile.shape)
        if isinstance(op, (memory.AtomicRmw, memory.AtomicCas, Extract, Insert, Cat)):
            return self._accesses.layout(value.tile.shape)
        return None

    def _as_sums(self, op: Permute, home: LinearLayout) -> LinearLayout | None:
        """The layout of sums for what ``op`` transposes, if warp groups multiply it or what is made of their sums meets
        it, and instructions transpose matrices of 16 bits; else None."""
        t, warps = op.result.tile, self._accesses.warps
        wide = t.rank == 2 and warps % GROUP_WARPS == t.shape[0] % (ROWS * warps // GROUP_WARPS) == 0
        users = [u for v in _made_of(op.result) for u in v.users if isinstance(u, StageOperand)]
        staged = any(u.type.dtype.bytes > t.element.bytes for u in users)  # not read across k
        if t.is_pointer or t.element.bytes != 2 or not wide or not (staged or _meets_accumulator(op.result)):
            return None
        found = wgmma_layout(t.shape, warps)
        return found if is_transposed(home, found.permute([op.axes.index(k) for k in range(2)]), 2) else None

    def _settle(self, function: Function) -> None:
        """Carried tiles without a home get that of accesses; so do the loops and branches that give them."""
        for op in function.ops_of(CONTROL_FLOW):
            for value in (*op.results, *(a for r in op.regions for a in r.args)):
                if isinstance(value.type, TileType) and value.type.rank:
                    self._set(value, self._accesses.layout(value.type.shape))
            if isinstance(op, LoopOp) and not isinstance(op, Loop):
                for arg, result in zip(op.carried, op.results):
                    if (home := self.home(arg)) is not None:
                        self._homes[result] = home
