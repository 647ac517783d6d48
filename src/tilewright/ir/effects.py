"""Memory effects of ops, nested regions included."""

from __future__ import annotations

import functools
from typing import TypeGuard

from tilewright.ir.core import Op
from tilewright.ir.enums import MemoryOrder
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.control import Break, Continue, Loop, LoopOp
from tilewright.ir.ops.memory import MemoryOp

_NONE, _READ_WRITE = Effect.NONE, Effect.READ | Effect.WRITE  # combining flags takes longer than all the rest here
SIDE_EFFECTS = Effect.WRITE | Effect.OUTPUT

ACQUIRES = (MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL)
RELEASES = (MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)


def acquires(op: Op) -> bool:
    """Whether what follows ``op`` must not run before it, in any thread."""
    return isinstance(op, MemoryOp) and op.memory_order in ACQUIRES


def is_ordered(op: Op) -> TypeGuard[MemoryOp]:
    """Whether ``op`` is a memory operation with a memory order, as atomics have one: such are not weak."""
    return isinstance(op, MemoryOp) and not op.is_weak


def effect_of(op: Op) -> Effect:
    """What ``op`` and everything nested in it may do.

    An ordered memory operation may order the weak ones around it, so it counts as both a read and a write.
    """
    effect = op.spec.effect
    if is_ordered(op):
        effect |= _READ_WRITE
    for region in op.regions:
        for nested in region.ops:
            if (inner := effect_of(nested)) is not _NONE:
                effect |= inner
    return effect


def has_effect(op: Op, effects: Effect) -> bool:
    """Whether ``op`` or what is nested in it has one of the ``effects``."""
    effect = effect_of(op)
    return effect is not _NONE and bool(effect & effects)


@functools.cache
def _has_pure_kind(kind: type[Op]) -> bool:
    """Whether all ops of ``kind`` are pure: most are of such, and are asked for often."""
    spec = kind.spec
    return spec.effect is _NONE and not spec.terminator and not spec.regions and not issubclass(kind, MemoryOp)


def is_pure(op: Op) -> bool:
    """True when ``op`` can be removed if unused, repeated, or moved: no effect, and no way out of a region."""
    if _has_pure_kind(type(op)):  # type: ignore[arg-type]
        return True
    spec = op.spec
    if spec.effect is not _NONE or spec.terminator or effect_of(op) is not _NONE:
        return False
    if not op.regions:
        return True
    # A loop may not end, and a branch with a jump decides about what follows it.
    return not any(isinstance(nested, (Loop, Break)) for nested in op.walk()) and not has_early_exit(op)


def has_early_exit(op: Op) -> bool:
    """Whether ``op`` contains a ``continue`` or ``break`` of a loop around it."""
    if isinstance(op, LoopOp):
        return False
    if isinstance(op, (Continue, Break)):
        return True
    return any(map(has_early_exit, (o for region in op.regions for o in region.ops if o.regions or o.spec.terminator)))
