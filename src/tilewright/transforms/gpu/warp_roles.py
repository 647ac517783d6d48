"""The parts that warps with different work have in a function: who fetches, and who stages what was fetched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import bool_, int32
from tilewright.ir.effects import SIDE_EFFECTS, has_effect, is_pure
from tilewright.ir.layouts import LANE, REGISTER, WARP, LinearLayout, log2
from tilewright.ir.opdef import create
from tilewright.ir.ops.arith import Xor
from tilewright.ir.ops.control import CONTROL_FLOW, Break, Continue, For, If, Loop, LoopOp, Return, Yield
from tilewright.ir.ops.gpu import barriers
from tilewright.ir.ops.gpu.memory import SharedLoad
from tilewright.ir.ops.gpu.specialize import STAGING_WARPS, Restage
from tilewright.ir.ops.gpu.tma import (
    Fetch,
    ParameterMap,
    TmaLoad,
)
from tilewright.ir.ops.gpu.wgmma import StageOperand, Wgmma
from tilewright.ir.ops.shape import Constant, Permute, Reshape
from tilewright.ir.rewrite import clone_op, open_block, stand_for
from tilewright.ir.types import I32, TileType, Type
from tilewright.transforms.gpu.fetch_rings import (
    Group,
    PipelineState,
    Ring,
)

# Offsets of bytes that lanes read with ldmatrix, transposed, and write with stmatrix: of pairs, and of words.
_ACROSS, _ALONG = (2, 4, 8), (4, 8)
_LEAST_REGISTERS = 16  # of a thread of a stager: words of four matrices, which it moves at once


class Partition:
    """The function as one side runs it; the states of rings go with the values that control flow carries."""

    def __init__(self, function: Function, groups: Sequence[Group], values: dict[Value, Value]) -> None:
        self.function = function
        self.groups = groups
        self.group_of = {f: g for g in groups for f in (*g.fetches, *g.views)}
        self.values = values
        self.states: dict[Ring, PipelineState] = {}
        self.inside: dict[Op, list[Ring]] = {
            op: self._rings_in(op) for op in function.ops_of(CONTROL_FLOW) if not is_pure(op)
        }
        self.b = Builder(Block(), function.loc)

    def _rings_in(self, op: Op) -> list[Ring]:
        blocks = {r for o in op.walk() for r in o.regions}
        return list(dict.fromkeys(r for g in self.groups if g.block in blocks for r in self.rings(g)))

    def rings(self, group: Group) -> Sequence[Ring]:
        """The rings of ``group`` that this side goes along."""
        return [group.ring]

    def partition(self) -> Block:
        zero = self.b.constant(0, int32)
        for ring in dict.fromkeys(r for g in self.groups for r in self.rings(g)):
            self.states[ring] = PipelineState(zero, zero)
        self.ops(self.function.body, [])
        return self.b.block

    def ops(self, block: Block, enclosing: list[Op]) -> None:
        """Emit the ops of ``block``."""
        for op in block.ops:
            self.b.loc = op.loc
            self.before(op)
            if op in self.inside:
                self.control(op, enclosing)
            elif isinstance(op, Return):
                self.close(block)
                self.end()
            elif isinstance(op, (Yield, Continue, Break)):
                self.terminator(op, enclosing)
            elif not isinstance(op, ParameterMap):
                self.op(op)

    def all(self, old: Sequence[Value]) -> list[Value]:
        return [self.values.get(v, v) for v in old]

    def op(self, op: Op) -> None:
        raise NotImplementedError

    def before(self, op: Op) -> None:
        """``op`` comes next."""

    def end(self) -> None:
        self.b.emit_op(Yield, [])

    def close(self, block: Block) -> None:
        """The end of ``block``."""

    def extra(self, op: Op) -> list[Value]:
        """What ``op`` carries besides the states: the initial values."""
        return []

    # -- control flow

    def _flat(self, rings: Sequence[Ring]) -> list[Value]:
        """The states of ``rings``: the slot, where there are several, and the parity."""
        return [v for r in rings for v in (*[self.states[r].slot] * (r.stages > 1), self.states[r].parity)]

    def _set(self, rings: Sequence[Ring], flat: Sequence[Value]) -> None:
        given = iter(flat)
        for ring in rings:
            slot = next(given) if ring.stages > 1 else self.states[ring].slot
            self.states[ring] = PipelineState(slot, next(given))

    def control(self, op: Op, enclosing: list[Op]) -> None:
        rings, inner = self.inside[op], [*enclosing, op]
        before = dict(self.states)
        count = len(self._flat(rings))
        added = (I32,) * count
        if isinstance(op, If):
            regions = []
            for region in (op.then, op.orelse):
                self.states = dict(before)
                regions.append(self._region(region, inner, Block()))
            condition: list[Any] = self.all([op.condition])
            keywords: dict[str, Any] = {"types": (*op.types, *added), "then": regions[0], "orelse": regions[1]}
            made = create(If, condition, keywords, op.loc)
        else:
            assert isinstance(op, LoopOp)
            extra = self.extra(op)
            inits = [*self.all(op.inits), *self._flat(rings), *extra]
            body = open_block(op.body, self.values)
            args = [body.add_arg(v.type) for v in inits[len(op.inits) :]]
            self._set(rings, args)
            self.enter(op, args[count:])
            self._region(op.body, inner, body)
            bounds = self.all(op.bounds) if isinstance(op, For) else []
            keywords = {"body": body} | ({"types": (*op.types, *added)} if isinstance(op, Loop) else {})
            made = create(type(op), [*bounds, inits], keywords, op.loc)
        self.b.block.append(made)
        stand_for(op, made, self.values)
        self.states = before
        results = made.results[len(op.results) :]
        self._set(rings, results)
        if isinstance(op, LoopOp):
            self.leave(op, results[count:])

    def enter(self, op: LoopOp, extra: Sequence[Value]) -> None:
        """The body of a loop begins; ``extra`` is carried."""

    def leave(self, op: LoopOp, extra: Sequence[Value]) -> None:
        """A loop has ended, with the last values of ``extra``."""

    def carried_on(self, loop: Op) -> list[Value]:
        """The next values of what a loop carries besides states."""
        return []

    def _region(self, block: Block, enclosing: list[Op], made: Block) -> Block:
        with self.b.at(made):
            self.ops(block, enclosing)
        return made

    def terminator(self, op: Yield | Continue | Break, enclosing: list[Op]) -> None:
        target = enclosing[-1]
        if not isinstance(op, Yield):
            target = next(o for o in reversed(enclosing) if isinstance(o, LoopOp))
        assert op.block is not None
        self.close(op.block)
        more = self._flat(self.inside[target])
        if isinstance(op, Continue):
            more += self.carried_on(target)
        self.b.emit_op(type(op), [*self.all(op.values), *more])


class Producer(Partition):
    """One thread: nothing but fetches, and what decides about them. What else was copied nobody needs."""

    def __init__(self, function: Function, groups: Sequence[Group], values: dict[Value, Value]) -> None:
        super().__init__(function, groups, values)
        self._unknown: set[Value] = set()  # what is made of fetched tiles in registers

    def rings(self, group: Group) -> Sequence[Ring]:
        return [group.ring.source or group.ring]

    def op(self, op: Op) -> None:
        if isinstance(op, Fetch):
            group = self.group_of.get(op)
            if group is not None and op not in group.views:
                self._fetch(op, group)
        elif isinstance(op, Wgmma):
            self.values[op.result] = self.values.get(op.acc, op.acc)
        elif isinstance(op, SharedLoad) or self._unknown.intersection(v for o in op.walk() for v in o.operands):
            self._unknown.update(op.results)  # on the way to an MMA op
        elif not has_effect(op, SIDE_EFFECTS):
            self.b.block.append(clone_op(op, self.values))

    def all(self, old: Sequence[Value]) -> list[Value]:
        """``old`` as this side has it; zeros for what it does not know, which control flow carries for others."""
        return [self._zeros(v.type) if v in self._unknown else self.values.get(v, v) for v in old]

    def _zeros(self, of: Type) -> Value:
        assert isinstance(of, TileType)
        return self.b.emit(Constant, value=False if of.dtype is bool_ else 0, type=of)

    def _fetch(self, op: Fetch, group: Group) -> None:
        b, (ring,) = self.b, self.rings(group)
        state = self.states[ring]
        full = ring.barrier(b, state.slot, full=True)
        if op is group.fetches[0]:
            emptied = b.emit(Xor, state.parity, b.constant(1, int32))
            b.emit_op(barriers.MbarrierWait, ring.barrier(b, state.slot, full=False), emptied)
            b.emit_op(barriers.MbarrierExpect, full, None, bytes=group.bytes)
        buffer = group.buffer(b, op, state.slot)
        both = None if op.both is None else self.values.get(op.both, op.both)
        b.emit_op(TmaLoad, buffer, full, self.values.get(op.map, op.map), self.all(op.starts), both, None)
        if op is group.fetches[-1]:
            self.states[ring] = state.next(b, ring.stages)


class Stager(Producer):
    """Warps that bring what was fetched into the order of an operand, from one ring to another."""

    def rings(self, group: Group) -> Sequence[Ring]:
        assert group.ring.source is not None
        return [group.ring.source, group.ring]

    def _fetch(self, op: Fetch, group: Group) -> None:
        b, (source, target), staged = self.b, self.rings(group), group.staged
        assert staged is not None
        load = next(user for user in op.result.users if isinstance(user, SharedLoad))
        here, there = self.states[source], self.states[target]
        b.emit_op(barriers.MbarrierWait, source.barrier(b, here.slot, full=True), here.parity)
        emptied = b.emit(Xor, there.parity, b.constant(1, int32))
        b.emit_op(barriers.MbarrierWait, target.barrier(b, there.slot, full=False), emptied)
        buffers = source.buffer(b, 0, here.slot, op.type), target.buffer(b, 0, there.slot, staged.type)
        b.emit_op(Restage, *buffers, read=_by_stager(load.type), written=_by_stager(staged.value.tile))
        b.emit_op(barriers.MbarrierArrive, target.barrier(b, there.slot, full=True), None)
        b.emit_op(barriers.MbarrierArrive, source.barrier(b, here.slot, full=False), None)
        self.states[source], self.states[target] = here.next(b, source.stages), there.next(b, target.stages)


def _by_stager(t: TileType) -> TileType:
    """``t`` as the warps of a stager have it, in more registers."""
    assert t.layout is not None
    warps, count = t.layout.images(WARP), log2(STAGING_WARPS)
    registers = [*t.layout.images(REGISTER), *warps[count:]]
    bases = {REGISTER: registers, LANE: t.layout.images(LANE), WARP: warps[:count]}
    return t.with_layout(LinearLayout.of(t.shape, bases))


def restaged(group: Group) -> StageOperand | None:
    """What threads put, in another order, in the place of the only tile that ``group`` fetches, if nothing else reads
    that: a stager can do it for them."""
    fetch, *others = group.fetches
    staged = next((op for op in fetch.result.users if isinstance(op, StageOperand)), None)
    if others or group.views or len(fetch.result.users) != 2 or staged is None or staged.type.dtype.bytes != 1:
        return None
    value, user = staged.value, cast(Op, staged)
    while _used(value) == {user} and isinstance(value.op, (Permute, Reshape)):
        user = value.op
        value = value.op.x
    load = value.op
    if _used(value) != {user} or not isinstance(load, SharedLoad):
        return None
    read, written = (_by_stager(t).layout for t in (load.type, staged.value.tile))
    if read is None or written is None or not read.is_injective or read.num_registers < _LEAST_REGISTERS:
        return None
    across = fetch.type.layout.invert_and_compose(read).bases(LANE)[2:]
    along = staged.type.layout.invert_and_compose(written).bases(LANE)[:2]
    return staged if (across, along) == (_ACROSS, _ALONG) else None


def _used(value: Value) -> set[Op]:
    """The users of ``value``, but for those whose results nothing uses."""
    return {op for op in value.users if has_effect(op, SIDE_EFFECTS) or any(v.users for v in op.results)}
