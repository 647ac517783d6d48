"""Loops and branches. What they carry lives in stack variables (scalars) and buffers (tiles)."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.analysis.waiting_loops import advances, may_wait, waits_at
from tilewright.backends.cpu.codegen import lanes, polls
from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.loops.placement import buffer_offset, passed_out
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.backends.vector import register_type
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.ops.loops import CopyBuffer
from tilewright.ir.types import TileType
from tilewright.records import NamedTuple


class CarriedSlot(NamedTuple):
    """Where a value is kept across blocks: a stack variable, or a buffer, which has the value already."""

    variable: ir.Value | None
    buffer: Buffer | None

    @staticmethod
    def of(state: State, t: TileType, passed: Value | None) -> CarriedSlot:
        """A slot for what ``passed`` is an example of; None where nothing is ever passed."""
        if t.size == 1:
            return CarriedSlot(state.slot(register_type(t.dtype)), None)
        offset = 0 if passed is None else buffer_offset(passed)
        return CarriedSlot(None, state.buffer(offset, t.dtype, t.size))

    def bind(self, state: State, value: Value) -> None:
        """Bind ``value`` to the content."""
        variable = self.variable
        load = state.builder.load
        state.bind(value, self.buffer if variable is None else load(variable, typ=variable.allocated_type))


def _assign(state: State, slots: Sequence[CarriedSlot], values: Sequence[Value]) -> None:
    """Put all ``values`` into ``slots``; tiles are in their buffers already."""
    registers = [None if s.variable is None else state.scalar(v) for s, v in zip(slots, values)]
    for slot, register in zip(slots, registers):
        if register is not None:
            state.builder.store(register, slot.variable)


def emit_copy(state: State, op: CopyBuffer) -> None:
    t = op.result.tile
    buffer = state.buffer(op.offset, t.dtype, t.size)
    lanes.copy(state.builder, buffer.pointer, state.tile_buffer(op.x).pointer, t.size * element_bytes(t.dtype))
    state.bind(op.result, buffer)


# Where the terminators of a region put their values and jump to.
Ends = dict[type[Op], tuple[list[CarriedSlot], ir.Block]]


def emit_for(state: State, op: For) -> None:
    """Counts the iterations, so that the last step cannot run over the end of the index type."""
    lower, upper, step = (state.scalar(v) for v in op.bounds)
    carried = _open(state, op.inits)
    builder, type_ = state.builder, lower.type
    dtype = op.lower.tile.element
    zero, one = ir.Constant(type_, 0), ir.Constant(type_, 1)
    distance = builder.sub(builder.sub(upper, lower), one)
    compare = builder.icmp_signed if dtype.is_signed else builder.icmp_unsigned
    if not isinstance(step, ir.Constant):  # dividing by 0 would end the process
        step = builder.select(builder.icmp_unsigned("==", step, zero), one, step)
    last = builder.udiv(distance, step)
    polled = polls.is_polled(op)
    several = polls.stride(op, (1 << type_.width) - 1) if polled else 1  # iterations between two polls
    body, again, done = (builder.append_basic_block(n) for n in ("for", "next", "done"))
    first = builder.append_basic_block("several") if several > 1 else body
    before = builder.block
    builder.cbranch(compare("<", lower, upper), first, done)
    builder.position_at_end(first)
    count = start = builder.phi(type_)
    start.add_incoming(zero, before)
    end = last
    if first is not body:
        rest, most = builder.sub(last, start), ir.Constant(type_, several - 1)
        end = builder.add(start, builder.select(builder.icmp_unsigned("<", rest, most), rest, most))
        builder.branch(body)
        builder.position_at_end(body)
        count = builder.phi(type_)
        count.add_incoming(start, first)
    region = op.body
    state.bind(region.args[0], builder.add(lower, builder.mul(count, step)))
    _body(state, region, region.args[1:], {Continue: (carried, again)})
    builder.position_at_end(again)
    following = builder.add(count, one)
    if several > 1:
        count.add_incoming(following, again)
        ended = builder.append_basic_block("ended")
        builder.cbranch(builder.icmp_unsigned("<", count, end), body, ended)
        builder.position_at_end(ended)
    if polled:
        poll = builder.append_basic_block("poll")
        builder.cbranch(builder.icmp_unsigned("<", count, last), poll, done)
        builder.position_at_end(poll)
        _poll(state, op, several * polls.work(region))
        builder.branch(first)
    else:
        builder.cbranch(builder.icmp_unsigned("<", count, last), body, done)
    start.add_incoming(following, builder.block)
    builder.position_at_end(done)
    for slot, result in zip(carried, op.results):
        slot.bind(state, result)


def _poll(state: State, op: Op, weight: int) -> int:
    """Leave the block if the launch is cancelled; the number of the poll."""
    state.polls.append(op)
    number = len(state.polls)
    record = state.context, state.worker
    polls.emit_poll(state.builder, record, state.grid["block"], number, weight, state.exit)
    return number


def emit_loop(state: State, op: Loop) -> None:
    carried = _open(state, op.inits)
    results = _result_slots(state, op)
    builder = state.builder
    body, again, done = (builder.append_basic_block(n) for n in ("loop", "next", "done"))
    builder.branch(body)
    builder.position_at_end(body)
    waits = may_wait(op)
    state.waiting += waits
    _body(state, op.body, op.body.args, {Continue: (carried, again), Break: (results, done)})
    state.waiting -= waits
    builder.position_at_end(again)
    if waits:
        number = _poll(state, waits_at(op), polls.WAITING)
        polls.emit_wait(builder, state.worker, state.grid["block"], number, advances=advances(op))
    else:
        _poll(state, op, max(polls.work(op.body), 1))
    builder.branch(body)
    builder.position_at_end(done)
    if waits:
        polls.emit_waited(builder, state.worker)
    for slot, result in zip(results, op.results):
        slot.bind(state, result)


def emit_if(state: State, op: If) -> None:
    results = _result_slots(state, op)
    builder = state.builder
    blocks = [builder.append_basic_block(n) for n in ("then", "else")]
    merged = builder.append_basic_block("merged")
    builder.cbranch(state.scalar(op.condition), *blocks)
    state.ends.append({Yield: (results, merged)})
    for block, region in zip(blocks, op.regions):
        builder.position_at_end(block)
        state.emit_block(state, region)
    state.ends.pop()
    builder.position_at_end(merged)
    for slot, result in zip(results, op.results):
        slot.bind(state, result)


def emit_end(state: State, op: Yield | Continue | Break) -> None:
    slots, target = next(ends[type(op)] for ends in reversed(state.ends) if type(op) in ends)
    _assign(state, slots, op.operands)
    state.builder.branch(target)


def _open(state: State, inits: Sequence[Value]) -> list[CarriedSlot]:
    """Slots of carried values, holding the first ones."""
    carried = [CarriedSlot.of(state, v.tile, v) for v in inits]
    _assign(state, carried, inits)
    return carried


def _result_slots(state: State, op: Loop | If) -> list[CarriedSlot]:
    """Slots of the results, which the ends of the regions pass."""
    passed = passed_out(op)
    return [CarriedSlot.of(state, r.tile, passed[r.index] if passed else None) for r in op.results]


def _body(state: State, region: Block, args: Sequence[Value], ends: Ends) -> None:
    state.ends.append(ends)
    for slot, arg in zip(ends[Continue][0], args):
        slot.bind(state, arg)
    state.emit_block(state, region)
    state.ends.pop()
