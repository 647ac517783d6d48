"""How machine code has a team of threads run a launch, without a step in Python, whose data a launch of many bytes
drives out of the caches."""

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
    Worker,
    launch_record,
    words_of,
)
from tilewright.backends.cpu.team import TeamMemory
from tilewright.backends.cpu.threads import Scratch
from tilewright.backends.native.body import Body
from tilewright.backends.native.values import Record, Variable, Word

_TEAM, _FIELDS = tuple(words_of(Team)), tuple(words_of(Field))
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
    that of the program, which may be null, and have it run ``total`` blocks with ``%values``, as
    ``CpuExecutable._run_team`` does; the address of the records of its threads, of which the launching one is the
    first, their number, and the text of a function that this calls."""
    given = ", ".join(f"ptr {team}" for team in teams)
    found = body.op(f"call ptr @together({given}, ptr %values, i64 {total}, i64 %x, i64 %y, i64 %z)")
    body.require_object(found)
    team = Record(body, found, _TEAM)
    return team.load("RECORDS"), str(team["COUNT"]), _together(body.beside())


def _together(body: Body) -> str:
    """Apart, so that launches that need none of this have none of its memory on the stack."""
    main, blocks = body.number(openmp.MAIN_THREAD or 0), Word(body, "%total")
    body.require(_shared(body, openmp.FREE).differs(0))
    body.require(Word(body, body.call("PyThread_get_thread_ident")).equals(main))
    began, is_theirs = _now(body, "1"), Variable(body)
    team = _choose(body, began, is_theirs)
    ready, size = team.load("READY"), team["COUNT"]
    body.require(Word(body, body.load("i64", ready)).equals(1))
    _require_outside(body, team)
    threads = body.op(f"call i32 {team.load('THREADS')}()")
    threads = body.op("sext i32", f"{threads} to i64")
    body.require(size.equals(threads) & (size <= blocks))
    chunk = blocks // (size * CHUNKS_PER_THREAD)
    chunk = chunk.equals(0).choose(1, chunk)
    chunk = team["CHUNK"].equals(0).choose(chunk, team["CHUNK"])
    context = Record(body, team.load("CONTEXT"), _FIELDS)
    memmove = body.external(address_of(ctypes.memmove))
    body.op(f"call ptr {memmove}(ptr {context.address}, ptr {team.load('BEFORE')}, i64 {team['BYTES']})")
    for name, word in {"TOTAL": blocks, "CHUNK": chunk, "GRID_X": "%x", "GRID_Y": "%y", "GRID_Z": "%z"}.items():
        context[name] = word
    body.store("ptr", "%values", team.address)
    body.do(f"call void {team.load('FORK')}(ptr {team.load('CODE')}, ptr {team.address}, i32 0, i32 0)")
    ended, worker = _now(body, "1"), Record(body, body.at(context.address, WORKER_BYTES), tuple(words_of(Worker)))
    busy, done = worker["LEFT"] - worker["BEGAN"], worker["BLOCKS"]
    worth = done * int(WORTH_A_TEAM * 1e9) <= busy * blocks
    body.store("i64", worth.choose(1, 0), ready)
    with body.when(is_theirs.value.differs(0)):
        body.store("i64", ended, body.memory(openmp.LAST))
        _judge(body, busy, busy * chunk // done.equals(0).choose(1, done), ended - began)
    head = "internal ptr @together(ptr %own, ptr %theirs, ptr %values, i64 %total, i64 %x, i64 %y, i64 %z)"
    return body.named(head, f"ret ptr {team.address}\nno:\nret ptr null")


def _shared(body: Body, word: ctypes.c_int64) -> Word:
    return Word(body, body.load("i64", body.memory(word)))


def _now(body: Body, clock: str) -> Word:
    """Nanoseconds of a clock, 0 where there is none."""
    time = body.stack("[2 x i64]")
    body.store("[2 x i64]", "zeroinitializer", time)
    gettime = body.external(address_of(ctypes.CDLL(None).clock_gettime))
    body.op(f"call i32 {gettime}(i32 {clock}, ptr {time})")
    return Word(body, body.load("i64", time)) * 1_000_000_000 + body.load("i64", time, 8)


def _choose(body: Body, now: Word, is_theirs: Variable) -> Record:
    """The team of the program while its threads run, or our own."""
    own, theirs, chosen, current = "%own", "%theirs", body.stack("ptr"), _shared(body, openmp.CURRENT)
    body.store("ptr", own, chosen)
    with body.when(current.differs(0)):
        body.require_object(theirs)
        team = Record(body, theirs, _TEAM)
        _require_outside(body, team)
        body.require(team["NUMBER"].equals(current))
        is_theirs.set(1)
        with body.when(_shared(body, openmp.AWAKE) < now - _shared(body, openmp.LAST)):
            member = body.load("i32", body.memory(openmp.MEMBER))
            before = _now(body, member)
            is_theirs.set((before < _now(body, member)).choose(1, 0))
        body.store("ptr", is_theirs.value.differs(0).choose(theirs, own, "ptr"), chosen)
    found = body.load("ptr", chosen)
    body.require_object(found)
    return Record(body, found, _TEAM)


def _require_outside(body: Body, team: Record) -> None:
    """Require that the calling thread is in no parallel region."""
    body.require_equal("i32", body.op(f"call i32 {team.load('IN_PARALLEL')}()"), 0)


def _judge(body: Body, busy: Word, last: Word, taken: Word) -> None:
    """Say whether other launches may do the same: none where threads of the program's team were late. The launching
    thread was ``busy`` so long, and with the ``last`` blocks that it took at once, in a launch that has ``taken`` so
    long."""
    late, part, least = taken - busy - last, busy // int(1 / openmp.LATE_PART), int(openmp.LATE * 1e9)
    was_late = (part < least).choose(least, part) < late
    noted = body.memory(openmp.NOTED)
    body.store("i64", busy, noted)
    body.store("i64", was_late.choose(late, 0), noted, 8)
    body.store("i64", was_late.choose(0, 1), body.memory(openmp.FREE))
