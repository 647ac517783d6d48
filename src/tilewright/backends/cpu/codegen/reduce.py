"""Reductions and scans, in the exact order that the IR prescribes.

A reduction along the innermost axis keeps its partial results in the lanes of vectors, and a scan of integers combines
the lanes with each other. Any other one has one result per lane and walks along the axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from llvmlite import ir

from tilewright.backends.cpu.codegen import index, lanes, scalars, transpose
from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.groups import Visit, bind_results, emit_loops, group_of
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import ZERO, Coord, Position, open_chunks
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.loops.combiner_identity import identity_element
from tilewright.backends.cpu.loops.vectorize import rows_axis
from tilewright.backends.vector.types import I64
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Cmp
from tilewright.ir.ops.linear import CombiningOp, Reduce, Scan, reduction_partials
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.shape import Broadcast, Iota, Reshape

Registers = list[ir.Value]  # one per reduced tile


# Predicates of a pair whose left side is the lesser one.
_HOLD_IN_ORDER = (CmpPredicate.LT, CmpPredicate.LE, CmpPredicate.NE)
_NO_FACTS: Mapping[Op, bool] = {}


def _counts_along(value: Value, axis: int) -> bool:
    """Whether the elements of ``value`` along ``axis`` are 0, 1, 2 and so on."""
    length = value.tile.shape[axis]
    while isinstance(value.op, Broadcast):
        value = value.op.x
        if value.tile.shape[axis] != length:
            return False
    while isinstance(value.op, Reshape) and value.tile.size == length:
        value = value.op.x
    return isinstance(value.op, Iota) and value.tile.size == length


class _Combiner:
    """The values of a reduce or scan, its axis and its combiner."""

    def __init__(self, state: State, nest: LoopNest, op: CombiningOp) -> None:
        self.state = state
        self.op = op
        self.vectors = nest.vectors
        self.values = op.values
        self.axis = op.axis
        self.shape = self.values[0].tile.shape
        self.length = self.shape[self.axis]
        self.identity = identity_element(op.body)
        if isinstance(op, Scan) and self.identity is not None and math.isnan(self.identity):
            # LLVM takes the running maximum of numbers that are none, started at NaN, to be NaN.
            self.identity = None
        self.ordered = self._ordered(op.body)

    def at(self, elements: Elements, position: Position, count: int | None, visit: Visit) -> Registers:
        """The elements of all values, as vectors of ``count`` lanes in the innermost loop."""
        found = [elements.vector(elements.at(v, position), count) for v in self.values]
        visit(elements, position)
        return found

    def _ordered(self, body: Block) -> dict[Op, bool]:
        """What the combiner's comparisons of positions along the axis give when the left one comes first."""
        n = len(self.values)
        positions = {i for i, v in enumerate(self.values) if _counts_along(v, self.axis)}
        pairs = {(body.args[i], body.args[n + i]) for i in positions}
        compared = [op for op in body.ops if isinstance(op, Cmp) and tuple(op.operands) in pairs]
        return {op: op.predicate in _HOLD_IN_ORDER for op in compared}

    def combine(self, builder: ir.IRBuilder, count: int | None, a: Registers, b: Registers) -> Registers:
        return scalars.combine(self.state, builder, count, self.op.body, [*a, *b], _NO_FACTS)

    def start(self, count: int | None) -> Registers:
        """What ``accumulate`` combines the first elements with, or ignores when there is no identity."""
        if self.identity is None:
            return [scalars.blank(v.tile.dtype, count) for v in self.values]
        emitter = self.state.emitter(lanes=count)
        return [emitter.constant(v.tile.dtype, self.identity) for v in self.values]

    def follow(
        self, builder: ir.IRBuilder, count: int | None, old: Registers, new: Registers, *, running: bool = False
    ) -> Registers:
        """``old`` combined with ``new`` elements from further along the axis; ``running``: see ``scalars.combine``."""
        facts = _NO_FACTS if isinstance(self.op, Scan) and self.op.reverse else self.ordered
        return scalars.combine(self.state, builder, count, self.op.body, [*old, *new], facts, running=running)

    def accumulate(self, nest: Nest, count: int | None, k: index.Index, old: Registers, new: Registers) -> Registers:
        """``follow``, or just ``new`` where index ``k`` of the innermost loop is the first."""
        if isinstance(k, int):
            return new
        builder = nest.builder
        combined = self.follow(builder, count, old, new)
        if self.identity is not None:
            return combined
        first = builder.icmp_unsigned("==", k, ir.Constant(I64, 0))
        return [builder.select(first, n, c) for n, c in zip(new, combined)]

    def halve(self, builder: ir.IRBuilder, count: int | None, partials: list[Registers]) -> Registers:
        """Combine whole registers of partial results, which are a power of two in number."""
        while len(partials) > 1:
            half = len(partials) // 2
            partials = [self.combine(builder, count, partials[i], partials[i + half]) for i in range(half)]
        return partials[0]

    def halve_lanes(self, builder: ir.IRBuilder, count: int, registers: Registers) -> Registers:
        """Combine the lanes of one register of partial results to a scalar."""
        while count > 1:
            count //= 2
            low = [lanes.shuffle(builder, r, range(count)) for r in registers]
            high = [lanes.shuffle(builder, r, range(count, 2 * count)) for r in registers]
            registers = self.combine(builder, count, low, high)
        return [builder.extract_element(r, ir.Constant(ir.IntType(32), 0)) for r in registers]


def emit_reduce(state: State, nest: LoopNest, op: Reduce) -> None:
    combiner = _Combiner(state, nest, op)
    partials = reduction_partials(combiner.shape, combiner.axis) if op.commutative else 1
    scalar, count = op.results[0].tile.size == 1, len(op.results)
    bind_results(state, nest, 0)
    buffers = [] if scalar else [state.tile_buffer(r) for r in nest.results[:count]]

    def body(elements: Elements, width: int, visit: Visit) -> Registers:
        if nest.along:
            found = _along_lanes(combiner, elements, visit, partials, min(width, partials), buffers)
        else:
            found = _across_lanes(combiner, elements, visit, partials, width, buffers)
        return found if scalar else []

    for r, register in zip(nest.results, emit_loops(state, group_of(state, nest, count), body)):
        state.bind(r, register)


def _save(
    elements: Elements, op: Op, buffers: list[Buffer], position: Position, count: int | None, x: Registers
) -> None:
    for r, buffer, value in zip(op.results, buffers, x):
        elements.write(buffer, r.tile.shape, position, Element(value, count, elements.nest.level))


# The positions of all partial results at a step of the loop along the axis.
PartialPositions = Callable[[Coord], "list[Position]"]


def _partial_results(
    combiner: _Combiner, elements: Elements, visit: Visit, count: int | None, step: int, positions: PartialPositions
) -> list[Registers]:
    """Reduce along the axis in steps of ``step`` elements, one to each partial result."""
    nest = elements.nest
    running = combiner.identity is not None and step < combiner.length
    if running:
        start, first = 0, [combiner.start(count) for _ in positions(ZERO)]
    else:
        start, first = step, [combiner.at(elements, position, count, visit) for position in positions(ZERO)]
    if start == combiner.length:
        return first
    k = nest.begin(combiner.length, step, start)
    kept = [[nest.carry(r) for r in registers] for registers in first]
    nexts = []
    for old, position in zip(kept, positions(Coord(k, nest.level))):
        new = combiner.at(elements, position, count, visit)
        nexts.append(combiner.follow(nest.builder, count, old, new, running=running))
    nest.end([r for registers in nexts for r in registers])
    return nexts


def _along_lanes(
    combiner: _Combiner, elements: Elements, visit: Visit, partials: int, width: int, buffers: list[Buffer]
) -> Registers:
    """Partial results in lanes: ``partials`` of them in vectors of ``width``."""
    nest, axis = elements.nest, combiner.axis
    outer = open_chunks(nest, combiner.shape[:axis], 1)
    inner = [ZERO] * (len(combiner.shape) - axis - 1)

    def positions(k: Coord) -> list[Position]:
        patterns = [tuple(range(i, i + width)) for i in range(0, partials, width)]
        return [(*outer, Coord(k.base, k.level, pattern), *inner) for pattern in patterns]

    found = _partial_results(combiner, elements, visit, width, partials, positions)
    result = combiner.halve_lanes(nest.builder, width, combiner.halve(nest.builder, width, found))
    _save(elements, combiner.op, buffers, (*outer, *inner), None, result)
    nest.close()
    return result


def _across_lanes(
    combiner: _Combiner, elements: Elements, visit: Visit, partials: int, width: int, buffers: list[Buffer]
) -> Registers:
    """One result per lane; partial results in different registers."""
    nest, axis = elements.nest, combiner.axis
    shape = combiner.shape[:axis] + combiner.shape[axis + 1 :]
    count = min(combiner.vectors * width, combiner.op.results[0].tile.size)
    rest = open_chunks(nest, shape, count)
    lanes_or_none = count if count > 1 else None

    def positions(k: Coord) -> list[Position]:
        return [(*rest[:axis], elements.map.shift(k, i), *rest[axis:]) for i in range(partials)]

    found = _partial_results(combiner, elements, visit, lanes_or_none, partials, positions)
    result = combiner.halve(nest.builder, lanes_or_none, found)
    _save(elements, combiner.op, buffers, rest, lanes_or_none, result)
    nest.close()
    return result


def emit_scan(state: State, nest: LoopNest, op: Scan) -> None:
    """One running value per lane, along the axis; or vectors of running values."""
    combiner, count = _Combiner(state, nest, op), len(op.results)
    bind_results(state, nest, 0)
    buffers = [state.tile_buffer(r) for r in nest.results[:count]]

    def body(elements: Elements, width: int, visit: Visit) -> Registers:
        if nest.along:
            _scan_along(combiner, elements, visit, width, buffers)
        elif nest.square is None:
            _scan_across(combiner, elements, visit, width, buffers)
        else:
            _scan_squares(combiner, elements, visit, nest.square, buffers)
        return []

    emit_loops(state, group_of(state, nest, count), body)


def _scan_along(combiner: _Combiner, elements: Elements, visit: Visit, width: int, buffers: list[Buffer]) -> None:
    """Vectors along the axis: lanes are combined with those 1, 2, 4, ... before, then with all before the vector."""
    nest, axis, op = elements.nest, combiner.axis, combiner.op
    reverse = isinstance(op, Scan) and op.reverse
    rest = open_chunks(nest, combiner.shape[:axis], 1)
    k = nest.begin(combiner.length, width)
    before = nest.carry(combiner.start(width)[0])
    at = index.sub(nest.builder, combiner.length - width, k) if reverse else k
    inner = [ZERO] * (len(combiner.shape) - axis - 1)
    position = (*rest, Coord(at, nest.level, tuple(range(width))), *inner)
    (x,) = combiner.at(elements, position, width, visit)
    builder, (identity,) = nest.builder, combiner.start(width)
    distance = 1
    while distance < width:
        lanes_before = range(distance, width + distance) if reverse else range(width - distance, 2 * width - distance)
        moved = lanes.merge(builder, *((x, identity) if reverse else (identity, x)), lanes_before)
        (x,) = combiner.combine(builder, width, [moved], [x])
        distance *= 2
    (x,) = combiner.combine(builder, width, [before], [x])
    _save(elements, op, buffers, position, width, [x])
    nest.end([lanes.shuffle(builder, x, [0 if reverse else width - 1] * width)])
    nest.close()


def _scan_across(combiner: _Combiner, elements: Elements, visit: Visit, width: int, buffers: list[Buffer]) -> None:
    """Step by step along the axis; a vector holds neighbours along another axis where that is the innermost one."""
    nest, shape, axis, op = elements.nest, combiner.shape, combiner.axis, combiner.op
    others = shape[:axis] + shape[axis + 1 :]
    innermost = all(n == 1 for n in shape[axis + 1 :])
    count = 1 if innermost else min(combiner.vectors * width, op.results[0].tile.size // combiner.length)
    rest = open_chunks(nest, others, count)
    lanes_or_none = count if count > 1 else None
    k = nest.begin(combiner.length) if combiner.length > 1 else 0
    kept = [nest.carry(b) for b in combiner.start(lanes_or_none)] if not isinstance(k, int) else []
    at = index.sub(nest.builder, combiner.length - 1, k) if isinstance(op, Scan) and op.reverse else k
    position = (*rest[:axis], Coord(at, nest.level if not isinstance(at, int) else 0), *rest[axis:])
    new = combiner.at(elements, position, lanes_or_none, visit)
    running = new if isinstance(k, int) else combiner.accumulate(nest, lanes_or_none, k, kept, new)
    _save(elements, op, buffers, position, lanes_or_none, running)
    if not isinstance(k, int):
        nest.end(running)
    nest.close()


def _scan_squares(combiner: _Combiner, elements: Elements, visit: Visit, side: int, buffers: list[Buffer]) -> None:
    """Some rows at once: squares of them are transposed, so that the running values of all rows are one vector."""
    nest, op = elements.nest, combiner.op
    other = rows_axis(combiner.shape[: combiner.axis])
    corner = []
    for axis, n in enumerate(combiner.shape):
        step = side if axis == other else 1
        base = nest.begin(n, step) if n > step and axis != combiner.axis else 0
        corner.append(Coord(base, nest.level if not isinstance(base, int) else 0))
    looping = combiner.length > side
    k: index.Index = nest.begin(combiner.length, side) if looping else 0
    running: Registers | None = [nest.carry(b) for b in combiner.start(side)] if looping else None
    reverse = isinstance(op, Scan) and op.reverse
    at = index.sub(nest.builder, combiner.length - side, k) if reverse else k
    corner[combiner.axis] = Coord(at, nest.level if not isinstance(at, int) else 0)
    positions = [transpose.along(elements, corner, combiner.axis, other, i, side) for i in range(side)]
    rows = [combiner.at(elements, position, side, visit) for position in positions]
    columns = [transpose.transpose(nest.builder, list(tile)) for tile in zip(*rows)]
    scanned: list[Registers] = [[]] * side
    for step in range(side):
        j = side - 1 - step if reverse else step
        new = [column[j] for column in columns]
        if running is None:
            running = new
        else:
            running = (
                combiner.accumulate(nest, side, k, running, new)
                if step == 0
                else combiner.combine(nest.builder, side, running, new)
            )
        scanned[j] = running
    for result, buffer, column in zip(op.results, buffers, zip(*scanned)):
        for position, row in zip(positions, transpose.transpose(nest.builder, list(column))):
            elements.write(buffer, result.tile.shape, position, Element(row, side, nest.level))
    if looping:
        assert running is not None
        nest.end(running)
    nest.close()
