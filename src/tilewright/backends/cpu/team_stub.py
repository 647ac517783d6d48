"""How machine code has a team of threads run a launch (``team_stub.ll``), without a step in Python, whose data a launch
of many bytes drives out of the caches."""

from __future__ import annotations

import ctypes
import types
from typing import Any, NamedTuple

from tilewright.backends.cpu import openmp
from tilewright.backends.cpu.context import (
    CHUNKS_PER_THREAD,
    WORKER_BYTES,
    WORTH_A_TEAM,
    Field,
    Team,
    Worker,
    launch_record,
)
from tilewright.backends.cpu.team import TeamMemory
from tilewright.backends.cpu.threads import Scratch
from tilewright.backends.native.body import Body, c_function
from tilewright.backends.native.templates import filled

# The words of records that ``team_stub.ll`` names.
_FIELDS = ("total", "chunk", "grid_x", "grid_y", "grid_z")
_WORDS = ("blocks", "began", "left")
_WORTH = int(WORTH_A_TEAM * 1e9)
_MEMORY: list[Scratch] = []  # of all such launches: the main thread begins them, and none inside of another


class TeamRecord(NamedTuple):
    """What the stub has to know of the team that runs launches of a kernel: words of 64 bits. Addresses first, then
    numbers."""

    code: Any  # that each thread calls
    ready: Any  # the word that says whether this may be: 1 where blocks have taken long enough
    records: Any  # what the records are before a launch
    context: Any  # the memory that they are copied to
    scratch: Any  # memory of the first thread
    number: Any  # functions of the runtime
    fork: Any
    threads: Any
    in_parallel: Any
    record_bytes: Any
    stride: Any  # bytes of scratch memory per thread
    size: Any  # threads
    chunk: Any  # blocks that a thread takes at a time; 0 where their number decides

    @classmethod
    def of(
        cls,
        team: tuple[openmp.Runtime, int],
        code: int,
        ready: ctypes.c_int64,
        scratch_bytes: int,
        python: int,
        chunk: int,
    ) -> tuple[TeamRecord, tuple[Any, ...]]:
        """The record of a ``team``, and what its words need to live. ``ready`` is set to 0 where blocks take less."""
        runtime, size = team
        shared = TeamMemory.of(size, scratch_bytes, True)
        if not _MEMORY or _MEMORY[0].size < shared.total:
            _MEMORY[:] = [Scratch(shared.total)]
        memory = _MEMORY[0]
        head = (ctypes.c_int64 * len(Field))(*launch_record(0, 0, (0, 0, 0), 0, python=python))
        records = ctypes.create_string_buffer(bytes(head).ljust(WORKER_BYTES, b"\0") + shared.records)
        addresses = (code, *map(ctypes.addressof, (ready, records)), memory.context, shared.scratch(memory))
        functions = map(address_of, (runtime.fork, runtime.threads, runtime.in_parallel))
        numbers = WORKER_BYTES + len(shared.records), shared.stride, size, chunk
        return cls._make([*addresses, runtime.number, *functions, *numbers]), (memory, ready, records)


def is_machine_code(runtime: openmp.Runtime) -> bool:
    """Whether the functions of ``runtime`` are such, and none of Python."""
    return not any(isinstance(f, types.FunctionType) for f in (runtime.fork, runtime.threads, runtime.in_parallel))


def address_of(function: Any) -> int:
    """Where the machine code of a function of ``ctypes`` is."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def team_launch(body: Body, record: str, total: str) -> tuple[str, str, str]:
    """Require that the team of the ``TeamRecord`` at ``record`` may be used now, and have it run ``total`` blocks with
    ``%values``; the address of the records of its threads, of which the launching one is the first, their number, and
    the text of a function that this calls."""
    worker = body.let(f"call ptr @together(ptr {record}, ptr %values, i64 {total}, i64 %x, i64 %y, i64 %z)")
    body.require(body.let(f"icmp ne ptr {worker}, null"))
    fields: dict[str, int] = {name: getattr(Field, name.upper()) for name in _FIELDS}
    fields |= {name: getattr(Worker, name.upper()) for name in _WORDS}
    numbers = {"worker_bytes": WORKER_BYTES, "chunks_per_thread": CHUNKS_PER_THREAD, "team_words": len(Team)}
    limits = {"worth": _WORTH, "late": int(openmp.LATE * 1e9), "parts": int(1 / openmp.LATE_PART)}
    functions = {
        "clock_gettime": body.external(address_of(ctypes.CDLL(None).clock_gettime)),
        "memmove": body.external(address_of(ctypes.memmove)),
        "thread_ident": body.external(c_function("PyThread_get_thread_ident")),
    }
    shared = {
        "free": body.memory(openmp.FREE),
        "noted": body.memory(openmp.NOTED),
        "main_thread": body.number(openmp.MAIN_THREAD or 0),
    }
    text = filled(__file__, "team_stub.ll", **fields, **numbers, **limits, **functions, **shared)
    return worker, body.load("i64", record, 8 * TeamRecord._fields.index("size")), text
