"""How machine code has the threads of an OpenMP runtime run a launch: what ``CpuExecutable._run_team`` does, without a
step in Python, whose data a launch of many bytes drives out of the caches."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Sequence
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
from tilewright.backends.native.body import Body, pointer

_GRID = (Field.GRID_X, Field.GRID_Y, Field.GRID_Z)
_MONOTONIC = 1  # CLOCK_MONOTONIC of Linux
_WORTH = int(WORTH_A_TEAM * 1e9)
_MEMORY: list[Scratch] = []  # of all such launches: the main thread begins them, and none inside of another


class TeamRecord(NamedTuple):
    """What the stub has to know of the team that runs launches of a kernel: words of 64 bits, or the operands of
    instructions that stand for them. Addresses first, then numbers."""

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

    @classmethod
    def loaded(cls, body: Body, record: str) -> TeamRecord:
        """The words that are at ``record``."""
        numbers = cls._fields.index("record_bytes")
        kinds = ["ptr"] * numbers + ["i64"] * (len(cls._fields) - numbers)
        return cls._make(body.load(kind, record, 8 * i) for i, kind in enumerate(kinds))


def is_machine_code(runtime: openmp.Runtime) -> bool:
    """Whether the functions of ``runtime`` are such, and none of Python."""
    return not any(isinstance(f, types.FunctionType) for f in (runtime.fork, runtime.threads, runtime.in_parallel))


def address_of(function: Any) -> int:
    """Where the machine code of a function of ``ctypes`` is."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def emit_team_launch(body: Body, team: TeamRecord, total: str, grid: Sequence[str]) -> str:
    """Require that the team may be used now, and have it run ``total`` blocks with ``%values``; the address of the
    records of its threads, of which the launching one is the first."""
    size, context = team.size, team.context
    body.require_equal("i64", body.load("i64", team.ready), 1)
    body.require_equal("i64", body.load("i64", body.memory(openmp.FREE)), 1)
    body.require_equal("i64", body.call("PyThread_get_thread_ident"), openmp.MAIN_THREAD)
    body.require_equal("i32", body.let(f"call i32 {team.in_parallel}()"), 0)
    threads = body.let(f"call i32 {team.threads}()")
    body.require_equal("i64", body.let(f"sext i32 {threads} to i64"), size)
    body.require(body.let(f"icmp sge i64 {total}, {size}"))
    chunk = _unless_0(body, team.chunk, emit_blocks_together(body, total, team.size))
    copied = f"ptr {team.records}, i64 {team.record_bytes}"
    body.do(f"call ptr {pointer(address_of(ctypes.memmove))}(ptr {context}, {copied})")
    for field, value in zip((Field.TOTAL, Field.CHUNK, *_GRID), (total, chunk, *grid)):
        body.store("i64", value, context, 8 * field)
    worker, given = body.at(context, WORKER_BYTES), body.stack(f"[{len(Team)} x i64]")
    words = [("ptr", "%values"), ("ptr", context), ("ptr", worker), ("ptr", team.scratch), ("i64", team.stride)]
    for i, (kind, word) in enumerate([*words, ("i64", size), ("ptr", team.number)]):
        body.store(kind, word, given, 8 * i)
    before = _now(body)
    body.do(f"call void {team.fork}(ptr {team.code}, ptr {given}, i32 0, i32 0)")
    taken = body.let(f"sub i64 {_now(body)}, {before}")
    _judge(body, team, worker, total, chunk, taken)
    return worker


def emit_blocks_together(body: Body, total: str, threads: str) -> str:
    """``blocks_together`` in machine code."""
    chunks = body.let(f"mul i64 {threads}, {CHUNKS_PER_THREAD}")
    return _unless_0(body, body.let(f"udiv i64 {total}, {chunks}"), "1")


def _unless_0(body: Body, number: str, otherwise: str) -> str:
    return body.let(f"select i1 {body.let(f'icmp eq i64 {number}, 0')}, i64 {otherwise}, i64 {number}")


def _judge(body: Body, team: TeamRecord, worker: str, total: str, chunk: str, taken: str) -> None:
    """Whether other launches may do the same: none where threads were late, and none of this kernel where its blocks
    take so little time that one thread is enough."""
    blocks, began, left = (body.load("i64", worker, 8 * w) for w in (Worker.BLOCKS, Worker.BEGAN, Worker.LEFT))
    own = body.let(f"sub i64 {left}, {began}")
    all_of_them, limit = body.let(f"mul i64 {own}, {total}"), body.let(f"mul i64 {blocks}, {_WORTH}")
    worth = body.let(f"icmp sge i64 {all_of_them}, {limit}")
    body.store("i64", body.let(f"zext i1 {worth} to i64"), team.ready)
    last = body.let(f"udiv i64 {body.let(f'mul i64 {own}, {chunk}')}, {_unless_0(body, blocks, '1')}")
    late = body.let(f"sub i64 {body.let(f'sub i64 {taken}, {own}')}, {last}")
    part = body.let(f"udiv i64 {own}, {int(1 / openmp.LATE_PART)}")
    limits = [body.let(f"icmp sgt i64 {late}, {limit}") for limit in (int(openmp.LATE * 1e9), part)]
    was_late = body.let(f"and i1 {limits[0]}, {limits[1]}")
    noted = body.memory(openmp.NOTED)
    body.store("i64", own, noted)
    body.store("i64", body.let(f"select i1 {was_late}, i64 {late}, i64 0"), noted, 8)
    body.store("i64", body.let(f"select i1 {was_late}, i64 0, i64 1"), body.memory(openmp.FREE))


def _now(body: Body) -> str:
    """Nanoseconds of the monotonic clock."""
    time = body.stack("[2 x i64]")
    clock = pointer(address_of(ctypes.CDLL(None).clock_gettime))
    body.do(f"call i32 {clock}(i32 {_MONOTONIC}, ptr {time})")
    seconds = body.let(f"mul i64 {body.load('i64', time)}, 1000000000")
    return body.let(f"add i64 {seconds}, {body.load('i64', time, 8)}")
