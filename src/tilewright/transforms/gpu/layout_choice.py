"""Which layout each tile of a kernel has: coalesced at accesses to global memory, and carried on from there."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tilewright.analysis.gpu.contiguity import Contiguity
from tilewright.analysis.gpu.warps import state_shapes
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import chained_mmas, is_factor
from tilewright.ir.core import Block, Function, Op
from tilewright.ir.dtypes import DType, float8_e4m3fn, float8_e5m2, float16, float32, tfloat32
from tilewright.ir.layouts import LANE, LANES, REGISTER, WARP, LinearLayout, log2
from tilewright.ir.opdef import Effect
from tilewright.ir.ops import memory
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.ops.gpu import mma
from tilewright.ir.ops.gpu.wgmma import (
    LoadFetched,
    Wgmma,
    left_layout,
)
from tilewright.ir.ops.linear import Mma, Reduce
from tilewright.ir.ops.shape import Permute
from tilewright.transforms.gpu.blocked_layouts import VECTOR_BYTES, blocked
from tilewright.transforms.gpu.fetched_layouts import fetched_layout
from tilewright.transforms.gpu.used_beside import longer_axes, used_beside

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
            singly = vector == 1 and size == 2  # rows of which a thread has several words take fewer addresses so
            self._own[op] = blocked(t.shape, order, vector, self.warps, rows_apart=singly)
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
        if few <= _FEW_REGISTERS:
            return found
        return _over_lanes(found) if isinstance(other, Wgmma) else None

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


def _over_lanes(found: LinearLayout) -> LinearLayout | None:
    """What lanes of each warp have alike in ``found`` divided among them, so that they exchange it without waiting for
    other warps; None where warps have different elements."""
    apart = [b for b in found.bases(LANE) if b]
    first, *others = found.bases(REGISTER)
    moved = log2(LANES) - len(apart)
    if any(found.bases(WARP)) or len(others) < moved:
        return None
    bases = {REGISTER: (first, *others[moved:]), LANE: (*apart, *others[:moved]), WARP: found.bases(WARP)}
    return LinearLayout(found.shape, tuple(bases.items()))


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
