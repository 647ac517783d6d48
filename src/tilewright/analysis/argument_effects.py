"""Which kernel arguments a function reads and writes through pointers."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.core import Function, Value
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.control import For, If, LoopOp, PassingOp
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, Load, LoadView, LocalArray, MemoryOp
from tilewright.ir.types import PartitionViewType, TensorViewType, TileType

# Among the names of arguments: the block's own memory, and an address that was stored there.
_LOCAL, _UNKNOWN = "", "?"
_LOADS = (Load, LoadView, AtomicRmw, AtomicCas)


@dataclass(frozen=True)
class ArgumentEffects:
    """Names of the kernel arguments whose memory is read, and of those whose memory is written."""

    read: frozenset[str]
    written: frozenset[str]


def argument_effects(function: Function) -> ArgumentEffects:
    """The effects of ``function`` on its arguments.

    Addresses are followed through every op that passes them on; one loaded from the table of a list argument
    belongs to that argument. An address of unknown origin counts as every argument's.
    """
    roots = argument_roots(function)
    read: set[str] = set()
    written: set[str] = set()
    every = {p.argument for p, a in zip(function.params, function.body.args) if _addresses(a)}
    for op in function.walk():
        if not isinstance(op, MemoryOp):
            continue
        touched = roots.get(op.address) or every
        if _UNKNOWN in touched:
            touched = every
        if op.spec.effect & Effect.READ:
            read |= touched
        if op.spec.effect & Effect.WRITE:
            written |= touched
    return ArgumentEffects(frozenset(read - {_LOCAL}), frozenset(written - {_LOCAL}))


def _addresses(value: Value) -> bool:
    t = value.type
    return t.is_pointer if isinstance(t, TileType) else isinstance(t, (TensorViewType, PartitionViewType))


def _carries(value: Value) -> bool:
    """Whether ``value`` can hold an address: views, pointers, and the 64-bit integers of a list's table."""
    t = value.type
    return not isinstance(t, TileType) or t.is_pointer or t.element.bitwidth == 64


def argument_roots(function: Function) -> dict[Value, set[str]]:
    """For each value that may hold an address, the arguments it may come from."""
    roots: dict[Value, set[str]] = {}
    for p, a in zip(function.params, function.body.args):
        if _addresses(a):
            roots[a] = {p.argument}
    for op in function.walk():
        if isinstance(op, LocalArray):
            roots[op.result] = {_LOCAL}
    changed = True
    while changed:
        changed = _propagate(function, roots)
    return roots


def _propagate(function: Function, roots: dict[Value, set[str]]) -> bool:
    changed = False

    def flow(source: Value, target: Value) -> None:
        nonlocal changed
        found = roots.get(source)
        if found and target.op is not None and isinstance(target.op, _LOADS):
            found = {_UNKNOWN if name == _LOCAL else name for name in found}
        if found and _carries(target) and not found <= roots.get(target, set()):
            roots[target] = roots.get(target, set()) | found
            changed = True

    for op in function.walk():
        if isinstance(op, LoopOp):
            for i, (init, carried) in enumerate(zip(op.inits, op.carried)):
                flow(init, carried)
                if isinstance(op, For):
                    flow(carried, op.results[i])
        elif isinstance(op, PassingOp):
            for v, r in zip(op.values, op.receivers):
                flow(v, r)
        elif not isinstance(op, If):
            bases = [v for v in op.operands if _addresses(v)]
            for r in op.results:  # an address with an offset stays in its array; only a lone integer becomes an address
                for v in bases if bases and _addresses(r) else op.operands:
                    flow(v, r)
    return changed
