"""What one access does to what a launch remembers: races, elements that were never written, and who is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.backends.reference.values import Array
from tilewright.ir.core import Op
from tilewright.ir.effects import ACQUIRES, RELEASES
from tilewright.ir.enums import MemoryOrder, MemoryScope
from tilewright.ir.ops import memory
from tilewright.sanitizer.arrays import ArrayState
from tilewright.sanitizer.events import Access
from tilewright.sanitizer.races import Race, latest
from tilewright.sanitizer.report import Related
from tilewright.sanitizer.undefined import Undefined
from tilewright.sanitizer.windows import Touched

if TYPE_CHECKING:
    from tilewright.sanitizer.block import CheckedBlock

READ, WRITE, ATOMIC = "read", "write", "atomic"
Outcome = tuple[Any, "Undefined | None"]
Locate = Callable[[int], tuple[int, ...]]


def observe(
    block: CheckedBlock,
    op: memory.MemoryOp,
    kind: str,
    array: ArrayState,
    touched: Touched,
    padding: int,
    locate: Locate,
) -> Array | None:
    """``remember`` an access, and tell the sinks of it."""
    launch = block.launch
    uninitialized = remember(block, op, kind, array, touched, locate)
    if launch.session.sinks and array.number < launch.arguments:
        order = launch.take_orders(1)
        event = Access(order, kind, block.index, op.loc, array.number, touched, array.origin, padding)
        for sink in launch.session.sinks:
            sink.access(event)
    return uninitialized


def remember(
    block: CheckedBlock, op: memory.MemoryOp, kind: str, array: ArrayState, touched: Touched, locate: Locate
) -> Array | None:
    """Check for races, and return the flags of never-written elements that are read.

    ``locate`` gives the index in the tile of a position in ``touched``.
    """
    array.note(touched, written=kind != READ)
    if array.tracked:
        race = _order(block, op, kind, array, touched)
        if race is not None:
            _report_race(block, op, array, touched, race, locate)
    if array.uninitialized is None:
        return None
    uninitialized = touched.of(array.uninitialized).copy() if kind != WRITE else None
    if kind != READ:
        touched.fill(array.uninitialized, False)
    return uninitialized if uninitialized is not None and uninitialized.any() else None


def _order(block: CheckedBlock, op: memory.MemoryOp, kind: str, array: ArrayState, touched: Touched) -> Race | None:
    races, thread = block.launch.races, block.thread
    order, scope = op.memory_order, op.memory_scope
    if order is MemoryOrder.WEAK:
        access = races.read if kind == READ else races.weak_write
        return access(thread, array, touched, op)
    released = races.released(array, touched) if scope is not MemoryScope.BLOCK else None
    thread.learns |= kind != WRITE and any(r.users for r in op.results)
    if order in ACQUIRES and thread.learns:
        thread.known = latest(thread.known, released)
    race = (races.read if kind == READ else races.strong_write)(thread, array, touched, op)
    if kind != READ:
        if order in RELEASES and scope is not MemoryScope.BLOCK:
            races.release(thread, array, touched, released if kind == ATOMIC else None)
        elif kind == WRITE:
            races.forget(array, touched)
    return race


_DOES: dict[type[Op], str] = {
    memory.Load: "reads",
    memory.LoadView: "reads",
    memory.Store: "writes",
    memory.StoreView: "writes",
}


def _report_race(
    block: CheckedBlock, op: memory.MemoryOp, array: ArrayState, touched: Touched, race: Race, locate: Locate
) -> None:
    first = int(touched.elements()[race.wrong].reshape(-1)[0])
    other = race.other
    place = array.element(first)
    does = _DOES.get(type(op), "updates")
    did = {"reads": "read", "writes": "written", "updates": "updated"}[_DOES.get(type(other.op), "updates")]
    advice = ""
    scopes = {op.memory_scope, other.op.memory_scope}
    if MemoryScope.BLOCK in scopes and MemoryScope.NONE not in scopes:
        advice = "; block scope does not reach another block"
    block.report(
        op,
        "data-race",
        f"block {block.index} {does} an element of '{place.argument}' that block {other.block} has {did}, and nothing "
        f"orders the two{advice}",
        element=locate(int(np.flatnonzero(race.wrong)[0])),
        place=place,
        related=(Related(f"{did} here", other.op.loc, other.block),),
        elements=int(race.wrong.sum()),
    )


def never_written(block: CheckedBlock, op: Op, array: ArrayState, mask: Array) -> Undefined:
    return Undefined(mask, Related(f"this element of '{array.buffer.name}' was never written", op.loc, block.index))


def require_kept(block: CheckedBlock, op: Op, undefined: Undefined | None, kept: Array | None, place: Any) -> None:
    """Report undefined elements of a stored value where ``kept``, which None means everywhere."""
    if undefined is None or undefined.reported:
        return
    wrong = undefined.mask if kept is None else undefined.mask & kept
    if wrong.any():
        element = first_true(wrong)
        block.report(
            op,
            "undefined-value",
            "an undefined value is stored",
            element=element,
            place=place(element),
            related=(undefined.origin,),
            elements=int(wrong.sum()),
        )


def not_read(op: Op, mask: Array) -> Undefined:
    """What is left of elements that could not be read."""
    return Undefined(mask, Related("not read here", op.loc), reported=True)


def first_true(mask: Array) -> tuple[int, ...]:
    """The index of the first element of which ``mask`` is true."""
    return element_of(int(np.flatnonzero(mask)[0]), mask.shape)


def element_of(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element in a tile of ``shape``."""
    return tuple(int(i) for i in np.unravel_index(int(flat), shape)) if shape else ()
