"""What memory an access reaches: arguments of the kernel and local arrays."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tilewright.analysis.list_tables import Tables
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.opdef import Effect
from tilewright.ir.ops import memory
from tilewright.ir.ops.arith import Bitcast
from tilewright.ir.ops.control import CONTROL_FLOW, incoming
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, ConvertLayout, Splat
from tilewright.ir.ops.shape import Broadcast, Extract, IntToPtr, Permute, PtrOffset, Reshape
from tilewright.ir.reachable import are_alike
from tilewright.ir.types import PartitionViewType, TensorViewType, TileType

MemoryObject = Value | None  # what stands for the memory behind an address; None when that is unknown

# Op whose result points to where an operand points -> that operand.
_FORWARDED: dict[type[Op | Block], Callable[[Any], Value]] = {
    **dict.fromkeys(
        (Reshape, Broadcast, Permute, Extract, memory.AssumeDivisible, memory.AssumeBlocked, Bitcast),
        operator.attrgetter("x"),
    ),
    **dict.fromkeys((Splat, BroadcastDistributed, ConvertLayout), operator.attrgetter("x")),
    PtrOffset: operator.attrgetter("ptr"),
    memory.MakeTensorView: operator.attrgetter("base"),
    memory.MakePartitionView: operator.attrgetter("view"),
}


_LOADS = (memory.Load, memory.LoadView, memory.AtomicRmw, memory.AtomicCas)


def may_alias(root: MemoryObject, others: set[MemoryObject]) -> bool:
    """Whether memory behind ``root`` may be memory behind one of ``others``."""
    return bool(others) and (root is None or None in others or root in others)


class AliasAnalysis:
    """The parameter or local array of ``function`` behind each pointer and view.

    Arguments that are different arrays do not overlap. Pointers of C++ may: all those without a promise have one root,
    ``shared``. So may the arrays of a list: their root is the parameter that is its table, one of ``tables``. Nothing
    is stored in a table itself.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        params = zip(function.body.args, function.params)
        alike = [v for v, p in params if function.may_alias and v.tile.is_pointer and not p.no_alias]
        self.shared: MemoryObject = alike[0] if len(alike) > 1 else None
        self._alike = set(alike)

    @functools.cached_property
    def tables(self) -> Tables:
        return Tables(self._function)

    def underlying_object(self, value: Value) -> MemoryObject:
        """The root of the address or view ``value``; where control flow gives one of several, that which all have."""
        origin = value
        while (source := _FORWARDED.get(type(origin.owner))) is not None:  # the way of most views
            origin = source(origin.owner)
        if origin.owner is self._function.body and is_address(origin):
            return self.shared if self.shared is not None and origin in self._alike else origin
        roots = self._roots(value)
        found = {self.shared if self.shared is not None and root in self._alike else root for root in roots}
        return found.pop() if len(found) == 1 else None

    def parameter(self, index: int) -> MemoryObject:
        """What stands for the memory behind the argument of that number."""
        return self.underlying_object(self._function.body.args[index])

    def origins(self, value: Value) -> set[MemoryObject]:
        """The parameters and local arrays that the address or view ``value`` may be computed from, by whatever ops.

        What is reached through an address that was loaded belongs to where that was loaded from, but an address in a
        local array may be any: None.
        """
        return self._roots(value, computed=True)

    def _roots(self, value: Value, *, computed: bool = False) -> set[MemoryObject]:
        """What ``value`` points into, None where that is not known. What else is ``computed`` is followed, too."""
        found = set[MemoryObject]()
        seen, pending = set[tuple[Value, bool]](), [(value, False)]  # whether there is a load in between
        while pending:
            at, loaded = pending.pop()
            if (at, loaded) in seen:
                continue
            seen.add((at, loaded))
            op, sources = at.op, _sources(at, computed=computed)
            if sources is not None:
                pending += [(v, loaded or isinstance(op, _LOADS)) for v in sources if _carries(v)]
            elif op is None:
                found.update([at] if is_address(at) else [])
            elif isinstance(op, memory.LocalArray):
                found.add(None if loaded else at)
            else:
                found.add(self.tables.loads.get(op.x.op) if isinstance(op, IntToPtr) and op.x.op is not None else None)
        return found

    def accessed(self, ops: Iterable[Op]) -> tuple[set[MemoryObject], set[MemoryObject]]:
        """The roots of what ``ops`` read, and of what they write."""
        effects = [(op, self.effect(op)) for op in ops if isinstance(op, memory.MemoryOp)]
        reads, writes = (
            {self.underlying_object(op.address) for op, e in effects if e & kind}
            for kind in (Effect.READ, Effect.WRITE)
        )
        return reads, writes

    def effect(self, op: Op) -> Effect:
        """Whether ``op`` reads or writes memory that others may write: tables of lists are not."""
        return op.spec.effect & (Effect.READ | Effect.WRITE) if op not in self.tables.loads else Effect.NONE


def is_address(value: Value) -> bool:
    """Whether ``value`` is a view, or a tile of pointers."""
    t = value.type
    return t.is_pointer if isinstance(t, TileType) else isinstance(t, (TensorViewType, PartitionViewType))


def _carries(value: Value) -> bool:
    """Whether ``value`` can hold an address: views, pointers, and the 64-bit integers of a list's table."""
    return is_address(value) or (isinstance(value.type, TileType) and value.type.element.bitwidth == 64)


def _sources(value: Value, *, computed: bool) -> Sequence[Value] | None:
    """Where ``value`` may have its address from; None where that begins, or is lost."""
    op = value.op
    if op is None or isinstance(op, CONTROL_FLOW):
        return incoming(value)
    if (source := _FORWARDED.get(type(op))) is not None:
        return [source(op)]
    if not computed or isinstance(op, memory.LocalArray):
        return None
    # An address with an offset stays in its array; only a lone integer becomes an address.
    bases = [v for v in op.operands if is_address(v)]
    return bases if bases and is_address(value) else op.operands


def are_same_tile(x: memory.ViewMemoryOp, y: memory.ViewMemoryOp) -> bool:
    """Whether equal positions of both tiles, at the values that there are in one iteration, surely are one element."""
    return x.view.type == y.view.type and are_alike(x.view, y.view) and x.indices == y.indices
