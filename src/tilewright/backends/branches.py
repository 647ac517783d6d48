"""Values of LLVM IR that depend on where control comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir


def phi_of(builder: ir.IRBuilder, *incoming: tuple[ir.Value, ir.Block]) -> ir.PhiInstr:
    """One of the ``incoming`` values: the one that stands with the block that control comes from."""
    found = builder.phi(incoming[0][0].type)
    for value, block in incoming:
        found.add_incoming(value, block)
    return found


def choose(
    builder: ir.IRBuilder,
    condition: ir.Value,
    yes: Callable[[], Sequence[ir.Value]],
    no: Callable[[], Sequence[ir.Value]],
    *,
    likely: bool | None = None,
) -> list[ir.Value]:
    """What ``yes`` emits and gives where ``condition`` holds, else what ``no`` does."""
    given: list[list[tuple[ir.Value, ir.Block]]] = []
    with builder.if_else(condition, likely) as branches:
        for branch, emit in zip(branches, (yes, no)):
            with branch:
                values = emit()
                given.append([(v, builder.block) for v in values])
    return [phi_of(builder, *pair) for pair in zip(*given)]
