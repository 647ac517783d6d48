"""Sums of floats into neighbours that other blocks may add to, too: of a vector at a time, by whoever has their lock.

An atomic instruction adds to one float in some 7 ns, and nothing behind it begins before it ends. Memory has a lock for
each ``LOCKED_BYTES`` of it instead. While blocks of this process update memory by atomic instructions as well, sums are
such, too, one float after the other: under the lock still, as threads learn of such blocks where they take one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.backends.cpu.codegen import lanes, records
from tilewright.backends.cpu.codegen.drivers import called_driver
from tilewright.backends.cpu.codegen.fetch_ahead import LINE, prefetch
from tilewright.backends.cpu.codegen.index import as_value
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.state import State, storage_bytes
from tilewright.backends.cpu.context import LOCK_WORDS, LOCKED_BYTES, LOCKS, Exclusion, Field, Python
from tilewright.backends.vector import storage_type
from tilewright.backends.vector.types import I1
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import AtomicKind, MemoryScope
from tilewright.ir.ops import memory
from tilewright.ir.ops.loops import LoopNest

if TYPE_CHECKING:
    from tilewright.backends.cpu.codegen.views import LaneAddresses

_LINES_AHEAD = 4  # what neighbours are added to is fetched

# Adds to the number at an address.
AddOne = Callable[[ir.IRBuilder, ir.Value, Sequence[ir.Value]], object]


def goes_by_locks(state: State, op: Op, nest: LoopNest, dtype: DType) -> bool:
    """Whether the op of ``nest`` adds floats for this process's launches alone, and nothing needs what they were."""
    if not isinstance(op, (memory.AtomicRmw, memory.AtomicView)) or nest.results or state.waits or not state.may_lock:
        return False
    return op.kind is AtomicKind.ADD and dtype.is_floating and op.memory_scope is MemoryScope.DEVICE


class LockedSums:
    """The additions of one op: a lock is kept from one vector to the next, and given back at the ``end``."""

    def __init__(self, state: State, dtype: DType, ordering: str, add_one: AddOne) -> None:
        builder = state.builder
        self.state, self.dtype, self.ordering, self.add_one = state, dtype, ordering, add_one
        self.item = storage_bytes(dtype)
        self.most = LINE // self.item  # neighbours at a time
        once = builder.load(records.at(builder, state.context, Field.PYTHON), typ=lanes.POINTER)
        self.exclusion = builder.load(records.at(builder, once, Python.EXCLUSION), typ=lanes.POINTER)
        self.held, self.alone = state.slot(lanes.POINTER), state.slot(I1)
        builder.store(ir.Constant(lanes.POINTER, None), self.held)
        if ordering not in ("monotonic", "acquire"):
            builder.fence("release")

    def add(self, nest: Nest, at: LaneAddresses, mask: ir.Value | None, value: ir.Value) -> None:
        """Add ``value`` to neighbours, all or those of ``mask``."""
        self.state.updates = self.state.updates._replace(locks=True)
        builder, size = nest.builder, value.type.count * self.item
        ahead = builder.add(at.address, as_value(_LINES_AHEAD * LINE))
        prefetch(builder, builder.inttoptr(ahead, lanes.POINTER), write=True)
        some: ir.Value = I1(1)
        if mask is not None:
            bits = builder.bitcast(mask, ir.IntType(value.type.count))
            some = builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))
        with builder.if_then(some):
            first = builder.and_(at.address, as_value(LOCKED_BYTES - 1))
            one_lock = builder.icmp_unsigned("<=", first, as_value(LOCKED_BYTES - size))
            with builder.if_else(one_lock, likely=True) as (then, orelse):
                with then:
                    self._take(builder, at.address)
                    with builder.if_else(builder.load(self.alone, typ=I1), likely=True) as (by_vector, by_element):
                        with by_vector:
                            self._add_vector(builder, at.address, mask, value)
                        with by_element:
                            self._add_elements(builder, at.address, mask, value)
                with orelse:
                    self._add_elements(builder, at.address, mask, value)

    def _take(self, builder: ir.IRBuilder, address: ir.Value) -> None:
        """Have the lock of an address, and no other one."""
        number = builder.and_(builder.lshr(address, as_value(LOCKED_BYTES.bit_length() - 1)), as_value(LOCKS - 1))
        word = builder.add(builder.mul(number, as_value(LOCK_WORDS)), as_value(Exclusion.LOCKS))
        lock = builder.gep(self.exclusion, [word], source_etype=word.type)
        held = builder.load(self.held, typ=lanes.POINTER)
        with builder.if_then(builder.icmp_unsigned("!=", lock, held), likely=False):
            alone = builder.call(called_driver("lock"), [self.exclusion, lock, held])
            builder.store(alone, self.alone)
            builder.store(lock, self.held)

    def _add_vector(self, builder: ir.IRBuilder, address: ir.Value, mask: ir.Value | None, value: ir.Value) -> None:
        count, pointer = value.type.count, builder.inttoptr(address, lanes.POINTER)
        emitter, stored = self.state.emitter(builder, count), storage_type(self.dtype, count)
        if mask is None:
            before = builder.load(pointer, align=self.item, typ=stored)
        else:
            before = lanes.masked_load(builder, pointer, mask, ir.Constant(stored, None), self.item)
        total = emitter.emit("add", self.dtype, [emitter.to_register(self.dtype, before), value], {}, self.dtype)
        after = emitter.to_storage(self.dtype, total)
        if mask is None:
            builder.store(after, pointer, align=self.item)
        else:
            lanes.masked_store(builder, after, pointer, mask, self.item)

    def _add_elements(self, builder: ir.IRBuilder, address: ir.Value, mask: ir.Value | None, value: ir.Value) -> None:
        nest = Nest(builder)
        lane = as_value(nest.begin(value.type.count))
        inner = nest.builder
        chosen: ir.Value = I1(1) if mask is None else inner.extract_element(mask, lane)
        with inner.if_then(chosen):
            place = inner.add(address, inner.mul(lane, as_value(self.item)))
            self._take(inner, place)
            self.add_one(inner, inner.inttoptr(place, lanes.POINTER), [inner.extract_element(value, lane)])
        nest.close()

    def end(self) -> None:
        """Give the lock back, if there have been any."""
        builder = self.state.builder
        if not self.state.updates.locks:
            return
        builder.call(called_driver("unlock"), [builder.load(self.held, typ=lanes.POINTER)])
        if self.ordering not in ("monotonic", "release"):
            builder.fence("acquire")
