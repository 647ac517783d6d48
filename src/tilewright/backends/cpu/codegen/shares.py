"""How the threads of a launch share its blocks.

Each thread begins with a range of blocks of its own, the same one in every launch of a grid, so that what a launch has
left in the caches of a processor serves the next one there. A thread that has none left takes those of the others.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import lanes, polls, records
from tilewright.backends.cpu.context import WORKER_BYTES, Field, Worker
from tilewright.backends.vector.types import I8, I64


def emit_take(
    builder: ir.IRBuilder, record: tuple[ir.Value, ir.Value], total: ir.Value, taken: ir.Block, done: ir.Block
) -> tuple[ir.Block, ir.Value, ir.Value]:
    """Take the next blocks of a range, and go to ``taken``, or to ``done`` where all ranges are used up.

    ``record`` has the addresses of the records of launch and worker. Returns the basic block that takes more, and the
    numbers of the first block taken and of the one after the last. Where all threads share one range, blocks begin in
    the order of their numbers.
    """
    context, worker = record
    share, take, used_up = (builder.append_basic_block(n) for n in ("share", "take", "used_up"))
    zero, one = ir.Constant(I64, 0), ir.Constant(I64, 1)

    chunk = records.load(builder, context, Field.CHUNK)
    own, count = (records.load(builder, worker, word) for word in (Worker.SHARE, Worker.SHARES))
    all_of_them = builder.gep(worker, [builder.mul(own, ir.Constant(I64, -WORKER_BYTES))], source_etype=I8)
    several = builder.icmp_unsigned("!=", count, zero)
    ranges, begins_with = builder.select(several, count, one), builder.select(several, own, zero)
    size = builder.udiv(builder.add(total, builder.sub(ranges, one)), ranges)
    before = builder.block
    builder.branch(share)

    builder.position_at_end(share)
    number, visited = builder.phi(I64), builder.phi(I64)
    number.add_incoming(begins_with, before)
    visited.add_incoming(one, before)
    other = builder.gep(all_of_them, [builder.mul(number, ir.Constant(I64, WORKER_BYTES))], source_etype=I8)
    counter = records.at(builder, other, Worker.TAKEN)
    counter = builder.select(several, counter, records.at(builder, context, Field.NEXT))
    first = builder.mul(number, size)
    left = builder.sub(total, first)
    blocks = builder.select(builder.icmp_signed("<", left, size), left, size)
    builder.branch(take)

    builder.position_at_end(take)
    begin = builder.atomic_rmw("add", counter, chunk, "monotonic")
    wanted = builder.add(begin, chunk)
    end = builder.select(builder.icmp_signed("<", wanted, blocks), wanted, blocks)
    start, end = builder.add(first, begin), builder.add(first, end)
    builder.cbranch(builder.icmp_signed("<", begin, blocks), taken, used_up)

    builder.position_at_end(used_up)
    following = builder.add(number, one)
    following = builder.select(builder.icmp_unsigned("<", following, ranges), following, zero)
    number.add_incoming(following, used_up)
    visited.add_incoming(builder.add(visited, one), used_up)
    builder.cbranch(builder.icmp_unsigned("<", visited, ranges), share, done)
    return take, start, end


def emit_begin(builder: ir.IRBuilder, worker: ir.Value) -> None:
    """Count a worker that is not the launching thread, before it looks how many blocks there are: ``emit_join`` looks
    in the other order."""
    builder.atomic_rmw("add", _helpers(builder, worker), ir.Constant(I64, 1), "seq_cst")
    builder.fence("seq_cst")


def emit_end(builder: ir.IRBuilder, worker: ir.Value) -> None:
    """What ``emit_begin`` counted has ended."""
    builder.atomic_rmw("sub", _helpers(builder, worker), ir.Constant(I64, 1), "seq_cst")


def _helpers(builder: ir.IRBuilder, worker: ir.Value) -> ir.Value:
    """The address of the count, in the first record."""
    share = records.load(builder, worker, Worker.SHARE)
    first = builder.gep(worker, [builder.mul(share, ir.Constant(I64, -WORKER_BYTES))], source_etype=I8)
    return records.at(builder, first, Worker.HELPERS)


def count_blocks(builder: ir.IRBuilder, worker: ir.Value, taken: ir.Value) -> None:
    """Count blocks that the launching thread takes."""
    counter = records.at(builder, worker, Worker.BLOCKS)
    builder.store(builder.add(builder.load(counter, typ=I64), taken), counter)


def emit_join(builder: ir.IRBuilder, context: ir.Value, worker: ir.Value) -> None:
    """In the launching thread, the first worker: let no more workers begin, and wait for those that have."""
    polls.emit_note_time(builder, worker, Worker.LEFT)
    total = records.at(builder, context, Field.TOTAL)
    lanes.store_atomic(builder, ir.Constant(I64, 0), total, "seq_cst", 8)
    builder.fence("seq_cst")
    helpers = records.at(builder, worker, Worker.HELPERS)
    polls.emit_wait_for_zero(builder, (context, worker), helpers)
