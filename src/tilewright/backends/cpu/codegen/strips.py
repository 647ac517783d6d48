"""Loops that carry tiles in registers: a strip of these after the other, each of which goes through the whole loop.

Sums of rows that are kept in memory between iterations are loaded and stored by each, and where tiles have several rows
that the loop walks along, the next iteration is far away in the array.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import field

from llvmlite import ir

from tilewright.backends.branches import choose
from tilewright.backends.cpu.codegen import control
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.fetch_ahead import tiles_ahead
from tilewright.backends.cpu.codegen.groups import group_of
from tilewright.backends.cpu.codegen.index import as_value
from tilewright.backends.cpu.codegen.loop_nests import nest_work
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import Coord, Position, open_chunks, side_by_side
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.loops.fused import fused_ops, loop_values, root_of
from tilewright.backends.cpu.loops.groups import COSTS
from tilewright.backends.cpu.loops.kinds import array_axis, is_array_tile
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import is_ordered, is_pure
from tilewright.ir.ops.control import For
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import Load, LoadView
from tilewright.ir.types import ElementType
from tilewright.records import dataclass

_AHEAD = 4  # iterations, what is loaded in which is fetched: a strip may end within each page
_MOST_WORK = 8  # operations on an element: what does more hides that it loads and stores
_FEWEST = 4  # vectors of a strip, where there are several: less work than the iteration around it does besides


def emit_for(state: State, op: For) -> None:
    """A loop that counts."""
    strips = _strips(state, op)
    if strips is None:
        control.emit_for(state, op)
    else:
        strips.emit()


def _strips(state: State, op: For) -> _Strips | None:
    """The strips of ``op``, if it only computes all that it carries from what that was, element by element."""
    *body, end = op.body.ops
    carried = op.body.args[1:]
    nests = [o for o in body if isinstance(o, LoopNest)]
    if (
        not nests
        or len(op.body.ops_of(LoopNest)) > len(nests)
        or [n.results for n in nests] != [[v] for v in end.operands]
    ):
        return None
    if not all(o in nests or is_pure(o) or _may_repeat(o) for o in body):
        return None
    first, t = nests[0], nests[0].result.tile
    room = state.processor.vector_registers // 2 // len(nests)
    vectors = min(1 << room.bit_length() >> 1, t.shape[-1] // first.lanes)
    if first.lanes == 1 or not vectors:
        return None
    alike = all(n.lanes == first.lanes and n.result.tile.shape == t.shape for n in nests)
    if not alike or not all(_is_plain(n, [*carried, *end.operands]) for n in nests):
        return None
    loads = [o for o in body if isinstance(o, LoadView)]
    several = t.size > vectors * first.lanes
    if several and (vectors < _FEWEST or not all(_goes_along(load) for load in loads)):
        return None
    return _Strips(state, op, nests, vectors)


def _may_repeat(op: Op) -> bool:
    """Whether ``op`` loads what each strip may load again: a tile where it lies, or one element."""
    if isinstance(op, Load):
        return op.result.tile.size == 1 and not is_ordered(op)
    return isinstance(op, LoadView) and is_array_tile(op.result)


def _is_plain(nest: LoopNest, carried: Sequence[Value]) -> bool:
    """Whether ``nest`` does little for each element of its result, and needs those of the ``carried`` there only."""
    fused = fused_ops(nest, loop_values(nest))
    moves = any(not same for v, same in fused.leaves.items() if v in carried)
    loads = any(isinstance(op, Load) for op in fused.ops)
    other = root_of(nest) is not None or nest.transposed is not None or nest.panels or len(nest.results) > 1
    return not (moves or loads or other) and sum(COSTS.get(type(op), 1) for op in fused.ops) <= _MOST_WORK


def _goes_along(load: LoadView) -> bool:
    """Whether the loop that ``load`` is in goes along the rows of the array, if anywhere."""
    *outer, _ = load.indices
    block = load.block
    assert block is not None
    inside = any(v in block.args or (v.op is not None and v.op.block is block) for v in outer)
    return array_axis(load) == load.result.tile.rank - 1 and not inside


def _place(nest: LoopNest) -> tuple[int, ElementType, int]:
    """Where the result of ``nest`` is kept in memory."""
    (offset,), t = nest.buffers, nest.result.tile
    assert offset is not None
    return offset, t.dtype, t.size


@dataclass(eq=False, repr=False)
class _Strips:
    """The strips of what ``loop`` carries, rows of so many ``vectors``; of each tile there is one nest."""

    state: State
    loop: For
    nests: Sequence[LoopNest]
    vectors: int
    place: Position = ()
    positions: Sequence[Position] = ()
    registers: dict[Value, Sequence[ir.Value]] = field(default_factory=dict)

    def emit(self) -> None:
        """Emit the loop, in a loop over strips."""
        state, lanes, outer = self.state, self.nests[0].lanes, self.state.builder
        strip = Nest(outer, "strip")
        found = open_chunks(strip, self.loop.inits[0].tile.shape, self.vectors * lanes)
        self.place = tuple(Coord(c.base, 0, c.pattern) for c in found)
        self.positions = side_by_side(self.place, self.vectors)
        state.builder, state.emit_strip = strip.builder, self._emit_nest
        for init, arg, nest in zip(self.loop.inits, self.loop.body.args[1:], self.nests):
            type_ = self._load(init)[0].type
            self.registers[arg] = self.registers[nest.result] = [state.slot(type_) for _ in self.positions]
            self._keep(arg, self._load(init))
        control.emit_for(state, self.loop)
        state.emit_strip = None
        for result, nest in zip(self.loop.results, self.nests):
            self._store(result, self._kept(nest.result))
        strip.close()
        state.builder = outer

    def _emit_nest(self, nest: LoopNest) -> None:
        """Compute the strip of what ``nest`` does in registers."""
        state, group = self.state, group_of(self.state, nest, 1)
        label = f"nest{len(state.nests) + 1}"
        assert state.block is not None
        state.nests.append(nest_work(label, nest, state.block, group.cause, group.values, group.lanes))

        def strip(*, masked: bool) -> Sequence[ir.Value]:
            ahead = {} if masked else tiles_ahead(state, nest)
            far = {op: state.builder.mul(next_, as_value(_AHEAD)) for op, next_ in ahead.items()}
            elements = Elements(state, Nest(state.builder, label), masked, ahead=far, branching=False)
            for value in self.registers:
                for position, register in zip(self.positions, self._kept(value)):
                    elements.give(value, position, Element(register, nest.lanes, 0))
            return [elements.vector(elements.at(nest.kept[0], p), nest.lanes) for p in self.positions]

        inside = Elements(state, Nest(state.builder, label)).inside(nest.kept[0], self.place)
        whole, partial = (functools.partial(strip, masked=masked) for masked in (False, True))
        lies = functools.reduce(state.builder.and_, inside) if inside else None
        found = whole() if lies is None else choose(state.builder, lies, whole, partial, likely=True)
        state.bind(nest.result, state.buffer(*_place(nest)))
        self._keep(nest.result, found)

    def _load(self, value: Value) -> list[ir.Value]:
        """The strip of ``value``, which is in a buffer."""
        elements = Elements(self.state, Nest(self.state.builder), False)
        return [elements.at(value, position).value for position in self.positions]

    def _store(self, value: Value, registers: Sequence[ir.Value]) -> None:
        elements = Elements(self.state, Nest(self.state.builder), False)
        buffer = self.state.tile_buffer(value)
        for position, register in zip(self.positions, registers):
            elements.write(buffer, value.tile.shape, position, Element(register, len(position[-1].pattern or ()), 0))

    def _keep(self, value: Value, registers: Sequence[ir.Value]) -> None:
        for slot, register in zip(self.registers[value], registers):
            self.state.builder.store(register, slot)

    def _kept(self, value: Value) -> list[ir.Value]:
        return [self.state.builder.load(slot, typ=slot.allocated_type) for slot in self.registers[value]]
