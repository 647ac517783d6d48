"""Loops that may wait for what other blocks write."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import SIDE_EFFECTS, has_early_exit, has_effect, is_ordered
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.control import Continue, If, Loop, deciding_values, ends_of, incoming
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw
from tilewright.ir.ops.shape import Constant
from tilewright.ir.reachable import operands_within, reachable


def may_wait(op: Op) -> bool:
    """Whether ``op`` is a loop that may wait for another block: one with ordered memory operations in its body, or one
    that goes on for ever once it does, unless others change memory."""
    return isinstance(op, Loop) and (any(map(is_ordered, op.walk())) or _decides_the_same(op))


def waits_at(loop: Loop) -> Op:
    """The memory operation of a waiting loop that can tell it to go on; the loop where none has an order."""
    ordered = [op for op in loop.walk() if is_ordered(op)]
    return next((op for op in ordered if op.spec.effect & Effect.READ), ordered[0] if ordered else loop)


def advances(loop: Loop) -> bool:
    """Whether ``loop`` goes on by what its own atomic updates find, as one does that takes work from a counter: it gets
    on where these change memory. An update by 0 is a load."""

    def before(value: Value) -> Iterable[Value]:
        ways = (value.op.condition,) if isinstance(value.op, If) else ()
        return [*ways, *(incoming(value) or operands_within(value))]

    def updates(op: Op | None) -> bool:
        is_load = isinstance(op, AtomicRmw) and isinstance(op.value.op, Constant) and op.value.op.value == 0
        return isinstance(op, (AtomicRmw, AtomicCas)) and not is_load

    ends = [op.condition for op in loop.walk() if isinstance(op, If) and has_early_exit(op)]
    return any(updates(value.op) for value in reachable(ends, before))


def _decides_the_same(loop: Loop) -> bool:
    """Whether, some iterations on, each decides what the one before it did: it writes nothing, and nothing that it
    decides by comes from what it counts or accumulates."""
    again = [end for end in ends_of(loop) if isinstance(end, Continue)]
    if not again or has_effect(loop, SIDE_EFFECTS):
        return False
    settled: dict[Value, bool] = {}  # false while what makes a carried value is looked at

    def settles(arg: Value) -> bool:
        following = [end.values[arg.index] for end in again]
        if arg not in settled and any(value is not arg for value in following):
            settled[arg] = False
            settled[arg] = all(map(settles, _carried_sources(loop, following)))
        return settled.setdefault(arg, True)

    return all(map(settles, _carried_sources(loop, [v for op in loop.walk() for v in deciding_values(op)])))


def _carried_sources(loop: Loop, values: Iterable[Value]) -> Iterable[Value]:
    """What ``loop`` carries that ``values`` are computed from in the same iteration."""

    def sources(value: Value) -> list[Value]:
        owner = value.owner.parent if isinstance(value.owner, Block) else value.owner
        if not isinstance(owner, Op) or owner is loop or owner.ancestor_in(loop.body) is None:
            return []
        return [operand for op in owner.walk() for operand in op.operands]

    found = set(reachable(values, sources))
    return [arg for arg in loop.body.args if arg in found]
