"""How machine code has a team of threads run a launch (``team_stub.ll``), without a step in Python, whose data a launch
of many bytes drives out of the caches."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Sequence
from typing import Any

from tilewright.backends.cpu import openmp
from tilewright.backends.cpu.context import (
    CHUNKS_PER_THREAD,
    WORKER_BYTES,
    WORTH_A_TEAM,
    Field,
    Team,
    launch_record,
    named_words,
)
from tilewright.backends.cpu.team import TeamMemory
from tilewright.backends.cpu.threads import Scratch
from tilewright.backends.native.body import Body, c_function
from tilewright.backends.native.templates import filled

_WORTH = int(WORTH_A_TEAM * 1e9)
_MEMORY: list[Scratch] = []  # of all such launches: the main thread begins them, and none inside of another


def team_record(
    team: tuple[openmp.Runtime, int],
    code: int,
    ready: ctypes.c_int64,
    scratch_bytes: int,
    python: int,
    chunk: int,
) -> tuple[ctypes.Array[ctypes.c_int64], tuple[Any, ...]]:
    """A ``context.Team`` for launches by a ``team``, and what these need to live. Launches write to the word READY."""
    runtime, size = team
    shared = TeamMemory.of(size, scratch_bytes, True)
    if not _MEMORY or _MEMORY[0].size < shared.total:
        _MEMORY[:] = [Scratch(shared.total)]
    memory = _MEMORY[0]
    head = (ctypes.c_int64 * len(Field))(*launch_record(0, 0, (0, 0, 0), 0, python=python))
    before = ctypes.create_string_buffer(bytes(head).ljust(WORKER_BYTES, b"\0") + shared.records)
    words = {
        Team.CONTEXT: memory.context,
        Team.RECORDS: memory.worker,
        Team.SCRATCH: shared.scratch(memory),
        Team.STRIDE: shared.stride,
        Team.COUNT: size,
        Team.NUMBER: runtime.number,
        Team.CODE: code,
        Team.READY: ctypes.addressof(ready),
        Team.BEFORE: ctypes.addressof(before),
        Team.FORK: address_of(runtime.fork),
        Team.THREADS: address_of(runtime.threads),
        Team.IN_PARALLEL: address_of(runtime.in_parallel),
        Team.BYTES: WORKER_BYTES + len(shared.records),
        Team.CHUNK: chunk,
    }
    return (ctypes.c_int64 * len(Team))(*(words.get(word, 0) for word in range(len(Team)))), (memory, ready, before)


def is_machine_code(runtime: openmp.Runtime) -> bool:
    """Whether the functions of ``runtime`` are such, and none of Python."""
    return not any(isinstance(f, types.FunctionType) for f in (runtime.fork, runtime.threads, runtime.in_parallel))


def address_of(function: Any) -> int:
    """Where the machine code of a function of ``ctypes`` is."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def team_launch(body: Body, teams: Sequence[str], total: str) -> tuple[str, str, str]:
    """Require that a team may be used now, of those whose ``context.Team`` is at the addresses ``teams``, our own and
    that of the program, which may be null, and have it run ``total`` blocks with ``%values``; the address of the
    records of its threads, of which the launching one is the first, their number, and the text of a function that this
    calls."""
    given = ", ".join(f"ptr {team}" for team in teams)
    team = body.let(f"call ptr @together({given}, ptr %values, i64 {total}, i64 %x, i64 %y, i64 %z)")
    body.require(body.let(f"icmp ne ptr {team}, null"))
    numbers = {"worker_bytes": WORKER_BYTES, "chunks_per_thread": CHUNKS_PER_THREAD}
    limits = {"worth": _WORTH, "late": int(openmp.LATE * 1e9)}
    limits["parts"] = int(1 / openmp.LATE_PART)
    functions = {
        "clock_gettime": body.external(address_of(ctypes.CDLL(None).clock_gettime)),
        "memmove": body.external(address_of(ctypes.memmove)),
        "thread_ident": body.external(c_function("PyThread_get_thread_ident")),
    }
    shared = {
        "free": body.memory(openmp.FREE),
        "noted": body.memory(openmp.NOTED),
        "current": body.memory(openmp.CURRENT),
        "last": body.memory(openmp.LAST),
        "awake": body.memory(openmp.AWAKE),
        "member": body.memory(openmp.MEMBER),
        "main_thread": body.number(openmp.MAIN_THREAD or 0),
    }
    text = filled(__file__, "team_stub.ll", **named_words(), **numbers, **limits, **functions, **shared)
    return body.load("ptr", team, 8 * Team.RECORDS), body.load("i64", team, 8 * Team.COUNT), text
