"""How machine code runs a launch: what ``CpuExecutable.launch`` does, without a step in Python."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tilewright.backends.cpu.context import WORKER_BYTES, Field, launch_record
from tilewright.backends.cpu.scratch import ALIGNMENT
from tilewright.backends.cpu.team_stub import address_of, team_launch
from tilewright.backends.native import LaunchStub
from tilewright.backends.native.body import Body
from tilewright.backends.native.code import stub_code
from tilewright.system import deadlines, environment

_MAX_SCRATCH = 1 << 16  # bytes on the stack: three tiles of 4096 elements of float32, and more
_MAX_BLOCKS = 1 << 20  # along an axis: the product of three such extents fits into 64 bits
_THREADS = "TILEWRIGHT_NUM_THREADS"
# What notes where a launch was cancelled: called with the exception, the address of the records of threads and their
# number, and the grid.
Note = Callable[[BaseException, int, int, int, int, int], None]
_NOTE = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_void_p, *[ctypes.c_int64] * 4)


class _KernelRecord(NamedTuple):
    """What the stub has to know of a kernel: words of 64 bits, or the operands of instructions that stand for them."""

    code: Any  # addresses: of what runs blocks in the calling thread, of the most blocks for which it is to
    blocks: Any
    python: Any  # of the functions of Python that it calls
    note: Any  # and of a ``Note``
    scratch_bytes: Any
    own: Any  # addresses: of the ``context.Team`` of our own team, and of that of the program; 0 where there is none
    theirs: Any


def launch_stub(
    code: int,
    blocks: ctypes.c_int64,
    scratch_bytes: int,
    python: int,
    note: Note,
    teams: Mapping[bool, tuple[Any, tuple[Any, ...]]],
    *kept: Any,
) -> LaunchStub:
    """The entry of a kernel that neither prints, fails nor waits: for launches of at most so many ``blocks`` at the
    time in the calling thread, and for others by our own team or, with True, that of the program: each comes with what
    it needs to live.

    ``code`` is the address of its machine code, which lives with ``kept``, and ``python`` that of the functions it
    calls. Where a launch in this thread needs more scratch memory than a stack should give, it has no effect.
    """
    noted = _NOTE(note)
    addresses = code, ctypes.addressof(blocks), python, address_of(noted)
    words = _KernelRecord(
        *addresses, scratch_bytes, *(ctypes.addressof(teams[k][0]) if k in teams else 0 for k in (False, True))
    )
    key, variables = environment.lookup(_THREADS)
    made, needed = _code(variables.get(key), bool(teams))
    return LaunchStub(made, (ctypes.c_uint64 * len(words))(*words), (needed, blocks, noted, teams, kept))


@functools.cache
def _code(setting: Any, by_team: bool) -> tuple[Any, Any]:
    """The code of all stubs with a team, or without, that are made where the variable for the number of threads is
    ``setting``, and what it needs to live."""
    body = Body()
    kinds = ["ptr"] * 4 + ["i64"] + ["ptr"] * 2
    kernel = _KernelRecord._make(body.load(kind, "%record", 8 * i) for i, kind in enumerate(kinds))
    total, extents, others = "1", ("%x", "%y", "%z"), ""
    for extent in extents:
        body.require(body.let(f"icmp sle i64 {extent}, {_MAX_BLOCKS}"))
        total = body.let(f"mul i64 {total}, {extent}")
    body.require_equal("i64", body.load("i64", body.memory(deadlines.LIMITED)), 0)
    records, count = body.stack("ptr"), body.stack("i64")  # of the threads that take part
    fits = body.let(f"icmp ule i64 {kernel.scratch_bytes}, {_MAX_SCRATCH}")
    few = body.let(f"icmp sle i64 {total}, {body.load('i64', kernel.blocks)}")
    body.branch(few, "alone", "together" if by_team else "no")
    body.label("alone")
    body.require(fits)
    context = body.stack(f"[{len(Field)} x i64]")
    for i, word in enumerate(launch_record(total, "1", extents, "0", python=kernel.python)):
        body.store("ptr" if i == Field.PYTHON else "i64", word, context, 8 * i)
    scratch = body.let(f"alloca i8, i64 {kernel.scratch_bytes}, align {ALIGNMENT}")
    worker = body.stack(f"[{WORKER_BYTES} x i8]", ALIGNMENT)
    body.do(f"call void {kernel.code}(ptr %values, ptr {context}, ptr {scratch}, ptr {worker})")
    body.store("ptr", worker, records)
    body.store("i64", 1, count)
    body.jump("ran")
    if by_team:
        body.label("together")
        key, variables = environment.lookup(_THREADS)
        body.require_entry(variables, key, setting)
        worker, members, others = team_launch(body, (kernel.own, kernel.theirs), total)
        body.store("ptr", worker, records)
        body.store("i64", members, count)
        body.jump("ran")
    body.label("ran")
    raised = body.let(f"icmp ne ptr {body.call('PyErr_Occurred')}, null")
    body.branch(raised, "cancelled", "ended")
    body.label("cancelled")
    where = f"ptr {body.load('ptr', records)}, i64 {body.load('i64', count)}, i64 %x, i64 %y, i64 %z"
    body.note(kernel.note, where)
    body.jump("ended")
    body.label("ended")
    return stub_code(body, body.let(f"select i1 {raised}, i32 2, i32 0"), others), body.kept
