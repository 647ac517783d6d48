"""Rows that blocks reduce are brought to the L2 cache by those that have their place on an SM before them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.gpu.target import THREAD_REGISTERS
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import int32, int64
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_stage import num_warps
from tilewright.ir.ops.arith import Add, And, Cast, Cmp, Max, Min
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.ops.gpu.exit import Exit
from tilewright.ir.ops.gpu.memory import MAX_VECTOR_BYTES, GlobalLoad, Prefetch
from tilewright.ir.ops.gpu.tiles import ConvertLayout, Splat, ThreadReduce
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.memory import Bid, NumBlocks
from tilewright.ir.ops.shape import Iota, PtrOffset, constant_of
from tilewright.ir.rewrite import ValueMap, clone_op
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.load_ahead import made_by, pure_slice
from tilewright.transforms.gpu.prefetch_loads import ctas_of_sm, registers_of

_MANY = 128  # registers of a thread: the assembler gives kernels that need more as many as there are


@dataclass(frozen=True)
class PrefetchRows(InPlacePass):
    """Has each block ask for what the one will load that comes to its SM when it has ended, in kernels whose blocks
    load rows and reduce them twice: where few have room at a time, memory would be idle while these compute. On an H200
    rows that are reduced once gain 3 % with 4,096 and 16,384 columns of 16 bits, and lose 4 % with 8,192. Where CTAs
    have parts of rows, which wait for each other, each asks for the same part of a later row, also if that is reduced
    once: RMS norm of 65,536 columns has 4,001 GB/s and 3,572 without, layer norm 3,565 and 2,953 (one H200).

    For loads outside of loops, of elements side by side from a multiple of 16 bytes on, which follow from the number of
    the block along the first axis. Runs when loads are where they stay.
    """

    name: ClassVar[str] = "prefetch-rows"
    sms: int = 132  # of an H100 and an H200; with fewer, rows are there earlier than they have to be
    ahead: int = 64 << 10  # bytes for an SM: of more, much has left the cache before it is read (H200)
    most_ctas: int = 8  # on an SM: of more, enough load while others compute

    def change(self, function: Function) -> bool:
        registers = registers_of(function.body)
        ctas = ctas_of_sm(THREAD_REGISTERS if registers > _MANY else registers, num_warps(function))
        straight = not function.ops_of((MmaOp, LoopOp, Exit))  # the other block comes to its load
        if not straight or not 0 < ctas <= self.most_ctas:
            return False
        reduced = Counter(op.values[0].tile.size for op in function.ops_of(ThreadReduce))
        parts = max(map(_parts, function.ops_of(And)), default=1)
        distance = -(-ctas * self.sms // parts) * parts
        least = 2 if parts == 1 else 1
        rows = [row for row in _rows(function) if reduced[row.load.result.tile.size] >= least]
        most = self.ahead // ctas
        if ctas > 1 and sum(row.load.result.tile.bytes for row in rows) > most:
            return False  # what is left of the rows would be slower
        for row in rows:
            _prefetch(row, distance, most // len(rows), alone=ctas == 1)
        return bool(rows)


@dataclass(frozen=True)
class _Row:
    """A load of ``count`` elements (None: of all) from ``base`` on, or from ``offset`` behind it, where all
    ``conditions`` hold, and the ops by which these follow from the ``number`` of the block."""

    load: GlobalLoad
    base: Value
    offset: Value | None
    conditions: Sequence[Value]
    count: Value | None
    number: Value
    slice: Sequence[Op]


def _parts(op: Op) -> int:
    """Among how many CTAs a row is divided, where ``op`` says which of its parts one has."""
    mask = constant_of(op.rhs) if isinstance(op, And) and isinstance(op.lhs.op, Bid) else None
    return mask + 1 if isinstance(mask, int) and mask & (mask + 1) == 0 else 1


def _rows(function: Function) -> Iterator[_Row]:
    made = made_by(function.body.ops)
    number = next((v for v, op in made.items() if isinstance(op, Bid) and op.axis == 0), None)
    for load in function.body.ops:
        parts = _places(load) if isinstance(load, GlobalLoad) else None
        if number is None or parts is None:
            continue
        base, offset, conditions, count = parts
        moved = {number}
        needed = pure_slice([v for v in (base, offset, *conditions, count) if v is not None], made) or ()
        for op in needed:
            if not moved.isdisjoint(op.operands) and _parts(op) == 1:  # else it has this part of each row
                moved.update(op.results)
        if base in moved or offset in moved:
            assert isinstance(load, GlobalLoad)
            following = [op for op in needed if not moved.isdisjoint(op.operands)]
            yield _Row(load, base, offset, conditions, count, number, following)


def _places(load: GlobalLoad) -> tuple[Value, Value | None, Sequence[Value], Value | None] | None:
    """The first address of ``load``, as one and an offset, the conditions in its mask, and how many elements that lets
    pass; None where they are not side by side."""
    ptrs, t = load.ptrs.op, load.ptrs.tile
    wide = load.vector * t.pointee.bytes == MAX_VECTOR_BYTES and max(t.shape) == t.size
    if not wide or not load.is_weak or not isinstance(ptrs, PtrOffset):
        return None
    first, offsets, start = ptrs.ptr.op, ptrs.offset, None
    if isinstance(offsets.op, Add) and isinstance(offsets.op.lhs.op, Splat):
        start, offsets = offsets.op.lhs.op.x, offsets.op.rhs
    if not isinstance(first, Splat) or not _are_places(offsets):
        return None
    conditions: list[Value] = []
    counts: list[Value] = []
    pending = [] if load.mask is None else [load.mask]
    while pending:
        op = pending.pop().op
        if isinstance(op, And):
            pending += op.operands
        elif isinstance(op, Splat):
            conditions.append(op.x)
        elif isinstance(op, Cmp) and op.predicate is CmpPredicate.GE and constant_of(op.rhs) == 0:
            if not _are_places(op.lhs):
                return None
        elif isinstance(op, Cmp) and _are_places(op.lhs) and isinstance(op.rhs.op, Splat):
            if op.predicate is not CmpPredicate.LT:
                return None
            counts.append(op.rhs.op.x)
        else:
            return None
    return None if len(counts) > 1 else (first.x, start, conditions, counts[0] if counts else None)


def _are_places(offsets: Value) -> bool:
    """Whether ``offsets`` count the elements of a tile."""
    op = offsets.op
    return isinstance(op.x.op if isinstance(op, Cast) and op.dtype is int64 else op, Iota)


def _when_loaded(load: GlobalLoad, *, alone: bool) -> Op:
    """The op before which what ``load`` loads has been waited for, as warps exchange what they made of it: a prefetch
    before would be served before loads of other blocks. At once, if the block is ``alone`` on an SM: on an H200 softmax
    of 8,192 columns of bfloat16 has 3,906 GB/s at once and 4,121 later, of 32,768 3,466 and 3,396."""
    assert load.block is not None
    following = load.block.ops[load.block.ops.index(load) + 1 :]
    waits = (i for i, op in enumerate(following) if isinstance(op, ConvertLayout) and not alone)
    return following[next(waits, -1) + 1]


def _prefetch(row: _Row, distance: int, most_bytes: int, *, alone: bool) -> None:
    """Prefetch up to ``most_bytes`` of the row of the block at this ``distance``, of as many as SMs have at a time."""
    load, t = row.load, row.load.ptrs.tile
    b = Builder.before(_when_loaded(load, alone=alone))
    following = b.emit(Add, row.number, b.constant(distance, int32))
    values: ValueMap = {row.number: following}
    for op in row.slice:
        b.insert(clone_op(op, values))
    mask = b.emit(Cmp, following, b.emit(NumBlocks, axis=0), predicate=CmpPredicate.LT)
    for condition in row.conditions:
        mask = b.emit(And, mask, values.get(condition, condition))
    most = min(t.size, most_bytes // t.pointee.bytes)
    if row.count is None:
        count = b.constant(most, int32)
    else:
        given = values.get(row.count, row.count)
        count = b.emit(Min, given, b.constant(most, given.tile.element))
        if given.tile.element is int64:
            count = b.emit(Cast, b.emit(Max, count, b.constant(0, int64)), dtype=int32)
    address = values.get(row.base, row.base)
    if row.offset is not None:
        address = b.emit(PtrOffset, address, values.get(row.offset, row.offset))
    b.emit_op(Prefetch, address, count, mask)
