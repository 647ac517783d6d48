"""Packed operands that stay in scratch memory from one block to the next: see ``loops.pack_panels``.

In front of the panels are three words and the indices of the loop that filled them: how many panels are filled, whether
this run of the loop fills more, and whether the indices came again. Panels of new indices are filled the first time
where those before came again, else the second time: blocks that share nothing only compare.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import IntEnum

from llvmlite import ir

from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.index import as_value, sub
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.loops.pack_panels import STATE_WORDS, panel_bytes, panel_indices, state_bytes
from tilewright.backends.vector.types import I1, I8, I64
from tilewright.ir.ops.control import For
from tilewright.ir.ops.loops import LoopNest
from tilewright.records import NamedTuple


class _Word(IntEnum):
    FILLED, FILLING, REPEATED = range(STATE_WORDS)


class Rearrangement(NamedTuple):
    """How panels are kept for their reader: ``emit`` rearranges the buffer of the nest to a panel of so many bytes."""

    bytes: int
    emit: Callable[[ir.Value], None]


def emit_panel(
    state: State, nest: LoopNest, emit: Callable[[Buffer], None], rearrangement: Rearrangement | None
) -> None:
    """Bind the result of ``nest`` to the panel of this iteration, which ``emit`` fills if need be; where there is none,
    to its buffer, or with a ``rearrangement`` to a panel behind all others."""
    builder, (offset, count), (result,) = state.builder, nest.panels, nest.results
    size, buffer = panel_bytes(nest), state.tile_buffer(result)
    start = offset + state_bytes(nest)
    other = buffer.pointer
    if rearrangement is not None:
        count = count * size // rearrangement.bytes - 1
        size = rearrangement.bytes
        other = builder.gep(state.scratch, [I64(start + count * size)], source_etype=I8)
    assert nest.block is not None and isinstance(nest.block.parent, For)
    counter, lower = (state.index(v) for v in (nest.block.args[0], nest.block.parent.lower))
    iteration = as_value(sub(builder, counter, lower))
    indices = [as_value(state.index(v)) for v in panel_indices(nest)]
    state.panels.append(offset)

    def word(k: int) -> ir.Value:
        return _word(builder, state.scratch, offset, k)

    known = [builder.load(word(STATE_WORDS + k), typ=I64) for k in range(len(indices))]
    same = functools.reduce(builder.and_, map(functools.partial(builder.icmp_signed, "=="), known, indices), I1(1))
    first = builder.icmp_signed("==", iteration, I64(0))
    with builder.if_then(first):
        again = builder.zext(same, I64)
        builder.store(builder.select(same, I64(1), builder.load(word(_Word.REPEATED), typ=I64)), word(_Word.FILLING))
        builder.store(again, word(_Word.REPEATED))
        builder.store(builder.mul(builder.load(word(_Word.FILLED), typ=I64), again), word(_Word.FILLED))
        for k, value in enumerate(indices):
            builder.store(value, word(STATE_WORDS + k))
    ours = builder.or_(same, first)
    filled = builder.load(word(_Word.FILLED), typ=I64)
    filling = builder.icmp_signed("!=", builder.load(word(_Word.FILLING), typ=I64), I64(0))
    found = builder.and_(ours, builder.icmp_signed("<", iteration, filled))
    room = builder.and_(builder.icmp_signed("==", iteration, filled), builder.icmp_signed("<", iteration, I64(count)))
    fill = builder.and_(builder.and_(ours, filling), room)
    panel = builder.gep(state.scratch, [builder.add(builder.mul(iteration, I64(size)), I64(start))], source_etype=I8)
    kept = builder.select(builder.or_(found, fill), panel, other)
    with builder.if_then(builder.not_(found)):
        emit(buffer if rearrangement is not None else buffer._replace(pointer=kept))
        if rearrangement is not None:
            rearrangement.emit(kept)
        with builder.if_then(fill):
            builder.store(builder.add(iteration, I64(1)), word(_Word.FILLED))
    state.bind(result, buffer._replace(pointer=kept))


def forgetting_panels(offsets: list[int]) -> list[str]:
    """Instructions before a launch, as the arrays may have changed; the panels are at ``offsets`` of ``%scratch``."""
    words = [offset + 8 * k for offset in offsets for k in (_Word.FILLED, _Word.REPEATED)]
    addresses = [f"%panel{at} = getelementptr i8, ptr %scratch, i64 {at}" for at in words]
    return [*addresses, *(f"store i64 0, ptr %panel{at}" for at in words)]


def _word(builder: ir.IRBuilder, scratch: ir.Value, offset: int, k: int) -> ir.Value:
    return builder.gep(scratch, [I64(offset + 8 * k)], source_etype=I8)
