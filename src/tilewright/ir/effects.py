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
    if effect_of(op) != Effect.NONE or op.spec.terminator:
        return False
    # A loop may not end, and a branch with a jump decides about what follows it.
    return not any(nested.name in ("loop", "break") for nested in op.walk()) and not jumps_out(op)


def jumps_out(op: Op) -> bool:
    """Whether ``op`` contains a ``continue`` or ``break`` of a loop around it."""
    if op.name in ("for", "loop"):
        return False
    return op.name in ("continue", "break") or any(jumps_out(o) for region in op.regions for o in region.ops)
