"""How machine code has the threads of an OpenMP runtime run a launch: what ``CpuExecutable._run_team`` does, without a
step in Python, whose data a launch of many bytes drives out of the caches."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

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
from tilewright.backends.cpu.team import Layout
from tilewright.backends.cpu.threads import Scratch
from tilewright.backends.native.body import Body, pointer
from tilewright.system import environment

_GRID = (Field.GRID_X, Field.GRID_Y, Field.GRID_Z)
_MONOTONIC = 1  # CLOCK_MONOTONIC of Linux
_WORTH = int(WORTH_A_TEAM * 1e9)
_MEMORY: list[Scratch] = []  # of all such launches: the main thread begins them, and none inside of another


Word: TypeAlias = "int | str"


class Region(NamedTuple):
    """The parallel region of a launch, in words of 64 bits, or the operands of instructions that stand for them.

    Addresses first: of the code that each thread calls, of the word that says whether this may be, of what the records
    are before a launch, and of the memory that they are copied to; of the scratch memory of the first thread, and of
    functions of the runtime. Then numbers.
    """

    code: Word
    ready: Word
    records: Word
    context: Word
    scratch: Word
    number: Word
    fork: Word
    threads: Word
    in_parallel: Word
    record_bytes: Word
    stride: Word  # bytes of scratch memory per thread
    size: Word  # threads
    chunk: Word  # blocks that a thread takes at a time; 0 where their number decides

    @classmethod
    def of(
        cls, runtime: openmp.Runtime, code: int, ready: ctypes.c_int64, scratch_bytes: int, python: int, chunk: int
    ) -> tuple[Region, Scratch, tuple[Any, ...]] | None:
        """The region for a kernel that neither prints, fails nor waits, the memory of its records, and what else it
        needs to live. None for a runtime whose functions are no machine code.

        The word ``ready`` is 1 where blocks have taken long enough, and set to 0 where they do not.
        """
        functions = [_address(f) for f in (runtime.fork, runtime.threads, runtime.in_parallel)]
        if not all(functions):
            return None
        size = runtime.threads()
        layout = Layout.of(size, scratch_bytes, True)
        if not _MEMORY or _MEMORY[0].size < layout.total:
            _MEMORY[:] = [Scratch(layout.total)]
        memory = _MEMORY[0]
        head = (ctypes.c_int64 * len(Field))(*launch_record(0, 0, (0, 0, 0), 0, python=python))
        records = ctypes.create_string_buffer(bytes(head).ljust(WORKER_BYTES, b"\0") + layout.records)
        addresses = (code, *map(ctypes.addressof, (ready, records)), memory.context, layout.scratch(memory))
        numbers = WORKER_BYTES + len(layout.records), layout.stride, size, chunk
        made = cls._make([*addresses, runtime.number, *functions, *numbers])
        return made, memory, (ready, records)

    def constants(self) -> Region:
        """The words as constants."""
        return Region._make(pointer(int(word)) if i < _ADDRESSES else word for i, word in enumerate(self))

    @classmethod
    def loaded(cls, body: Body, record: str) -> Region:
        """The words that are at ``record``."""
        kinds = ["ptr"] * _ADDRESSES + ["i64"] * (len(cls._fields) - _ADDRESSES)
        return cls._make(body.load(kind, record, 8 * i) for i, kind in enumerate(kinds))


_ADDRESSES = Region._fields.index("record_bytes")


def team_positions(memory: Scratch) -> list[tuple[int, int]]:
    """Where the threads of the latest launch with the records in ``memory`` were when it was cancelled: the numbers of
    poll and block."""
    size = (ctypes.c_int64 * len(Worker)).from_address(memory.worker)[Worker.SHARES]
    words = ((ctypes.c_int64 * len(Worker)).from_address(memory.worker + k * WORKER_BYTES) for k in range(size))
    return [(w[Worker.POLL], w[Worker.BLOCK]) for w in words]


def _address(function: Callable[..., Any]) -> int:
    """Where the machine code of a function of ``ctypes`` is; 0 for one of Python."""
    try:
        return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
    except ctypes.ArgumentError:
        return 0


def require_same_setting(body: Body) -> None:
    """Require that the user wants as many threads as when these instructions were made."""
    key, variables = environment.lookup("TILEWRIGHT_NUM_THREADS")
    body.require_entry(variables, key, variables.get(key))


def emit_region(body: Body, region: Region, values: str, total: str, grid: Sequence[str]) -> str:
    """Require that the team may be used now, and have it run ``total`` blocks; the address of the record of the
    launching thread. Operands are those of instructions."""
    size = region.size
    body.require_equal("i64", body.load("i64", str(region.ready)), 1)
    body.require_equal("i64", body.load("i64", body.memory(openmp.FREE)), 1)
    body.require_equal("i64", body.call("PyThread_get_thread_ident"), openmp.MAIN_THREAD)
    body.require_equal("i32", body.let(f"call i32 {region.in_parallel}()"), 0)
    threads = body.let(f"call i32 {region.threads}()")
    body.require_equal("i64", body.let(f"sext i32 {threads} to i64"), size)
    body.require(body.let(f"icmp sge i64 {total}, {size}"))
    context, chunk = str(region.context), _chunk(body, region, total)
    copy = pointer(_c_function("memcpy"))
    body.do(f"call ptr {copy}(ptr {context}, ptr {region.records}, i64 {region.record_bytes})")
    for field, value in zip((Field.TOTAL, Field.CHUNK, *_GRID), (total, chunk, *grid)):
        body.store("i64", value, context, 8 * field)
    worker = body.at(context, WORKER_BYTES)
    record = body.stack(f"[{len(Team)} x i64]")
    for i, value in enumerate((values, context, worker, str(region.scratch))):
        body.store("ptr", value, record, 8 * i)
    for which, number in ((Team.STRIDE, region.stride), (Team.COUNT, size)):
        body.store("i64", number, record, 8 * which)
    body.store("ptr", region.number, record, 8 * Team.NUMBER)
    before = _now(body)
    body.do(f"call void {region.fork}(ptr {region.code}, ptr {record}, i32 0, i32 0)")
    taken = body.let(f"sub i64 {_now(body)}, {before}")
    _judge(body, region, worker, total, chunk, taken)
    return worker


def _chunk(body: Body, region: Region, total: str) -> str:
    """How many blocks a thread takes at a time: see ``blocks_together``."""
    threads = body.let(f"mul i64 {region.size}, {CHUNKS_PER_THREAD}")
    found = body.let(f"udiv i64 {total}, {threads}")
    found = body.let(f"add i64 {found}, {body.let(f'zext i1 {_is(body, found, 0)} to i64')}")
    return body.let(f"select i1 {_is(body, region.chunk, 0)}, i64 {found}, i64 {region.chunk}")


def _is(body: Body, value: object, number: int) -> str:
    return body.let(f"icmp eq i64 {value}, {number}")


def _judge(body: Body, region: Region, worker: str, total: str, chunk: str, taken: str) -> None:
    """Whether other launches may do the same: none where threads were late, and none of this kernel where its blocks
    take so little time that one thread is enough."""
    blocks, began, left = (body.load("i64", worker, 8 * w) for w in (Worker.BLOCKS, Worker.BEGAN, Worker.LEFT))
    own = body.let(f"sub i64 {left}, {began}")
    all_of_them, limit = body.let(f"mul i64 {own}, {total}"), body.let(f"mul i64 {blocks}, {_WORTH}")
    worth = body.let(f"icmp sge i64 {all_of_them}, {limit}")
    body.store("i64", body.let(f"zext i1 {worth} to i64"), str(region.ready))
    some = body.let(f"add i64 {blocks}, {body.let(f'zext i1 {_is(body, blocks, 0)} to i64')}")
    last = body.let(f"udiv i64 {body.let(f'mul i64 {own}, {chunk}')}, {some}")
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
    body.do(f"call i32 {pointer(_c_function('clock_gettime'))}(i32 {_MONOTONIC}, ptr {time})")
    seconds = body.let(f"mul i64 {body.load('i64', time)}, 1000000000")
    return body.let(f"add i64 {seconds}, {body.load('i64', time, 8)}")


def _c_function(name: str) -> int:
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0
