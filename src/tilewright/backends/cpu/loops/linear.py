"""MMA ops: where the operands lie, and what the accumulators start from."""

from __future__ import annotations

from tilewright.backends.cpu.loops.arena import Buffer
from tilewright.backends.cpu.loops.dot import Product, dot_instruction
from tilewright.backends.cpu.loops.groups import transposed_axis
from tilewright.backends.cpu.loops.kinds import view_strides
from tilewright.backends.cpu.loops.nests import Body, materialize, write
from tilewright.backends.cpu.loops.schedule import Schedule
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import float32, float64, int8
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Mul
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.ops.shape import Broadcast, Constant, Permute, Reshape


def schedule_mma(schedule: Schedule, op: Mma) -> None:
    """The body names the operands, the left one in an array or a buffer, and the accumulator, multiplied in place.

    A right operand is copied, unless few rows are multiplied with it, which code finds out: ``pack_panels`` may spare
    the blocks that follow that, which pays for dot instructions, too (benchmarks/results/cpu_notes.md). Scratch memory:
    for the left operand, where that may have to be padded; for the function of a dot instruction; the accumulator.
    """
    x, y, acc = op.x, op.y, op.acc
    product = Product.of(op)
    dot = dot_instruction(schedule.processor, product)
    body = Body(schedule)
    load = _in_array(schedule, op, x, by_dot=dot is not None)
    padded = schedule.allocate(x.tile) if load is not None and not all(load.in_bounds) else None
    columns = dot is None and _is_transpose(schedule, op, x)
    left = x.op.x if columns and isinstance(x.op, Permute) else x
    used = [_operand(schedule, body, v) for v in ([left] if load is None else []) + [y]]
    accumulator, factors = _accumulators(schedule, body, op, acc, plain=dot is not None)
    work = None if dot is None else schedule.allocate_array(int8, dot.scratch_bytes(product))
    for buffer in (padded, work, *used, *factors):
        if buffer is not None:
            schedule.release(buffer)
    if left is not x:
        assert x.op is not None
        body.copy(x.op)
    chain = [x]
    while load is not None and isinstance(chain[-1].op, Reshape):
        chain.append(chain[-1].op.x)
    for v in reversed(chain[:-1]):
        if v not in body.copied:
            assert v.op is not None
            body.copy(v.op)
    scratch = tuple(None if b is None else b.offset for b in (padded, work, accumulator))
    _end(schedule, body, op, accumulator, scratch, None if padded is None else transposed_axis(schedule, x))


def _end(
    schedule: Schedule, body: Body, op: Op, out: Buffer, scratch: tuple[int | None, ...], transposed: int | None = None
) -> None:
    """Append the nest; a result of one element is read from its buffer right away."""
    body.emit(Yield, body.copy(op).results, loc=op.loc)
    single = op.result.tile.size == 1
    kept = None if single else out
    nest = schedule.emit_nest(body.block, [kept], op.loc, scratch=scratch, transposed=transposed)
    if single:
        schedule.release(out)
    schedule.bind(op.result, nest.result, kept)


def _operand(schedule: Schedule, body: Body, x: Value) -> Buffer:
    """``x`` as a whole in memory, even when it has one element; to be released."""
    if x.tile.size > 1:
        buffer = materialize(schedule, x)
        buffer.users += 1
        return buffer
    buffer = schedule.allocate(x.tile)
    body.copied[x] = write(schedule, x, buffer)
    return buffer


def _in_array(schedule: Schedule, op: Op, x: Value, *, by_dot: bool) -> LoadView | None:
    """The load of ``x`` if it can be read where it lies and nothing but ``op`` needs it.

    Each element is read once for every vector of columns, so that a copy of a tile would cost more than it saves; what
    goes ``by_dot`` instructions is rearranged anyway, row by row.
    """
    value = x
    while isinstance(value.op, Reshape):
        value = value.op.x
    load, dying = value.op, schedule.uses.would_die([op], schedule.deferred)
    if not isinstance(load, LoadView) or load not in schedule.deferred or not {x, value} <= dying:
        return None
    t = value.tile
    axes = [k for k, n in enumerate(t.shape) if n > 1]
    if [t.shape[k] for k in axes] != list(x.tile.shape[-2:]) or not (by_dot or t.dtype in (float32, float64)):
        return None
    strides = view_strides(load)
    return load if any(strides[k] == 1 for k in (axes[-1:] if by_dot else axes)) else None


def _is_transpose(schedule: Schedule, op: Mma, x: Value) -> bool:
    """Whether ``x``, which only ``op`` needs, is the transpose of a tile: its columns are rows in memory then."""
    made, rank = x.op, x.tile.rank
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    if not isinstance(made, Permute) or tuple(made.axes) != swapped or made not in schedule.deferred:
        return False
    return made.x.tile.size > 1 and x in schedule.uses.would_die([op], schedule.deferred)


def _accumulators(schedule: Schedule, body: Body, op: Mma, acc: Value, *, plain: bool) -> tuple[Buffer, list[Buffer]]:
    """The buffer of the result, and that of the factors of the accumulators if they are scaled.

    ``plain``: only the accumulators that are in the buffer will do.
    """
    if not plain and _is_zero(acc):
        assert acc.op is not None
        body.copy(acc.op)
        return schedule.allocate(acc.tile), []
    scaled = None if plain else _scaled(schedule, op, acc)
    if scaled is None:
        return _accumulator(schedule, body, op, acc), []
    base, factor, spread = scaled
    factors = materialize(schedule, factor)
    factors.users += 1
    out = _accumulator(schedule, body, op, base)
    assert acc.op is not None
    body.copy(spread)
    body.copy(acc.op)
    return out, [factors]


def _is_zero(acc: Value) -> bool:
    if not isinstance(acc.op, Constant):
        return False
    return str(float(acc.op.value)) == "0.0"  # and not -0.0


def _scaled(schedule: Schedule, op: Op, acc: Value) -> tuple[Value, Value, Op] | None:
    """A tile, and a factor for each of its rows or columns, whose product is ``acc`` and needed only by ``op``.

    And the op that broadcasts the factors.
    """
    product = acc.op
    if (
        product is None
        or not isinstance(product, Mul)
        or product not in schedule.deferred
        or acc.tile.element.bitwidth < 32
    ):
        return None
    if not acc.tile.element.is_floating or acc not in schedule.uses.would_die([op], schedule.deferred):
        return None
    if product.rounding is not RoundingMode.RN or product.flush_to_zero:
        return None
    for base, factor in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
        spread = factor.op
        if not isinstance(spread, Broadcast) or schedule.is_bound(factor):
            continue
        line, (*batches, m, n) = spread.x, acc.tile.shape
        if line.tile.size > 1 and line.tile.shape in ((*batches, m, 1), (*batches, 1, n)) and base is not factor:
            return base, line, spread
    return None


def _accumulator(schedule: Schedule, body: Body, op: Op, acc: Value) -> Buffer:
    """A buffer that holds ``acc`` and may be overwritten: that of ``acc`` itself when nothing else needs it."""
    if acc.tile.size > 1 and acc in schedule.uses.would_die([op], schedule.deferred):
        old = materialize(schedule, acc)
        if old.users == 1:
            old.users += 1
            return old
    buffer = schedule.allocate(acc.tile)
    body.copied[acc] = write(schedule, acc, buffer)
    return buffer
