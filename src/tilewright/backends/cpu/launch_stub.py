"""How machine code runs a launch: what ``CpuExecutable.run`` does, without a step in Python."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.backends import native
from tilewright.backends.cpu.context import WORKER_BYTES, Field, Worker, launch_record
from tilewright.backends.cpu.scratch import ALIGNMENT
from tilewright.backends.cpu.team_stub import Region, emit_region, require_same_setting
from tilewright.backends.native import LaunchStub
from tilewright.backends.native.body import Body, pointer
from tilewright.system import deadlines

MAX_SCRATCH = 1 << 16  # bytes on the stack: three tiles of 4096 elements of float32, and more
_MAX_BLOCKS = 1 << 20  # along an axis: the product of three such extents fits into 64 bits
_COPIED = 4  # fields at a time
_GRID = (Field.GRID_X, Field.GRID_Y, Field.GRID_Z)
# What notes where a launch was cancelled: called with the exception, and the numbers of poll and block, and the grid.
Note = Callable[[BaseException, int, int, int, int, int], None]


def launch_stub(
    code: int,
    blocks: ctypes.c_int64,
    scratch_bytes: int,
    python: int,
    note: Note,
    together: tuple[Region, Note] | None,
    *kept: Any,
) -> LaunchStub | None:
    """The entry of a kernel that neither prints, fails nor waits: for launches of at most so many ``blocks`` at the
    time in the calling thread, and for others in the parallel region ``together``, if there is one.

    ``code`` is the address of its machine code, which lives with ``kept``, and ``python`` that of the functions it
    calls. None where it needs more scratch memory than a stack should give, and has no other.
    """
    alone = scratch_bytes <= MAX_SCRATCH
    if not alone and together is None:
        return None
    body = Body()
    total, extents = "1", ("%x", "%y", "%z")
    for extent in extents:
        body.require(body.let(f"icmp sle i64 {extent}, {_MAX_BLOCKS}"))
        total = body.let(f"mul i64 {total}, {extent}")
    body.require_equal("i64", body.load("i64", body.memory(deadlines.LIMITED)), 0)
    ran = [body.stack("ptr") for _ in range(2)]  # the record of this thread, and what notes where it was
    few = body.let(f"icmp sle i64 {total}, {body.load('i64', body.memory(blocks))}")
    body.branch(few, "alone" if alone else "no", "no" if together is None else "together")
    if alone:
        body.label("alone")
        context = body.stack(f"[{len(Field)} x i64]")
        for i, word in enumerate(launch_record(total, "1", extents, "0", python=str(python))):
            body.store("i64", word, context, 8 * i)
        scratch = body.stack(f"[{scratch_bytes} x i8]", ALIGNMENT)
        worker = body.stack(f"[{WORKER_BYTES} x i8]", ALIGNMENT)
        body.do(f"call void {pointer(code)}(ptr %values, ptr {context}, ptr {scratch}, ptr {worker})")
        _goes_on(body, ran, worker, body.reference(note))
    if together is not None:
        body.label("together")
        require_same_setting(body)
        worker = emit_region(body, together[0].constants(), "%values", total, extents)
        _goes_on(body, ran, worker, body.reference(together[1]))
    body.label("ran")
    worker, noting = (body.load("ptr", slot) for slot in ran)
    raised = _note_raised(body, worker, noting, lambda: extents)
    return LaunchStub.of(body, body.let(f"select i1 {raised}, i32 2, i32 0"), kept)


def _goes_on(body: Body, slots: Sequence[str], *values: str) -> None:
    for slot, value in zip(slots, values):
        body.store("ptr", value, slot)
    body.jump("ran")


def runner(
    code: int, arguments: Sequence[int], scratch_bytes: int, note: Note, otherwise: Callable[[], None], *kept: Any
) -> Callable[[], None]:
    """A function that runs a launch whose values and record are at the addresses ``arguments``, or calls ``otherwise``
    where a thread has a time limit. It keeps the objects ``kept`` alive."""
    maker, words = native.maker(), (code, *arguments, scratch_bytes, ctypes.addressof(deadlines.LIMITED))
    made: Callable[[], None] = maker.caller(_run_bound, words, otherwise, note, *kept)
    return made


def _run_bound(body: Body, record: str) -> None:
    """The instructions of that. The records are copied: several threads may run the launch at the same time."""
    function, values, given, size, limited = (body.load("ptr", record, 8 * i) for i in range(5))
    body.require_equal("i64", body.load("i64", limited), 0)
    count = body.let(f"ptrtoint ptr {size} to i64")
    scratch = body.let(f"alloca i8, i64 {count}, align {ALIGNMENT}")
    context, worker = body.stack(f"[{len(Field)} x i64]"), body.stack(f"[{WORKER_BYTES} x i8]", ALIGNMENT)
    for field in range(0, Field.FAILED_ELEMENT, _COPIED):
        source, target = body.at(given, 8 * field), body.at(context, 8 * field)
        several = body.let(f"load <{_COPIED} x i64>, ptr {source}, align 8")
        body.do(f"store <{_COPIED} x i64> {several}, ptr {target}, align 8")
    body.do(f"call void {function}(ptr {values}, ptr {context}, ptr {scratch}, ptr {worker})")
    note = body.call("PyTuple_GetItem", "%self", 3)
    _note_raised(body, worker, note, lambda: [body.load("i64", given, 8 * field) for field in _GRID])


def team_runner(
    region: Region, values: Any, grid: Sequence[int], note: Note, otherwise: Callable[[], None], *kept: Any
) -> Callable[[], None]:
    """A function that runs a launch with ``values`` in the parallel ``region``, or calls ``otherwise`` where the team
    is not to be used now. It keeps the objects ``kept`` alive."""
    words = (*region, ctypes.addressof(values), math.prod(grid), *grid)
    made: Callable[[], None] = native.maker().caller(_run_together, words, otherwise, note, values, *kept)
    return made


def _run_together(body: Body, record: str) -> None:
    """The instructions of that."""
    body.require_equal("i64", body.load("i64", body.memory(deadlines.LIMITED)), 0)
    count = len(Region._fields)
    values, (total, *grid) = (
        body.load("ptr", record, 8 * count),
        [body.load("i64", record, 8 * i) for i in range(count + 1, count + 5)],
    )
    worker = emit_region(body, Region.loaded(body, record), values, total, grid)
    _note_raised(body, worker, body.call("PyTuple_GetItem", "%self", 3), lambda: grid)


def _note_raised(body: Body, worker: str, note: str, grid: Callable[[], Sequence[str]]) -> str:
    """Whether a signal handler has raised, an i1. Then ``note`` gets to know where the launch was."""
    raised = body.let(f"icmp ne ptr {body.call('PyErr_Occurred')}, null")
    body.branch(raised, "cancelled", "ended")
    body.label("cancelled")
    position = [body.load("i64", worker, 8 * field) for field in (Worker.POLL, Worker.BLOCK)]
    body.note(note, [*position, *grid()])
    body.jump("ended")
    body.label("ended")
    return raised
