"""Loads that run ahead of their loop: what they are computed from, and the same for another iteration."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from tilewright.analysis.alias import AliasAnalysis, MemoryObject, may_alias
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.dtypes import bool_, int32, uint32
from tilewright.ir.effects import SIDE_EFFECTS, has_early_exit, has_effect, is_ordered, is_pure
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.arith import Add, And, Bitcast, Cast, Cmp, Max, Select
from tilewright.ir.ops.control import For, LoopOp
from tilewright.ir.ops.gpu.barriers import MbarrierArrive, MbarrierExpect, MbarrierWait
from tilewright.ir.ops.gpu.memory import (
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    GlobalLoad,
    GlobalStore,
    SharedLoad,
    SharedMemoryOp,
    SharedStore,
)
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tiles import Splat
from tilewright.ir.ops.gpu.tma import AsyncFence, ParameterMap, Put, TmaLoad, TmaStore, TmaStoreWait
from tilewright.ir.ops.gpu.wgmma import Wgmma, WgmmaWait
from tilewright.ir.ops.memory import MemoryOp
from tilewright.ir.ops.shape import Permute, PtrOffset, Reshape, constant_of
from tilewright.ir.reachable import reachable
from tilewright.ir.rewrite import ValueMap, clone_op


def made_by(ops: Iterable[Op]) -> dict[Value, Op]:
    """The results of ``ops``, each with its op."""
    return {v: op for op in ops for v in op.results}


def pure_slice(
    roots: Iterable[Value], made: dict[Value, Op], carried: Iterable[Value] = (), known: Collection[Op] = ()
) -> list[Op] | None:
    """The ops of ``made`` that compute the ``roots``, in order; None where one is not pure, nor a load of what is
    ``known``, or needs what is ``carried``."""
    values = set(reachable(roots, lambda v: made[v].operands if v in made else ()))
    needed = [op for op in dict.fromkeys(made.values()) if not values.isdisjoint(op.results)]
    pure = all((is_pure(op) or op in known) and not op.regions for op in needed)
    return needed if pure and values.isdisjoint(carried) else None


class AheadLoad(NamedTuple):
    """A load, and the ops of its loop that compute its addresses and mask from the induction variable: loads of small
    numbers, such as those of pages, may be among them."""

    op: GlobalLoad
    slice: list[Op]

    @classmethod
    def of(cls, op: GlobalLoad, body: Block, known: Collection[Op] = ()) -> AheadLoad | None:
        """None unless the induction variable of ``body``, values from outside and what is ``known`` to be loaded there
        are all that ``op`` needs."""
        needed = pure_slice(op.operands, made_by(body.ops), body.args[1:], known)
        return None if needed is None else cls(op, needed)

    @property
    def numbers(self) -> list[GlobalLoad]:
        """What is loaded to find what ``op`` loads."""
        return [op for op in self.slice if isinstance(op, GlobalLoad)]

    def at(
        self,
        iteration: Value,
        exists: Value | None,
        values: ValueMap,
        b: Builder,
        loaded: ValueMap | None = None,
        kept: ValueMap | None = None,
    ) -> tuple[Value, Value | None, Value | None]:
        """Addresses, mask and padding in the ``iteration`` of that number, if that ``exists`` (None: it does). Other
        loads of it have ``loaded`` the same numbers, or, without ``kept``, computed the same. What does not depend on
        it is ``kept`` for the next ones, if the first one is before the loop."""
        assert self.op.block is not None
        shared: ValueMap = {} if loaded is None or (kept is not None and not self.numbers) else loaded
        values = {**values, **shared, self.op.block.args[0]: iteration}
        for source in self.slice:
            if shared.keys().isdisjoint(source.results):
                if isinstance(source, GlobalLoad):
                    number = b.emit(GlobalLoad, *_masked(source, exists, values, b), vector=source.vector)
                    values[source.result] = number
                else:
                    b.insert(clone_op(source, values))
        shared.update((v, values[v]) for source in self.slice for v in source.results)
        pointers, mask, padding = _masked(self.op, exists, values, b)
        if kept is not None and exists is not None:
            bounds, pointers = _Bounds.of(self), self._from_rows(values, b, kept)
            mask = mask if bounds is None else bounds.mask(exists, values, b, kept)
        return pointers, mask, padding

    def _from_rows(self, values: ValueMap, b: Builder, kept: ValueMap) -> Value:
        """The addresses, from those at which rows begin, which are ``kept``."""
        pointers, op = self.op.ptrs, self.op.ptrs.op
        offset = op.offset.op if isinstance(op, PtrOffset) and op in self.slice else None
        if not isinstance(op, PtrOffset) or not isinstance(offset, Add) or op.ptr.op in self.slice:
            return values.get(pointers, pointers)
        fixed = [v for v in offset.operands if v.op not in self.slice and v.op is not None]
        moving = [v for v in offset.operands if v.op in self.slice]
        if len(fixed) != 1 or len(moving) != 1:
            return values.get(pointers, pointers)
        if pointers not in kept:
            kept[pointers] = b.emit(PtrOffset, values.get(op.ptr, op.ptr), values.get(fixed[0], fixed[0]))
        return b.emit(PtrOffset, kept[pointers], values[moving[0]])


def _masked(
    load: GlobalLoad, exists: Value | None, values: ValueMap, b: Builder
) -> tuple[Value, Value | None, Value | None]:
    """Addresses, mask and padding of ``load`` where the iteration ``exists``."""
    pointers, mask = values.get(load.ptrs, load.ptrs), exists
    own = None if load.mask is None else values.get(load.mask, load.mask)
    if mask is not None and pointers.tile.rank:
        mask = b.emit(Splat, mask, type=pointers.tile.with_dtype(bool_))
    if own is not None:
        mask = own if mask is None else b.emit(And, own, mask)
    return pointers, mask, None if load.padding is None else values.get(load.padding, load.padding)


class _Bounds(NamedTuple):
    """A mask that says that ``indices`` of 32 bits are from 0 up to ``length``, in ``rows`` that do not change."""

    indices: Value
    length: Value
    rows: Value | None

    @classmethod
    def of(cls, load: AheadLoad) -> _Bounds | None:
        """None for other masks."""
        leaves = [] if load.op.mask is None else list(_conjuncts(load.op.mask, load.slice))
        compared = [v.op for v in leaves if isinstance(v.op, Cmp) and v.op in load.slice]
        rows = [v for v in leaves if v.op not in load.slice]
        if len(compared) != 2 or len(rows) > 1 or len(leaves) != len(rows) + len(compared):
            return None
        low, high = sorted(compared, key=lambda op: op.predicate is CmpPredicate.LT)
        wide, most = low.lhs.op, high.rhs.op.x.op if isinstance(high.rhs.op, Splat) else None
        if (low.predicate, high.predicate) != (CmpPredicate.GE, CmpPredicate.LT) or low.lhs is not high.lhs:
            return None
        if constant_of(low.rhs) != 0 or not isinstance(wide, Cast) or not isinstance(most, Cast):
            return None
        if wide.x.tile.element is not int32 or most.x.tile.element is not int32:
            return None
        return cls(wide.x, most.x, rows[0] if rows else None)

    def mask(self, exists: Value, values: ValueMap, b: Builder, kept: ValueMap) -> Value:
        """One unsigned comparison, with a length for each row, which is ``kept``, where the iteration ``exists``."""
        indices, zero = values.get(self.indices, self.indices), b.constant(0, int32)
        if self.rows is None:
            most = b.emit(Max, values.get(self.length, self.length), zero)
            return _below(indices, b.emit(Splat, b.emit(Select, exists, most, zero), type=indices.tile), b)
        if self.rows not in kept:
            most = b.emit(Splat, b.emit(Max, values.get(self.length, self.length), zero), type=indices.tile)
            none = b.emit(Splat, zero, type=indices.tile)
            kept[self.rows] = b.emit(Select, values.get(self.rows, self.rows), most, none)
        beyond = b.emit(Splat, b.constant(-1, int32), type=indices.tile)
        there = b.emit(Splat, exists, type=indices.tile.with_dtype(bool_))
        return _below(b.emit(Select, there, indices, beyond), kept[self.rows], b)


def _conjuncts(mask: Value, ops: list[Op]) -> Iterator[Value]:
    """What ``ops`` combine to ``mask`` by ``and``."""
    if isinstance(mask.op, And) and mask.op in ops:
        yield from _conjuncts(mask.op.lhs, ops)
        yield from _conjuncts(mask.op.rhs, ops)
    else:
        yield mask


def _below(x: Value, y: Value, b: Builder) -> Value:
    """Where x < y as unsigned integers."""
    bits = [b.emit(Bitcast, v, dtype=uint32) for v in (x, y)]
    return b.emit(Cmp, *bits, predicate=CmpPredicate.LT)


# Ops of warp groups beside which loads may run ahead.
_OF_WARP_GROUPS = (
    *(Wgmma, WgmmaWait, AsyncFence, Barrier),
    *(MbarrierArrive, MbarrierExpect, MbarrierWait, TmaLoad, TmaStoreWait),
)


def stores(loop: For) -> bool:
    """Whether ``loop`` writes to global memory."""
    return any(isinstance(op, (MemoryOp, TmaStore)) and has_effect(op, Effect.WRITE) for op in loop.body.walk())


def written_objects(ops: Iterable[Op], alias: AliasAnalysis) -> set[MemoryObject]:
    """What stands for the memory that ``ops`` of the gpu stage store to, threads and the TMA unit."""
    stores = [op for op in ops if isinstance(op, (GlobalStore, Put, TmaStore))]
    stored = {alias.underlying_object(op.ptrs) for op in stores if isinstance(op, GlobalStore)}
    maps = [op.map.op for op in stores if not isinstance(op, GlobalStore)]
    return stored | {alias.parameter(m.base) if isinstance(m, ParameterMap) else None for m in maps}


def loads_ahead(loop: For, alias: AliasAnalysis, *, groups: bool = False) -> list[AheadLoad]:
    """The loads of ``loop`` that can run ahead: their addresses follow from the induction variable, and nothing stores
    there. None in loops with jumps or nested loops, with MMA ops of warp ``groups``, which may be in these, unless that
    is wanted, nor where no tile is loaded or copied."""
    nested = [op for op in loop.walk() if op is not loop]
    multiplies = any(isinstance(op, GpuMma) for op in loop.body.ops)
    copies = not multiplies and any(isinstance(op, AsyncCopy) for op in loop.body.ops)
    through_shared = SharedMemoryOp, AsyncCopy, AsyncWait, AsyncCommit
    reads = all(isinstance(op, SharedLoad) for op in nested if isinstance(op, through_shared))
    groups = groups and any(isinstance(op, Wgmma) for op in loop.body.ops)
    known = (*through_shared, *(_OF_WARP_GROUPS if groups else ()))
    others = (Wgmma, *(() if multiplies or copies or reads else through_shared))
    steps = [op for op in nested if groups and isinstance(op, For)]  # of MMA ops
    if any((isinstance(op, LoopOp) and op not in steps) or is_ordered(op) for op in nested):
        return []
    if any(map(has_early_exit, loop.body.ops[:-1])):
        return []
    if not groups and any(isinstance(op, others) for op in nested):
        return []
    writes = [op for op in nested if has_effect(op, SIDE_EFFECTS)]
    if not all(isinstance(op, (GlobalStore, *known)) or op in steps for op in writes):
        return []
    written = written_objects(nested, alias)
    weak = [op for op in loop.body.ops if isinstance(op, GlobalLoad) and op.is_weak]
    unwritten = (op for op in weak if not may_alias(alias.underlying_object(op.ptrs), written))
    found = [load for op in unwritten if (load := AheadLoad.of(op, loop.body)) is not None]
    return found if copies or any(load.op.result.tile.rank for load in found) else []


def has_state(loop: For) -> bool:
    """Whether warp groups multiply what ``loop`` carries, through shared memory: a step waits for the one before."""
    stored = [op.value for op in loop.body.ops if isinstance(op, SharedStore)]
    narrowed = reachable(stored, lambda v: v.op.operands if isinstance(v.op, (Cast, Permute, Reshape)) else ())
    return any(isinstance(op, Wgmma) for op in loop.body.ops) and any(v in loop.carried for v in narrowed)
