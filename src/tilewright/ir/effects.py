"""Memory effects of ops, nested regions included."""

from __future__ import annotations

from tilewright.ir.core import Op
from tilewright.ir.enums import MemoryOrder
from tilewright.ir.opdef import Effect


def effect_of(op: Op) -> Effect:
    """What ``op`` and everything nested in it may do.

    A strong memory operation may order the weak ones around it, so it counts as both a read and a write.
    """
    effect = op.spec.effect
    order = op.attributes.get("memory_order", MemoryOrder.WEAK)
    if effect & (Effect.READ | Effect.WRITE) and order is not MemoryOrder.WEAK:
        effect |= Effect.READ | Effect.WRITE
    for region in op.regions:
        for nested in region.ops:
            effect |= effect_of(nested)
    return effect


def is_pure(op: Op) -> bool:
    """True when ``op`` can be removed if unused, repeated, or moved: no effect, and no way out of a region."""
    return effect_of(op) == Effect.NONE and not op.spec.terminator and not _may_not_terminate(op)


def _may_not_terminate(op: Op) -> bool:
    return any(nested.name == "loop" for nested in op.walk())
