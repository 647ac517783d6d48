"""Polls: generated code looks whether its launch is cancelled between blocks and at the back edges of loops.

A poll costs two loads and a branch that is never taken. Loops that do little are polled once in many iterations, those
that end soon not at all. After some work, by estimate, a poll also looks at the clock, and in the launching thread
lets Python run the handlers of signals: what one raises cancels the launch.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.analysis.trip_counts import constant_trip_count
from tilewright.backends.cpu.codegen import lanes, records
from tilewright.backends.cpu.codegen.drivers import BUDGET, called_driver
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.context import Field, Worker
from tilewright.backends.cpu.loops.groups import op_work
from tilewright.backends.vector.types import I64
from tilewright.ir.core import Block
from tilewright.ir.ops.control import For, Loop

# In operations on elements, as ``BUDGET``.
_TOGETHER = 1 << 13  # iterations of a loop that do so much are polled together
_NOT_WORTH = 1 << 16  # loops that do less in all are not polled
WAITING = 1 << 12  # an iteration of a waiting loop, which lets other threads run


def work(block: Block) -> int:
    """About how much one execution of ``block`` does, apart from its loops that are polled themselves."""
    total = 0
    for op in block.ops:
        if isinstance(op, For):
            total += _whole_work(op) or 0
        elif not isinstance(op, Loop):
            total += op_work(op) + sum(map(work, op.regions))
    return total


def is_polled(op: For) -> bool:
    """Whether the loop may take long."""
    return _whole_work(op) is None


def _whole_work(op: For) -> int | None:
    """About how much the loop does in all; None for one that may take long. Bodies are looked at once: loops nest."""
    trips, each = constant_trip_count(op), work(op.body)
    return None if trips is None or trips * max(each, 1) > _NOT_WORTH else trips * each


def stride(op: For, most: int) -> int:
    """How many iterations of a loop to do between two polls, at most ``most``."""
    return max(1, min(most, _TOGETHER // max(work(op.body), 1)))


def emit_poll(
    builder: ir.IRBuilder, record: tuple[ir.Value, ir.Value], block: ir.Value, number: int, weight: int, leave: ir.Block
) -> None:
    """Go to ``leave`` if the launch is cancelled. ``record`` has the addresses of the records of launch and worker,
    ``number`` says which poll it is, and ``weight`` is the work since the one before."""
    context, worker = record
    cancelled = builder.load_atomic(records.at(builder, context, Field.CANCELLED), "monotonic", 8, typ=I64)
    budget = records.at(builder, worker, Worker.BUDGET)
    left = builder.sub(builder.load(budget, typ=I64), ir.Constant(I64, min(weight, BUDGET)))
    builder.store(left, budget)
    zero = ir.Constant(I64, 0)
    looks = builder.or_(builder.icmp_signed("<", left, zero), builder.icmp_unsigned("!=", cancelled, zero))
    attend, onwards = (builder.append_basic_block(n) for n in ("attend", "polled"))
    builder.cbranch(looks, attend, onwards).set_weights([1, 4000])
    builder.position_at_end(attend)
    stops = builder.call(called_driver("attend"), [context, worker, block, ir.Constant(I64, number)])
    builder.cbranch(stops, leave, onwards)
    builder.position_at_end(onwards)


def emit_wait(builder: ir.IRBuilder, worker: ir.Value, block: ir.Value, number: int, *, advances: bool) -> None:
    """An iteration of a loop that waits for another thread: note that, and let others run. One that ``advances`` has
    not waited where it has changed memory (``waiting_loops.advances``)."""
    waited, seen = records.at(builder, worker, Worker.WAITED), records.at(builder, worker, Worker.SEEN)
    one, progress = ir.Constant(I64, 1), records.load(builder, worker, Worker.PROGRESS)
    first = ir.Constant(I64, 0 if advances else 1)
    changed = builder.icmp_unsigned("!=", progress, builder.load(seen, typ=I64))
    builder.store(progress, seen)
    count = builder.select(changed, first, builder.add(builder.load(waited, typ=I64), one))
    records.store(builder, block, worker, Worker.BLOCK)
    records.store(builder, ir.Constant(I64, number), worker, Worker.WAITS_AT)
    lanes.store_atomic(builder, count, waited, "release", 8)
    builder.call(called_driver("wait"), [count])


def emit_waited(builder: ir.IRBuilder, worker: ir.Value) -> None:
    """The end of such a loop, or of a block that may have one."""
    note_progress(builder, worker, ir.Constant(I64, 1))
    _store_waited(builder, worker, 0)


def note_store(state: State, builder: ir.IRBuilder) -> None:
    """Count a store, which another block may wait for."""
    if state.waits:
        note_progress(builder, state.worker, ir.Constant(I64, 1))


def note_change(state: State, builder: ir.IRBuilder, before: ir.Value, after: ir.Value) -> None:
    """Count that an element of memory, of these bits, has become another one, if it has."""
    if state.waits:
        changed = builder.icmp_unsigned("!=", before, after)
        note_progress(builder, state.worker, builder.zext(changed, I64))


def note_progress(builder: ir.IRBuilder, worker: ir.Value, count: ir.Value) -> None:
    """Count changes that another block may wait for."""
    progress = records.at(builder, worker, Worker.PROGRESS)
    lanes.store_atomic(builder, builder.add(builder.load(progress, typ=I64), count), progress, "monotonic", 8)


def _store_waited(builder: ir.IRBuilder, worker: ir.Value, count: int) -> None:
    lanes.store_atomic(builder, ir.Constant(I64, count), records.at(builder, worker, Worker.WAITED), "release", 8)
