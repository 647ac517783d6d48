"""MMA ops of warp groups on GPUs that have tensor memory for accumulators (tcgen05)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tilewright.analysis.gpu.tensor_memory import TensorMemoryPlan, place_accumulators
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.gpu_stage import num_warps
from tilewright.ir.opdef import create
from tilewright.ir.ops.arith import Add, Sub
from tilewright.ir.ops.control import For, If, Loop, PassingOp, Return
from tilewright.ir.ops.gpu.barriers import MbarrierInit, barriers_type
from tilewright.ir.ops.gpu.memory import SharedAlloc
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tensor_memory import (
    ADDRESS_TYPE,
    SLOTS,
    Tcgen05Mma,
    Tcgen05Wait,
    TensorAlloc,
    TensorFree,
    TensorLoad,
    TensorStore,
)
from tilewright.ir.ops.gpu.tma import ParameterMap
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, Wgmma, WgmmaWait
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.rewrite import Rewriter
from tilewright.ir.types import I32


class AccumulateInTensorMemory:
    """Puts ``gpu.tcgen05_mma`` in the place of ``gpu.wgmma``: sums are in tensor memory from the first MMA op that adds
    to them to the first op that needs them in registers.

    MMA ops are numbered, and the number goes with control flow: so they stay in flight as they did.
    Runs when it is known which MMA ops are in flight where, and before shared memory is assigned, of which the
    barriers take some. OutOfTensorMemory where the sums that are live at the same time do not fit.
    """

    name: ClassVar[str] = "accumulate-in-tensor-memory"

    def run(self, function: Function) -> Function:
        if not function.ops_of(Wgmma):
            return function
        plan = AnalysisManager(function).get(place_accumulators)
        return _Accumulator(function, plan).function(function)


class _Accumulator(Rewriter):
    def __init__(self, function: Function, plan: TensorMemoryPlan) -> None:
        super().__init__()
        self.plan = plan
        self.groups = num_warps(function) // GROUP_WARPS
        roles = next(iter(function.ops_of(WarpSpecialize)), None)
        self.home = function.body if roles is None else roles.consumer  # where tensor memory is allocated
        self.inside = {p for op in function.ops_of(Wgmma) for p in op.ancestors if not isinstance(p, WarpSpecialize)}
        self.buffer: Value | None = None  # that takes the address
        self.barriers: Value | None = None
        self.number: Value | None = None  # of the next MMA op
        self.base: Value | None = None
        self.addresses: dict[int, Value] = {}  # by columns

    # -- what all MMA ops share

    def block(self, block: Block, values: dict[Value, Value]) -> Block:
        made = Block()
        for arg in block.args:
            values[arg] = made.add_arg(arg.type, arg.name)
        builder = Builder(made, block.ops[0].loc)
        self._ops(block, builder)
        return made

    def _ops(self, block: Block, b: Builder) -> None:
        rest = list(block.ops)
        while block.parent is None and isinstance(rest[0], ParameterMap):
            self.insert(rest.pop(0), b)
        if block.parent is None:
            self.buffer = b.emit(SharedAlloc, type=ADDRESS_TYPE)
            self.barriers = b.emit(SharedAlloc, type=barriers_type(SLOTS * self.groups))
            b.emit_op(MbarrierInit, self.barriers, count=1)
        if block is self.home:
            self.base = b.emit(TensorAlloc, self.buffer, columns=self.plan.count)
            self.number = b.constant(0, int32)
            for column in sorted(set(self.plan.columns.values())):
                address = b.emit(Add, self.base, b.constant(column, int32)) if column else self.base
                self.addresses[column] = address
        for op in rest:
            ends = isinstance(op, Return) if self.home.parent is None else op is self.home.terminator
            if ends:
                b.emit_op(TensorFree, self.base, columns=self.plan.count)
            self.insert(op, b)

    def insert(self, op: Op, builder: Builder) -> None:
        builder.loc = op.loc
        if isinstance(op, Wgmma):
            self._mma(op, builder)
        elif isinstance(op, WgmmaWait):
            self._wait(op.pending, builder)
            for result in op.results:
                self._give(result, builder)
        elif isinstance(op, (For, Loop)) and op in self.inside:
            self._loop(op, builder)
        elif isinstance(op, If) and op in self.inside:
            self._branch(op, builder)
        elif isinstance(op, PassingOp) and (target := op.target) in self.inside:
            stay = self.plan.carries(target) if isinstance(target, For) else [False] * len(op.values)
            kept = [v for v, stays in zip(op.values, stay) if not stays]
            builder.emit_op(type(op), [*self.all(kept), self.number])
        else:
            super().insert(op, builder)

    # -- MMA ops

    def _mma(self, op: Wgmma, b: Builder) -> None:
        address, adds = self.addresses[self.plan.columns[op.result]], True
        if not self.plan.stays(op.acc):
            adds = constant_of(op.acc) != 0
            if adds:
                b.emit_op(TensorStore, address, self.value(op.acc))
        x, y = self.all([op.x, op.y])
        dtype = op.acc.tile.element
        b.emit_op(Tcgen05Mma, x, y, address, self.barriers, self.number, dtype=dtype, adds=adds)
        self.number = b.emit(Add, self.number, b.constant(1, int32))
        if op.pending is not None:
            self._wait(op.pending, b)
        self._give(op.result, b)

    def _wait(self, pending: int, b: Builder) -> None:
        """Wait until no more than ``pending`` MMA ops are in flight: for the one before these."""
        last = b.emit(Sub, self.number, b.constant(min(pending, SLOTS - 1) + 1, int32))
        b.emit_op(Tcgen05Wait, self.barriers, last)

    def _give(self, value: Value, b: Builder) -> None:
        """Load ``value``, unless it stays where it is."""
        if not self.plan.stays(value) and value.users:
            address = self.addresses[self.plan.columns[value]]
            self.values[value] = b.emit(TensorLoad, address, type=value.tile)

    # -- control flow

    def _loop(self, op: For | Loop, b: Builder) -> None:
        stay = self.plan.carries(op) if isinstance(op, For) else [False] * len(op.inits)
        for init, carried, stays in zip(op.inits, op.carried, stay):
            if stays and not self.plan.stays(init):
                b.emit_op(TensorStore, self.addresses[self.plan.columns[carried]], self.value(init))
        inits = [self.value(v) for v, stays in zip(op.inits, stay) if not stays]
        body = Block()
        gone = {v for v, stays in zip(op.carried, stay) if stays}
        for arg in op.body.args:
            if arg not in gone:
                self.values[arg] = body.add_arg(arg.type, arg.name)
        before, self.number = self.number, body.add_arg(I32)
        self._ops(op.body, Builder(body, op.loc))
        bounds = self.all(op.bounds) if isinstance(op, For) else []
        keywords: dict[str, Any] = {"body": body}
        if isinstance(op, Loop):
            keywords["types"] = (*op.types, I32)
        made = create(type(op), [*bounds, [*inits, before]], keywords, op.loc)
        b.block.append(made)
        self._results(op, made, stay if isinstance(op, For) else [False] * len(op.results))

    def _branch(self, op: If, b: Builder) -> None:
        before, regions = self.number, []
        for region in (op.then, op.orelse):
            self.number, made = before, Block()
            self._ops(region, Builder(made, op.loc))
            regions.append(made)
        keywords = {"types": (*op.types, I32), "then": regions[0], "orelse": regions[1]}
        found = create(If, [self.value(op.condition)], keywords, op.loc)
        b.block.append(found)
        self._results(op, found, [False] * len(op.results))

    def _results(self, op: Op, made: Op, stay: Sequence[bool]) -> None:
        kept = [v for v, stays in zip(op.results, stay) if not stays]
        for old, new in zip(kept, made.results):
            new.name = old.name
            self.values[old] = new
        self.number = made.results[-1]
