"""How machine code has a team of threads run a launch (``team_stub.ll``), without a step in Python, whose data a launch
of many bytes drives out of the caches."""

from __future__ import annotations

import ctypes
import types
from typing import Any

from tilewright.backends.cpu import openmp
from tilewright.backends.cpu.context import (
    CHUNKS_PER_THREAD,
    WORKER_BYTES,
    WORTH_A_TEAM,
    WORTH_WAKING,
    Field,
    Team,
    launch_record,
    named_words,
)
from tilewright.backends.cpu.team import TeamMemory
from tilewright.backends.cpu.threads import Scratch
from tilewright.backends.native.body import Body, c_function
from tilewright.backends.native.templates import filled

_WORTH, _WORTH_WAKING = int(WORTH_A_TEAM * 1e9), int(WORTH_WAKING * 1e9)
_ALONE = 1  # what stands for the launching thread, where one has the address of the records of threads
_MEMORY: list[Scratch] = []  # of all such launches: the main thread begins them, and none inside of another


def team_record(
    team: tuple[openmp.Runtime, int],
    code: int,
    known: tuple[ctypes.c_int64, ctypes.c_int64],
    scratch_bytes: int,
    python: int,
    chunk: int,
) -> tuple[list[int], tuple[Any, ...]]:
    """The words of ``context.Team`` for launches by a ``team``, and what these need to live. What is ``known`` of
    blocks are the words READY and FEW, which launches write, too."""
    ready, few = known
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
        Team.FEW: ctypes.addressof(few),
        Team.BEFORE: ctypes.addressof(before),
        Team.FORK: address_of(runtime.fork),
        Team.THREADS: address_of(runtime.threads),
        Team.IN_PARALLEL: address_of(runtime.in_parallel),
        Team.BYTES: WORKER_BYTES + len(shared.records),
        Team.CHUNK: chunk,
    }
    return [words.get(word, 0) for word in range(len(Team))], (memory, known, before)


def is_machine_code(runtime: openmp.Runtime) -> bool:
    """Whether the functions of ``runtime`` are such, and none of Python."""
    return not any(isinstance(f, types.FunctionType) for f in (runtime.fork, runtime.threads, runtime.in_parallel))


def address_of(function: Any) -> int:
    """Where the machine code of a function of ``ctypes`` is."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def team_launch(body: Body, record: str, total: str, can_alone: str, alone: str) -> tuple[str, str, str]:
    """Require that the team whose ``context.Team`` is at ``record`` may be used now, and have it run ``total`` blocks
    with ``%values``; the address of the records of its threads, of which the launching one is the first, their number,
    and the text of a function that this calls. Go to the label ``alone`` where the launching thread ``can_alone`` (i1)
    and the others sleep, and are not worth waking."""
    known = body.load("i64", body.load("ptr", record, 8 * Team.FEW))
    few = body.let(f"select i1 {can_alone}, i64 {known}, i64 0")
    worker = body.let(f"call ptr @together(ptr {record}, ptr %values, i64 {total}, i64 %x, i64 %y, i64 %z, i64 {few})")
    body.require(body.let(f"icmp ne ptr {worker}, null"))
    body.unless(body.let(f"icmp eq ptr {worker}, inttoptr (i64 {_ALONE} to ptr)"), alone)
    numbers = {"worker_bytes": WORKER_BYTES, "chunks_per_thread": CHUNKS_PER_THREAD, "alone": _ALONE}
    limits = {"worth": _WORTH, "worth_waking": _WORTH_WAKING, "late": int(openmp.LATE * 1e9)}
    limits["parts"] = int(1 / openmp.LATE_PART)
    functions = {
        "clock_gettime": body.external(address_of(ctypes.CDLL(None).clock_gettime)),
        "memmove": body.external(address_of(ctypes.memmove)),
        "thread_ident": body.external(c_function("PyThread_get_thread_ident")),
    }
    shared = {
        "free": body.memory(openmp.FREE),
        "noted": body.memory(openmp.NOTED),
        "last": body.memory(openmp.LAST),
        "awake": body.memory(openmp.AWAKE),
        "member": body.memory(openmp.MEMBER),
        "main_thread": body.number(openmp.MAIN_THREAD or 0),
    }
    text = filled(__file__, "team_stub.ll", **named_words(), **numbers, **limits, **functions, **shared)
    return worker, body.load("i64", record, 8 * Team.COUNT), text
