"""What memory an access reaches: arguments of the kernel and local arrays; which stores are to disjoint tiles."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tilewright.analysis.list_tables import Tables
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.arith import Add, Bitcast, Sub
from tilewright.ir.ops.control import Continue, For, If, LoopOp
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, ConvertLayout, Splat
from tilewright.ir.ops.memory import (
    AssumeBlocked,
    AssumeDivisible,
    LocalArray,
    MakePartitionView,
    MakeTensorView,
    MemoryOp,
    StoreView,
)
from tilewright.ir.ops.shape import Broadcast, Extract, IntToPtr, Permute, PtrOffset, Reshape, constant_of
from tilewright.ir.types import PartitionViewType

MemoryObject = Value | None  # what stands for the memory behind an address; None when that is unknown

# Op whose result points to where an operand points -> that operand.
_FORWARDED: dict[type[Op], Callable[[Any], Value]] = {
    **dict.fromkeys(
        (Reshape, Broadcast, Permute, Extract, AssumeDivisible, AssumeBlocked, Bitcast), operator.attrgetter("x")
    ),
    **dict.fromkeys((Splat, BroadcastDistributed, ConvertLayout), operator.attrgetter("x")),
    PtrOffset: operator.attrgetter("ptr"),
    MakeTensorView: operator.attrgetter("base"),
    MakePartitionView: operator.attrgetter("view"),
}


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
        self.tables = Tables(function)
        params = zip(function.body.args, function.params)
        alike = [v for v, p in params if function.may_alias and v.tile.is_pointer and not p.no_alias]
        self.shared: MemoryObject = alike[0] if len(alike) > 1 else None
        self._alike = set(alike)

    def underlying_object(self, value: Value) -> MemoryObject:
        """The root of the address or view ``value``; one that loops carry has one if all it may be have the same."""
        found: set[MemoryObject] = set()
        seen, pending = set[Value](), [value]
        while pending:
            at = pending.pop()
            if at in seen:
                continue
            seen.add(at)
            op, loop = at.op, at.owner.parent if isinstance(at.owner, Block) else None
            if isinstance(loop, LoopOp) and at in loop.carried:
                pending += _carried(loop, loop.carried.index(at))
            elif op is None:
                found.add(self.shared if self.shared is not None and at in self._alike else at)
            elif isinstance(op, LocalArray):
                found.add(at)
            elif isinstance(op, For):
                pending += _carried(op, at.index)
            elif isinstance(op, IntToPtr):
                found.add(self._table(op.x))
            elif (source := _FORWARDED.get(type(op))) is not None:
                pending.append(source(op))
            else:
                found.add(None)
        return found.pop() if len(found) == 1 else None

    def _table(self, address: Value) -> MemoryObject:
        """The table that the number ``address`` was read from."""
        return self.tables.loads.get(address.op) if address.op is not None else None

    def accessed(self, ops: Iterable[Op]) -> tuple[set[MemoryObject], set[MemoryObject]]:
        """The roots of what ``ops`` read, and of what they write."""
        effects = [(op, self.effect(op)) for op in ops if isinstance(op, MemoryOp)]
        reads, writes = (
            {self.underlying_object(op.address) for op, e in effects if e & kind}
            for kind in (Effect.READ, Effect.WRITE)
        )
        return reads, writes

    def effect(self, op: Op) -> Effect:
        """Whether ``op`` reads or writes memory that others may write: tables of lists are not."""
        return op.spec.effect & (Effect.READ | Effect.WRITE) if op not in self.tables.loads else Effect.NONE


def _carried(loop: LoopOp, position: int) -> Iterator[Value]:
    """What the value that ``loop`` carries at ``position`` may be."""
    yield loop.inits[position]
    for op in _continues(loop.body):
        yield op.values[position]


def _continues(block: Block) -> Iterator[Continue]:
    for op in block.ops:
        if isinstance(op, Continue):
            yield op
        elif isinstance(op, If):
            for region in op.regions:
                yield from _continues(region)


_VIEWS = (MakeTensorView, MakePartitionView)


def are_disjoint(x: Op, y: Op) -> bool:
    """Whether the stores ``x`` and ``y``, at the values that there are in one iteration, are to different tiles."""
    if not isinstance(x, StoreView) or not isinstance(y, StoreView):
        return False
    view, other = x.view, y.view
    type_ = view.type
    if not isinstance(type_, PartitionViewType) or type_ != other.type or type_.steps != type_.tile_shape:
        return False
    return _same(view, other) and any(_differ(a, b) for a, b in zip(x.indices, y.indices))


def _same(x: Value, y: Value) -> bool:
    """Whether two views are one, or made in one way of the same values."""
    if x is y:
        return True
    a, b = x.op, y.op
    if a is None or b is None or a.name != b.name or not isinstance(a, _VIEWS) or a.attributes != b.attributes:
        return False
    return len(a.operands) == len(b.operands) and all(map(_same, a.operands, b.operands))


def _differ(x: Value, y: Value) -> bool:
    """Whether two numbers differ by a constant, which they may have wrapped around."""
    (source, offset), (other, distance) = _without_constants(x), _without_constants(y)
    return x.type == y.type and source is other and (offset - distance) % (1 << x.tile.element.bitwidth) != 0


def _without_constants(number: Value) -> tuple[Value | None, int]:
    """What a constant is added to, if anything, and the sum of all constants."""
    total = 0
    while True:
        own: Any = constant_of(number)
        if own is not None:
            return None, total + int(own)
        op = number.op
        if not isinstance(op, (Add, Sub)):
            return number, total
        left, right = op.lhs, op.rhs
        added: Any = constant_of(right)
        if added is not None:
            total += int(added) if isinstance(op, Add) else -int(added)
            number = left
        elif isinstance(op, Add) and (added := constant_of(left)) is not None:
            total += int(added)
            number = right
        else:
            return number, total
