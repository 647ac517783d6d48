"""Software pipelining: operands of MMA ops, and tiles of loops that few CTAs run, are copied to shared memory ahead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import are_independent, gathered_for, mma_ops
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_stage import DEEPER, NUM_STAGES, num_warps
from tilewright.ir.layouts import WARP, LinearLayout
from tilewright.ir.ops.arith import Add, Cast, Cmp, Mul
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.gpu import memory
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tiles import ConvertLayout
from tilewright.ir.ops.gpu.tma import SWIZZLED_ALIGNMENT, AsyncFence
from tilewright.ir.ops.gpu.wgmma import StageOperand, Wgmma, WgmmaWait
from tilewright.ir.rewrite import Rewriter, ValueMap, open_block, replace_ops, stand_for
from tilewright.ir.types import SharedType, TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.fetch_rings import next_slot
from tilewright.transforms.gpu.load_ahead import AheadLoad, loads_ahead, stores
from tilewright.transforms.gpu.operand_loads import (
    OperandLoad,
    Path,
    after,
    can_be_copied,
    copied_rows,
    is_zero,
    numbers_for,
    operand_loads,
)
from tilewright.transforms.gpu.prefetch_loads import ctas_of_sm, iterations_ahead, registers_of

STAGES = 3  # of loops whose loads run ahead, unless one asks for another number
# Of loops with up to three MMA ops, of which one needs what another one gives, as in attention: they hide as much of a
# load as these wait for each other. For sm_80, on an H200, 1.00 to 1.06 of three stages.
_CHAINED_STAGES, _FEW_MMAS, _TALL = 2, 3, 64  # of fewer rows several CTAs share an SM
# Bytes of an iteration, of which three do not keep the memory busy where few blocks run, up to so many on an SM; more
# of them do so together: benchmarks/results/gpu_products.md.
_LITTLE, _FEW_BLOCKS = 8192, 4
# Of what goes through registers: addresses in shared memory that change are not kept through a loop (f16 in 64x64x64,
# code for sm_80: 128 registers of a thread, and 158 with one copy).
_STORED_STAGES = 2
_ALONE = 128  # registers of a thread for accumulators, with which eight warps have more than half of those of an SM
# Of loops without MMA ops: bytes of all stages, with three and with two; and bytes that an SM should have under way,
# where so few CTAs have less so: on an H200 sums of 8,192 rows by 8 CTAs run at twice the speed of three stages.
_THREE, _TWO = 48 << 10, 64 << 10
_ROOM, _ENOUGH = 200 << 10, 4  # bytes of an SM, and stages with those that registers leave it the CTAs for
# Up to so many CTAs have their loads ahead for each other's sake, too, where what is read has to be padded: on an H200
# softmax of 8,192 columns of float32 in loops, with four CTAs, has 3,704 GB/s without and 3,500 with copies ahead, of
# 32,768 of bfloat16, with one, 2,494 and 3,530.
_PAIR = 2
_UNDER_WAY, _MOST_STAGES, _FEW_CTAS = 96 << 10, 16, range(1, 9)


@dataclass(frozen=True)
class PipelineLoads(InPlacePass):
    """Copies what a loop loads for its MMA ops asynchronously, ``stages`` - 1 iterations ahead, and what one without
    loads where the grid puts no more than so many ``blocks`` on an SM (0: many), which wait for memory otherwise.

    A load takes part whose elements only become operands (so they would go through shared memory anyway), whose
    addresses follow from the induction variable, and which reads what the loop does not store. What ``cp.async`` cannot
    copy, as of rows that begin anywhere, threads store to such buffers. There are fewer stages
    where ``budget`` bytes of shared memory have no room for all, and the loop stays as it is if there is none for two.
    What threads load for ``gpu.wgmma`` of a loop, or convert (``gpu.stage_operand``), has as many copies as that says.
    It is copied when the MMA op of the iteration has begun, and that of the one before has ended, whose copy is free
    then; what they convert is not.
    Runs before conversions are lowered: it takes the place of those of the operands.
    """

    name: ClassVar[str] = "pipeline-loads"
    stages: int | None = None  # three, or six where an iteration loads little
    budget: int = 96 * 1024  # leaves room for two CTAs on an SM of 227 KiB, and for what the rest of a kernel needs
    blocks: int = 0
    rounds: bool = False  # whether one instruction rounds to tfloat32

    def change(self, function: Function) -> bool:
        changed = _copy_gathered(function)
        alias = AnalysisManager(function).get(AliasAnalysis)
        loops = {op: loads for op in function.ops_of(For) if (loads := operand_loads(op, alias, self.rounds))}
        staged = {op: (found, stages) for op, found in loops.items() if (stages := self._stages(op, found)) >= 2}
        rows = {} if self.stages else {op: _Rows.of(op, loads) for op, loads in _row_loads(function).items()}
        staged |= {op: ([*x.loads], n) for op, x in rows.items() if (n := x.stages(self.blocks)) > 1}
        deeper = tuple(_deeper_rows(rows, n) for n in _FEW_CTAS)
        if not any(deeper) and not self.stages and any(_is_shallow(op, x) for op, x in loops.items()):
            deeper = (2 * STAGES,) * _FEW_BLOCKS
        if any(deeper) and not self.blocks:
            function.hints[DEEPER] = deeper
            changed = True
        if staged:
            function.hints[NUM_STAGES] = max(stages for _, stages in staged.values())
        return replace_ops(function, staged, _pipelined) or changed

    def _stages(self, loop: For, loads: Sequence[OperandLoad]) -> int:
        found = any(x.ahead.numbers for x in loads)
        budget = self.budget * (2 if found or _is_alone(loop) else 1)
        loaded = max(sum(x.type.bytes for x in loads), 1)
        mmas = mma_ops(loop)
        tall = min((op.acc.tile.shape[-2] for op in mmas), default=0) >= _TALL
        chained = tall and not found and len(mmas) <= _FEW_MMAS and not are_independent([mmas])
        little = 2 * STAGES if self.blocks or not _is_product(loop) else min(2 * STAGES, STAGES * _LITTLE // loaded)
        suitable = _CHAINED_STAGES if chained else little if loaded <= _LITTLE else STAGES
        if not any(x.copied for x in loads):
            suitable = _STORED_STAGES
        return min(self.stages or suitable, budget // loaded)


def _is_product(loop: For) -> bool:
    """Whether ``loop`` has one MMA op, of 16 bits."""
    elements = [op.x.tile.element for op in mma_ops(loop)]
    return len(elements) == 1 and elements[0].bytes == 2


def _is_shallow(loop: For, loads: Sequence[OperandLoad]) -> bool:
    """Whether ``loop`` has more stages where few CTAs run, that load little each."""
    return _is_product(loop) and _LITTLE < 2 * sum(x.type.bytes for x in loads) <= 2 * _LITTLE


def _pipelined(rewriter: Rewriter, op: For, how: tuple[list[OperandLoad], int], b: Builder) -> Sequence[Value]:
    loads, stages = how
    return _Loop(rewriter, op, loads, stages, stages - 1, b).emit()


def _copy_gathered(function: Function) -> bool:
    """Put what threads load for the MMA ops of warp groups into rings, and what they compute it from; whether they load
    anything."""
    found: dict[Op, list[_StagedLoad | OperandLoad]] = {}
    for op in function.ops_of(StageOperand):
        if op.is_in_ring:
            assert isinstance(op.parent, For)
            loads = found.setdefault(op.parent, [])
            loads.append(_StagedLoad(op, _copied(op.value.op, op.parent, op.type.layout)))
            ahead = (_copied(load, op.parent) for load in gathered_for(op))
            loads += [load for load in copied_rows(x for x in ahead if x is not None) if load not in loads]

    def emit(rewriter: Rewriter, op: For, loads: Sequence[_StagedLoad | OperandLoad], b: Builder) -> Sequence[Value]:
        copies = min(load.stage.copies for load in loads if isinstance(load, _StagedLoad))
        return _Loop(rewriter, op, loads, copies, copies - 1, b).emit()

    return replace_ops(function, found, emit)


def _copied(load: Op | None, loop: For, to: LinearLayout | None = None) -> AheadLoad | None:
    """What ``load`` loads in an iteration of ``loop``, if it can be copied ahead, where it lies as ``to`` says; None
    where the loop stores."""
    if not isinstance(load, memory.GlobalLoad) or load.block is not loop.body or not can_be_copied(load):
        return None
    if stores(loop) or (to is not None and not memory.is_vector(to, load.ptrs.layout, load.vector)):
        return None
    return AheadLoad.of(load, loop.body, numbers_for(load, loop.body.ops))


def _is_alone(loop: For) -> bool:
    """Whether the accumulators of ``loop`` take so many registers that an SM holds one CTA, which may have all its
    memory."""
    layouts = [op.acc.tile.layout for op in loop.body.ops if isinstance(op, GpuMma)]
    accumulators = sum(layout.num_registers for layout in layouts if layout is not None)
    return accumulators >= _ALONE


class _Rows(NamedTuple):
    """Loads of a loop without MMA ops, and for how many CTAs an SM has room with that."""

    loads: Sequence[OperandLoad]
    bytes: int
    ctas: int

    @classmethod
    def of(cls, loop: For, loads: Sequence[OperandLoad]) -> _Rows:
        ctas = ctas_of_sm(registers_of(loop.body), max(x.source.size(WARP) for x in loads))
        return cls(loads, sum(x.type.bytes for x in loads), max(ctas, 1))

    def stages(self, blocks: int) -> int:
        """How many stages the loop has, if an SM has so many ``blocks`` (0: many)."""
        few = min(_UNDER_WAY // (blocks * self.bytes), _MOST_STAGES) if blocks else 0
        if min(self.ctas, blocks or self.ctas) > _PAIR and not all(is_zero(x.op.padding) for x in self.loads):
            return 1
        if 3 * self.bytes <= _THREE:
            return max(few, 3)
        return max(few, min(_ROOM // (self.ctas * self.bytes), _ENOUGH), 2 if 2 * self.bytes <= _TWO else 1)


def _deeper_rows(rows: Mapping[For, _Rows], blocks: int) -> int:
    """The stages that loops with these loads have with so many ``blocks`` on an SM; 0 if no more than with many."""
    return max((n for x in rows.values() if (n := x.stages(blocks)) > x.stages(0)), default=0)


def _row_loads(function: Function) -> dict[For, list[OperandLoad]]:
    """The loads that can be copied ahead of the loops of a kernel without MMA ops, unless registers have room for them
    several iterations ahead."""
    if function.ops_of((GpuMma, Wgmma, memory.AsyncCopy)):
        return {}
    alias = AnalysisManager(function).get(AliasAnalysis)
    found = {}
    for loop in function.ops_of(For):
        ahead = loads_ahead(loop, alias)
        loads = copied_rows(ahead)
        if loads and iterations_ahead(loop, ahead, num_warps(function)) == 1:
            found[loop] = loads
    return found


def read_copy(op: memory.GlobalLoad, slot: Value, t: TileType, rewriter: Rewriter, b: Builder) -> Value:
    """What ``op`` loads, as a tile of type ``t``, from its copy ``slot``, which has zeros where it is padded."""
    if op.mask is None or is_zero(op.padding):
        return b.emit(memory.SharedLoad, slot, type=t, vector=op.vector)
    assert op.padding is not None
    padding = rewriter.value(op.mask), rewriter.value(op.padding)
    return b.emit(memory.PaddedLoad, slot, *padding, type=t, vector=op.vector)


@dataclass(frozen=True)
class _StagedLoad:
    """A tile that threads load for an MMA op of warp groups; ``ahead``, where it is copied without registers."""

    stage: StageOperand
    ahead: AheadLoad | None

    @property
    def type(self) -> SharedType:
        """How it lies in shared memory."""
        return self.stage.type

    @property
    def uses(self) -> tuple[tuple[Op, Path], ...]:
        return ((self.stage, ()),)


@dataclass
class _Ring:
    """The buffer of a load: as many copies as there are stages."""

    load: OperandLoad | _StagedLoad
    buffer: Value


class _Loop:
    """One pipelined loop, whose loads run ``ahead`` so many iterations, and have ``stages`` copies."""

    def __init__(
        self, outer: Rewriter, op: For, loads: Sequence[OperandLoad | _StagedLoad], stages: int, ahead: int, b: Builder
    ) -> None:
        self.outer = outer
        self.op = op
        self.stages, self.ahead = stages, ahead
        self.b = b
        self.uses: dict[Op, tuple[_Ring, Path]] = {}
        self.copies: list[tuple[AheadLoad, Value]] = []
        self.kept: dict[Op, ValueMap] = {}
        self.gone: set[Op] = set()
        self.stored: dict[Op, _Ring] = {}  # loads to registers
        for load in loads:
            staged = isinstance(load, _StagedLoad)
            t = SharedType(load.type.dtype, load.type.layout, stages)
            alignment = SWIZZLED_ALIGNMENT if staged else memory.SHARED_ALIGNMENT
            ring = _Ring(load, b.emit(memory.SharedAlloc, type=t, alignment=alignment))
            self.uses |= {use: (ring, path) for use, path in load.uses}
            self.gone |= {op for _, path in load.uses for op in path}
            if isinstance(load, OperandLoad) and not load.copied:
                self.stored[load.op] = ring
                continue
            if load.ahead is not None and not load.uses:
                self.uses[load.ahead.op] = ring, ()
            if load.ahead is not None:
                self.copies.append((load.ahead, ring.buffer))
                self.gone.add(load.ahead.op)
        groups = [load for load in loads if isinstance(load, _StagedLoad)]
        self.fences, self.copies_staged = bool(groups), any(load.ahead is not None for load in groups)

    def emit(self) -> Sequence[Value]:
        op, b = self.op, self.b
        lower, upper, step = (self.outer.value(v) for v in op.bounds)
        number = lower.tile.element
        for ahead in range(self.ahead if self.copies else 0):
            at = lower if not ahead else b.emit(Add, lower, b.emit(Mul, step, b.constant(ahead, number)))
            self._copy(at, upper, b.constant(ahead, int32))
        inits = [*self.outer.all(op.inits), b.constant(0, int32), b.constant(self.ahead, int32)]
        values: ValueMap = self.outer.values
        body = open_block(op.body, values)
        reading, writing = (body.add_arg(inits[-1].type) for _ in range(2))
        with b.at(body):
            if self.copies:
                b.emit_op(memory.AsyncWait, pending=self.ahead - 1)
                if self.copies_staged:
                    b.emit_op(AsyncFence)

            def copy() -> None:
                distance = b.emit(Mul, step, b.constant(self.ahead, number))
                self._copy(b.emit(Add, body.args[0], distance), upper, writing)

            self._body(reading, writing, copy if self.copies else None)
        made = b.emit_op(For, lower, upper, step, inits, body=body)
        if self.copies:
            b.emit_op(memory.AsyncWait)
        stand_for(op, made, values)
        return made.results

    def _copy(self, at: Value, upper: Value, slot: Value) -> None:
        """Begin the copies of the iteration ``at``, if there is one, to the slot of that number."""
        b = self.b
        exists = b.emit(Cmp, at, upper, predicate=CmpPredicate.LT)
        numbers: ValueMap = {}
        for load, buffer in self.copies:
            kept = self.kept.setdefault(load.op, {}) if self.fences else None
            pointers, mask, _ = load.at(at, exists, self.outer.values, b, numbers, kept)
            copy = b.emit(memory.SharedCopy, buffer, slot)
            b.emit_op(memory.AsyncCopy, copy, pointers, mask, vector=load.op.vector)
        b.emit_op(memory.AsyncCommit)

    def _body(self, reading: Value, writing: Value, copy: Callable[[], None] | None) -> None:
        """The ops of the loop; operands are read from the slot ``reading``, and ``copy`` begins to fill ``writing``:
        first, or where MMA ops of warp groups are under way."""
        b = self.b
        if copy is not None and not self.fences:
            copy()
        begun = False
        for op in self.op.body.ops:
            b.loc = op.loc
            begun = begun or isinstance(op, Wgmma)
            if begun and self.fences and copy is not None and isinstance(op, (WgmmaWait, Continue)):
                copy()
                copy = None
            if op in self.uses:
                self.outer.values[op.results[0]] = self._operand(op, *self.uses[op], reading)
            elif isinstance(op, Continue):
                following = [next_slot(b, v, self.stages)[0] for v in (reading, writing)]
                b.emit_op(Continue, [*self.outer.all(op.values), *following])
            elif op not in self.gone:
                self.outer.insert(op, b)
                if op in self.stored:
                    self._store(op.results[0], self.stored[op], reading)

    def _store(self, value: Value, ring: _Ring, slot: Value) -> None:
        value, t = self.outer.value(value), ring.load.type
        buffer = self.b.emit(memory.SharedCopy, ring.buffer, slot)
        self.b.emit_op(memory.SharedStore, buffer, value, vector=memory.shared_vector(t, value.layout))

    def _operand(self, op: Op, ring: _Ring, path: Path, reading: Value) -> Value:
        """What stands for the result of ``op``: a tile in registers, or where warp groups read it."""
        b = self.b
        layout = after(path, ring.load.type.layout)
        t = SharedType(ring.load.type.dtype, layout) if path else None
        slot = b.emit(memory.SharedCopy, ring.buffer, reading, type=t)
        if isinstance(op, memory.GlobalLoad):
            return read_copy(op, slot, op.result.tile, self.outer, b)
        if isinstance(op, ConvertLayout):
            found = op.result.tile
            loaded = b.emit(memory.SharedLoad, slot, type=found.with_dtype(ring.load.type.dtype))
            return loaded if loaded.type == found else b.emit(Cast, loaded, dtype=found.element)
        if isinstance(op, StageOperand) and ring.load.ahead is None:
            value = self.outer.value(op.value)
            b.emit_op(memory.SharedStore, slot, value, vector=memory.shared_vector(op.type, value.layout))
            b.emit_op(AsyncFence)
        return slot
