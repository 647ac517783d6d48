"""Polls: generated code looks whether its launch is cancelled between blocks and at the back edges of loops.

A poll costs two loads and a branch that is never taken. Loops that do little are polled once in many iterations, those
that end soon not at all. After some work, by estimate, a poll also looks at the clock, and in the launching thread
lets Python run the handlers of signals: what one raises cancels the launch.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.analysis.trip_counts import constant_trip_count
from tilewright.backends.cpu.codegen import lanes, records
from tilewright.backends.cpu.codegen.lanes import POINTER
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.context import BETWEEN_BLOCKS, ENDED, Cancellation, Field, Python, Worker
from tilewright.backends.cpu.loops.groups import op_work
from tilewright.backends.external import call_external, defined_once
from tilewright.backends.vector.types import I1, I8, I32, I64
from tilewright.ir.core import Block
from tilewright.ir.ops.control import For, Loop

# In operations on elements, as ``block_work`` counts them: one takes 0.05 to 20 ns. Signals are to end a launch within
# 0.2 s (``benchmarks/soak.py interrupts`` prints how long they wait): with 20 ns, a budget and what is polled together
# take 21 ms and 0.2 ms, and what is not polled 1.3 ms.
BUDGET = 1 << 20  # between two looks at the clock
_TOGETHER = 1 << 13  # iterations of a loop that do so much are polled together
_NOT_WORTH = 1 << 16  # loops that do less in all are not polled
WAITING = 1 << 12  # an iteration of a waiting loop, which lets other threads run
_LOOK_NS = 20_000_000  # signals wait so long at most, besides a budget
_UPTIME_RAW, _MONOTONIC = 8, 1  # clocks that ``time.monotonic_ns`` reads, on macOS and elsewhere
_SPINS = 1 << 12  # looks at threads that are about to end, before waiting lets others run: a few microseconds
_PATIENT = 256  # a loop that has waited for so many iterations sleeps between them, longer and longer
_SHORTEST_NAP_US, _LONGER_US, _LONGEST_NAP_US = 50, 2, 2000


def work(block: Block) -> int:
    """About how much one execution of ``block`` does, apart from its loops that are polled themselves."""
    total = 0
    for op in block.ops:
        if isinstance(op, For):
            total += 0 if is_polled(op) else (constant_trip_count(op) or 0) * work(op.body)
        elif not isinstance(op, Loop):
            total += op_work(op) + sum(map(work, op.regions))
    return total


def is_polled(op: For) -> bool:
    """Whether the loop may take long."""
    trips = constant_trip_count(op)
    return trips is None or trips * max(work(op.body), 1) > _NOT_WORTH


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
    stops = builder.call(_attend(builder.module), [context, worker, block, ir.Constant(I64, number)])
    builder.cbranch(stops, leave, onwards)
    builder.position_at_end(onwards)


def enter(builder: ir.IRBuilder, context: ir.Value, worker: ir.Value, *, python: bool) -> None:
    """Begin as a worker of a launch; with ``python``, in the thread that launches, which has Python's lock."""
    fresh = {Worker.BUDGET: BUDGET, Worker.POLL: 0, Worker.STATE: 0, Worker.LOOK: 0, Worker.WAITED: 0}
    for which, value in fresh.items():
        records.store(builder, ir.Constant(I64, value), worker, which)
    if python:
        table = records.load(builder, context, Field.PYTHON)
        with builder.if_then(builder.icmp_unsigned("!=", table, ir.Constant(I64, 0))):
            _save_thread(builder, table, worker)


def leave(builder: ir.IRBuilder, context: ir.Value, worker: ir.Value, *, python: bool) -> None:
    """End what ``enter`` began."""
    _store_waited(builder, worker, ENDED)
    if python:
        table = records.load(builder, context, Field.PYTHON)
        with builder.if_then(builder.icmp_unsigned("!=", table, ir.Constant(I64, 0))):
            _restore_thread(builder, table, worker)


def emit_wait_for_zero(builder: ir.IRBuilder, record: tuple[ir.Value, ir.Value], counter: ir.Value) -> None:
    """Wait until ``counter`` is 0, and meanwhile let Python handle signals, as ``emit_poll`` does."""
    context, worker = record
    wait, busy, done = (builder.append_basic_block(n) for n in ("wait", "busy", "joined"))
    zero, before = ir.Constant(I64, 0), builder.block
    poll = records.load(builder, worker, Worker.POLL)
    builder.branch(wait)
    builder.position_at_end(wait)
    count = builder.phi(I64)
    count.add_incoming(ir.Constant(I64, -_SPINS), before)
    left = builder.load_atomic(counter, "acquire", 8, typ=I64)
    builder.cbranch(builder.icmp_unsigned("==", left, zero), done, busy)
    builder.position_at_end(busy)
    with builder.if_then(builder.icmp_signed(">=", count, zero)):
        builder.call(_wait(builder.module), [count])
        builder.call(_attend(builder.module), [context, worker, zero, ir.Constant(I64, BETWEEN_BLOCKS)])
    count.add_incoming(builder.add(count, ir.Constant(I64, 1)), builder.block)
    builder.branch(wait)
    builder.position_at_end(done)
    records.store(builder, poll, worker, Worker.POLL)  # no block of this thread has been cancelled here


def emit_wait(builder: ir.IRBuilder, worker: ir.Value, block: ir.Value, number: int) -> None:
    """An iteration of a loop that waits for another thread: note that, and let others run."""
    waited, seen = records.at(builder, worker, Worker.WAITED), records.at(builder, worker, Worker.SEEN)
    one, progress = ir.Constant(I64, 1), records.load(builder, worker, Worker.PROGRESS)
    changed = builder.icmp_unsigned("!=", progress, builder.load(seen, typ=I64))
    builder.store(progress, seen)
    count = builder.select(changed, one, builder.add(builder.load(waited, typ=I64), one))
    records.store(builder, block, worker, Worker.BLOCK)
    records.store(builder, ir.Constant(I64, number), worker, Worker.WAITS_AT)
    lanes.store_atomic(builder, count, waited, "release", 8)
    builder.call(_wait(builder.module), [count])


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


def _function(builder: ir.IRBuilder, table: ir.Value, which: Python, result: ir.Type, *parameters: ir.Type) -> ir.Value:
    """A function of Python, from the address of the table."""
    slot = builder.inttoptr(builder.add(table, ir.Constant(I64, 8 * which)), POINTER)
    return builder.inttoptr(builder.load(slot, typ=I64), ir.PointerType(ir.FunctionType(result, parameters)))


def _save_thread(builder: ir.IRBuilder, table: ir.Value, worker: ir.Value) -> None:
    state = builder.call(_function(builder, table, Python.SAVE_THREAD, I64), [])
    records.store(builder, state, worker, Worker.STATE)


def _restore_thread(builder: ir.IRBuilder, table: ir.Value, worker: ir.Value) -> None:
    state = records.load(builder, worker, Worker.STATE)
    builder.call(_function(builder, table, Python.RESTORE_THREAD, ir.VoidType(), I64), [state])


def _attend(module: ir.Module) -> ir.Function:
    """``attend(context, worker, block, number)``: what a poll does that finds its budget used up or the launch
    cancelled. Whether to stop."""
    type_ = ir.FunctionType(I1, [POINTER, POINTER, I64, I64])
    return defined_once(module, "attend", type_, ("noinline", "cold", "nounwind"), _emit_attend)


def _emit_attend(function: ir.Function) -> None:
    context, worker, block, number = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    onwards, stop = (function.append_basic_block(n) for n in ("onwards", "stop"))
    zero = ir.Constant(I64, 0)
    cancelled = records.at(builder, context, Field.CANCELLED)

    def go_on_if(condition: ir.Value, otherwise: ir.Block = onwards) -> None:
        following = function.append_basic_block()
        builder.cbranch(condition, following, otherwise)
        builder.position_at_end(following)

    before = builder.load_atomic(cancelled, "monotonic", 8, typ=I64)
    go_on_if(builder.icmp_unsigned("==", before, zero), stop)
    records.store(builder, ir.Constant(I64, BUDGET), worker, Worker.BUDGET)
    state = records.load(builder, worker, Worker.STATE)
    deadline = records.load(builder, context, Field.DEADLINE)
    go_on_if(builder.icmp_unsigned("!=", builder.or_(state, deadline), zero))
    now = clock(builder)
    late = builder.and_(builder.icmp_unsigned("!=", deadline, zero), builder.icmp_unsigned(">=", now, deadline))
    with builder.if_then(late, likely=False):
        late_code = ir.Constant(I64, int(Cancellation.TIMED_OUT))
        builder.cmpxchg(cancelled, zero, late_code, "monotonic", "monotonic")
        builder.branch(stop)
        builder.position_at_end(function.append_basic_block("unreached"))
    go_on_if(builder.icmp_unsigned("!=", state, zero))
    look = records.at(builder, worker, Worker.LOOK)
    when = builder.load(look, typ=I64)
    with builder.if_then(builder.icmp_unsigned("==", when, zero)):
        builder.store(builder.add(now, ir.Constant(I64, _LOOK_NS)), look)
        builder.branch(onwards)
        builder.position_at_end(function.append_basic_block("unreached"))
    go_on_if(builder.icmp_unsigned(">=", now, when))
    table = records.load(builder, context, Field.PYTHON)
    _restore_thread(builder, table, worker)
    said = builder.call(_function(builder, table, Python.CHECK_SIGNALS, I32), [])
    _save_thread(builder, table, worker)
    builder.store(builder.add(clock(builder), ir.Constant(I64, _LOOK_NS)), look)
    go_on_if(builder.icmp_signed("<", said, ir.Constant(I32, 0)))
    lanes.store_atomic(builder, ir.Constant(I64, int(Cancellation.RAISED)), cancelled, "monotonic", 8)
    builder.branch(stop)

    builder.position_at_end(onwards)
    builder.ret(ir.Constant(I1, 0))
    builder.position_at_end(stop)
    poll = records.at(builder, worker, Worker.POLL)
    with builder.if_then(builder.icmp_unsigned("==", builder.load(poll, typ=I64), zero)):
        builder.store(number, poll)
        records.store(builder, block, worker, Worker.BLOCK)
    builder.ret(ir.Constant(I1, 1))


def emit_note_time(builder: ir.IRBuilder, worker: ir.Value, field: Worker) -> None:
    """Store what time it is in the record of the worker."""
    builder.store(clock(builder), records.at(builder, worker, field))


def clock(builder: ir.IRBuilder) -> ir.Value:
    """The nanoseconds of the monotonic clock, that of ``time.monotonic_ns``."""
    triple = str(builder.module.triple)
    if "windows" in triple:
        ticks = call_external(builder, "GetTickCount64", I64, [])
        return builder.mul(ticks, ir.Constant(I64, 1_000_000))
    time = builder.alloca(I64, 2)
    which = _UPTIME_RAW if "apple" in triple else _MONOTONIC
    call_external(builder, "clock_gettime", I32, [ir.Constant(I32, which), time], [I32, POINTER])
    seconds = builder.load(time, typ=I64)
    nanoseconds = builder.load(builder.gep(time, [ir.Constant(I64, 8)], source_etype=I8), typ=I64)
    return builder.add(builder.mul(seconds, ir.Constant(I64, 1_000_000_000)), nanoseconds)


def _wait(module: ir.Module) -> ir.Function:
    """``wait(count)``: let other threads run, after some iterations for longer."""
    return defined_once(module, "wait", ir.FunctionType(ir.VoidType(), [I64]), ("noinline",), _emit_wait)


def _emit_wait(function: ir.Function) -> None:
    module = function.module
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    windows = "windows" in str(module.triple)
    naps = builder.sub(function.args[0], ir.Constant(I64, _PATIENT))
    with builder.if_else(builder.icmp_signed(">", naps, ir.Constant(I64, 0))) as (sleeps, yields):
        with sleeps:
            longer = builder.mul(naps, ir.Constant(I64, _LONGER_US))
            nap = builder.add(builder.trunc(longer, I32), ir.Constant(I32, _SHORTEST_NAP_US))
            longest = ir.Constant(I32, _LONGEST_NAP_US)
            nap = builder.select(builder.icmp_signed("<", longer, ir.Constant(I64, _LONGEST_NAP_US)), nap, longest)
            nap = ir.Constant(I32, 1) if windows else nap
            call_external(builder, "Sleep" if windows else "usleep", I32, [nap])
        with yields:
            call_external(builder, "SwitchToThread" if windows else "sched_yield", I32, [])
    builder.ret_void()
