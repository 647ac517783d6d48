"""Looks at blocks that may wait for each other: whether more of them have to begin, or none can progress."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import lanes, polls, records
from tilewright.backends.cpu.codegen.lanes import POINTER
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.context import ENDED, STUCK, STUCK_ITERATIONS, WAITS, Cancellation, Field, Watch, Worker
from tilewright.backends.vector.types import I1, I64

_ZERO = ir.Constant(I64, 0)


def emit(module: ir.Module, symbol: str) -> None:
    """``i64 symbol(context, watch)``, which the thread that launches calls again and again; ``watch`` is a record as
    ``context.Watch`` describes, of workers that have all begun.

    It returns how many more workers are needed, as all wait and blocks are left that have not begun, or STUCK. Where
    the block has failed that the others may wait for, it cancels the launch.
    """
    function = ir.Function(module, ir.FunctionType(I64, [POINTER, POINTER]), symbol)
    context, watch = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    count = records.load(builder, watch, Watch.COUNT)
    waiting, progress, fewest = _look(builder, watch, count)
    now = polls.clock(builder)
    same = builder.icmp_signed(">", waiting, _ZERO)
    for word, found in ((Watch.WAITING, waiting), (Watch.PROGRESS, progress)):
        same = builder.and_(same, builder.icmp_signed("==", records.load(builder, watch, word), found))
        records.store(builder, found, watch, word)
    with builder.if_then(builder.not_(same)):
        records.store(builder, now, watch, Watch.SINCE)
        nest = Nest(builder)
        record, before = _row(nest, watch, nest.begin(count))
        nest.builder.store(records.load(nest.builder, record, Worker.WAITED), before)
        nest.end()
        builder.ret(_ZERO)
    left = builder.sub(records.load(builder, context, Field.TOTAL), _atomic(builder, context, Field.NEXT))
    with builder.if_then(builder.icmp_signed(">", left, _ZERO)):
        builder.ret(builder.select(builder.icmp_signed("<", left, count), left, count))
    with builder.if_then(builder.icmp_signed("!=", _atomic(builder, context, Field.FAILED), _ZERO)):
        cancelled = records.at(builder, context, Field.CANCELLED)
        lanes.store_atomic(builder, ir.Constant(I64, int(Cancellation.REQUESTED)), cancelled, "monotonic", 8)
        builder.ret(_ZERO)
    unchanged = builder.sub(now, records.load(builder, watch, Watch.SINCE))
    late = builder.icmp_signed(">=", unchanged, records.load(builder, watch, Watch.PATIENCE))
    stuck = builder.and_(late, builder.icmp_signed(">=", fewest, ir.Constant(I64, STUCK_ITERATIONS)))
    builder.ret(builder.select(stuck, ir.Constant(I64, STUCK), _ZERO))


def _look(builder: ir.IRBuilder, watch: ir.Value, count: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """How many workers wait, 0 where another one that is left does not; what all have changed; and the fewest
    iterations that one of them has waited since memory changed."""
    nest = Nest(builder)
    worker = nest.begin(count)
    all_wait, waiting, progress, fewest = (
        nest.carry(ir.Constant(type_, init)) for type_, init in ((I1, 1), (I64, 0), (I64, 0), (I64, (1 << 63) - 1))
    )
    inner = nest.builder
    record, before = _row(nest, watch, worker)
    waited = _atomic(inner, record, Worker.WAITED)
    waits = inner.icmp_signed(">=", waited, ir.Constant(I64, WAITS))
    ended = inner.icmp_signed("==", waited, ir.Constant(I64, ENDED))
    since = inner.sub(waited, inner.load(before, typ=I64))
    fewer = inner.and_(waits, inner.icmp_signed("<", since, fewest))
    found = (
        inner.and_(all_wait, inner.or_(waits, ended)),
        inner.add(waiting, inner.zext(waits, I64)),
        inner.add(progress, _atomic(inner, record, Worker.PROGRESS)),
        inner.select(fewer, since, fewest),
    )
    nest.end(found)
    return builder.select(found[0], found[1], _ZERO), found[2], found[3]


def _row(nest: Nest, watch: ir.Value, worker: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The record of a worker, and the address of how long it had waited."""
    builder = nest.builder
    row = builder.add(builder.mul(worker, ir.Constant(I64, 2)), ir.Constant(I64, len(Watch)))
    address, before = (builder.gep(watch, [builder.add(row, ir.Constant(I64, k))], source_etype=I64) for k in range(2))
    return builder.inttoptr(builder.load(address, typ=I64), POINTER), before


def _atomic(builder: ir.IRBuilder, record: ir.Value, word: Field | Worker) -> ir.Value:
    """A word that other threads change."""
    return builder.load_atomic(records.at(builder, record, word), "acquire", 8, typ=I64)
