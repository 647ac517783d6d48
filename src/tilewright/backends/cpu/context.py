"""What launches from Python, from libraries, and from other compilers' programs have in common.

The records that a launch shares with the machine code, of 64-bit integers, and how blocks are shared among threads.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")
Axes = tuple[int, int, int]  # a number for each axis of the grid, or these in another order


class _Words(type):
    """Makes classes whose attributes are the words of a record. Enumerations take longer to make than a kernel from the
    disk cache takes to load."""

    def __len__(cls) -> int:
        return len(words_of(cls))


def words_of(record: type) -> dict[str, int]:
    """The words of a record, or other numbers that have names, in order."""
    return {name: value for name, value in vars(record).items() if not name.startswith("_")}


class Field(metaclass=_Words):
    """Words of the record of the launch."""

    NEXT = 0  # the next block to run; threads add CHUNK to take so many blocks
    TOTAL = 1
    CHUNK = 2
    GRID_X = 3
    GRID_Y = 4
    GRID_Z = 5
    FAILED = 6  # 1 + the number of the assert that failed first
    FAILED_BLOCK = 7
    PRINT = 8  # address of the function that prints
    CANCELLED = 9  # a Cancellation
    DEADLINE = 10  # when the launch is cancelled, in nanoseconds of the monotonic clock; 0 for never
    PYTHON = 11  # address of a table of functions: see Python; 0 where no signals are to be looked for
    FAILED_ELEMENT = 12  # the first false element of its condition
    FAILED_VALUE = 13  # the values of the assert there
    FAILED_VALUE_2 = 14
    FAILED_VALUE_3 = 15


class Worker(metaclass=_Words):
    """Words of the record of each thread of a launch, which no other thread writes, but for TAKEN and HELPERS."""

    BUDGET = 0  # work that is left until it looks for signals and at the clock
    POLL = 1  # 1 + the number of the poll where it ended because of a cancellation, or BETWEEN_BLOCKS
    BLOCK = 2  # the block there, or the one whose loop waits
    STATE = 3  # address of the thread state of Python that it has left; 0 where it must not enter Python
    LOOK = 4  # when it looks for signals again, in nanoseconds
    WAITED = 5  # iterations of the waiting loop that it is in, since its last change; 0 elsewhere, ENDED at the end;
    # also 0 for an iteration that changed memory by what decides how the loop goes on
    WAITS_AT = 6  # 1 + the number of the poll of this loop
    PROGRESS = 7  # changes of memory in waiting loops, such loops that ended, and blocks of theirs
    SEEN = 8  # PROGRESS at the latest iteration
    HELPERS = 9  # of the first worker, which the thread is that launches: how many others are at work
    BLOCKS = 10  # how many blocks it has taken
    BEGAN = 11  # of the thread that launches: when it began to take blocks, in nanoseconds of the monotonic clock
    LEFT = 12  # of the thread that launches: when it found none left
    SHARE = 13  # which of the records, which follow each other, this one is, and which range of blocks it begins with
    SHARES = 14  # ranges, where each worker has one; 0 where all share one
    TAKEN = 15  # blocks of its range that threads have taken


class Team(metaclass=_Words):
    """Words of the record of a launch by a team of threads. Those from CODE on are for machine code that launches."""

    VALUES = 0  # addresses: of the arguments, the record of the launch, and the records and scratch memory of threads
    CONTEXT = 1
    RECORDS = 2
    SCRATCH = 3
    STRIDE = 4  # bytes of scratch memory per thread
    COUNT = 5  # threads that take part
    NUMBER = 6  # address of the function that tells a thread its number
    CODE = 7  # addresses: of what each thread calls,
    READY = 8  # of the word that says whether this may be: 1 where blocks have taken long enough,
    BEFORE = 9  # of what the records of the launch and of the threads are before it,
    FORK = 10  # and of functions of the runtime
    THREADS = 11
    IN_PARALLEL = 12
    BYTES = 13  # of the records
    CHUNK = 14  # blocks that a thread takes at a time; 0 where their number decides


class Watch(metaclass=_Words):
    """Words of the record of looks at blocks that wait for each other: see ``codegen/drivers.ll``. For each worker, the
    address of its record follows, and how long it had waited when memory changed last."""

    PATIENCE = 0  # nanoseconds without a change after which no block can progress
    SINCE = 1  # when memory changed last, in nanoseconds of the monotonic clock
    WAITING = 2  # workers that have waited since
    PROGRESS = 3  # of all workers together
    COUNT = 4  # workers
    NEXT = 5  # the next block to run, at the look before
    BEGAN = 6  # when a block began, or a worker was in no waiting loop, by the same clock


class Cancellation(metaclass=_Words):
    """Why a launch ends early."""

    NONE = 0
    RAISED = 1  # a signal handler raised an exception
    TIMED_OUT = 2
    REQUESTED = 3  # by another thread


class Python(metaclass=_Words):
    """Words of the table of what a process has once: functions of Python, and the record of ``Exclusion``."""

    SAVE_THREAD = 0
    RESTORE_THREAD = 1
    CHECK_SIGNALS = 2
    EXCLUSION = 3


class Exclusion(metaclass=_Words):
    """Words of the record by which launches keep off each other's sums: see ``codegen/locked_sums.py``. From LOCKS on,
    each lock has a line of its own."""

    SWAPPING = 0  # workers whose blocks update memory by atomic instructions
    LOCKING = 8  # workers whose blocks only update it where they have a lock
    LOCKS = 16


@functools.cache
def named_words() -> dict[str, int]:
    """The words of all these records by their names in texts, such as ``field_total``."""
    records = Field, Worker, Team, Watch, Cancellation, Python, Exclusion
    return {f"{r.__name__}_{name}".lower(): word for r in records for name, word in words_of(r).items()}


LOCKS, LOCK_WORDS = 1024, 8  # each on a line of its own
EXCLUSION_WORDS = Exclusion.LOCKS + LOCKS * LOCK_WORDS
LOCKED_BYTES = 1 << 14  # of memory that follow each other have one lock; others may have the same
PYTHON_FUNCTIONS = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals")  # in this order
WORKER_BYTES = 8 * len(Worker)  # of a record of a thread: no two share a cache line, nor a pair of them
BETWEEN_BLOCKS = -1
ENDED = -1
STUCK = -1  # what a look finds where no block can progress

# Blocks that wait for each other begin with a thread for each processor, as those that take turns hand over soonest
# there. More are started when all blocks that have begun wait: for at least so many iterations of a waiting loop, and
# without a change of memory between two looks of the launching thread, which takes one after so many seconds. The
# iterations let other threads run, together for about as long as it takes to wake one (benchmarks/cpu_costs.py). A look
# takes a few us, so that those after the shortest time are less than 1 % of a processor.
WAITS = 64
SHORTEST_TICK, LONGEST_TICK = 0.001, 0.02
TOO_FEW_THREADS = (
    "blocks of this kernel wait for each other and need more than %d threads, but the system gives no more: raise its "
    "limit of threads (ulimit -u), or launch fewer blocks"
)
# A launch is stuck when all blocks have waited for so many iterations, and so many seconds, without a change: only a
# thread of the host may still change the memory. After 256 iterations they sleep (``codegen/drivers.py``), so that
# these are some that a thread has made after a sleep.
STUCK_ITERATIONS, PATIENCE = 300, 5.0
# Element operations, of 0.5 ns for most: as long as waking a thread, some 50 us (benchmarks/cpu_costs.py).
WORTH_A_THREAD = 100_000
# Seconds that all blocks together must have taken lately, for a launch to share them: about twice what waking threads
# of ours costs the one that launches, or a parallel region whose threads spin (benchmarks/cpu_costs.py). Chosen by hand
# on two processors.
WORTH_A_POOL, WORTH_A_TEAM = 110e-6, 5e-6
# Threads take several blocks at a time, few enough that the last one that a thread takes is at most 2 % of its work.
CHUNKS_PER_THREAD = 64


def worker_records(count: int, *, ranges: bool) -> bytes:
    """The records of ``count`` workers before a launch, each with a range of the blocks, or none."""
    words = [0] * (count * len(Worker))
    words[Worker.SHARE :: len(Worker)] = range(count)
    if ranges:
        words[Worker.SHARES :: len(Worker)] = [count] * count
    return struct.pack(f"={len(words)}q", *words)


def blocks_alone(block_work: int | None) -> int:
    """How many blocks are never worth another thread; ``block_work`` is what each does, if that is known."""
    return 1 if block_work is None else max(1, (WORTH_A_THREAD - 1) // max(block_work, 1))


def block_index(number: int, grid: Axes, axes: Axes) -> Axes:
    """The index of a block in ``grid`` by its number in the order of ``axes``."""
    index = [0, 0, 0]
    for axis in axes[:2]:
        number, index[axis] = divmod(number, grid[axis])
    index[axes[2]] = number
    return index[0], index[1], index[2]


def blocks_together(total: int, threads: int) -> int:
    """How many of ``total`` blocks a thread takes at a time, where none waits for another."""
    return max(1, total // (threads * CHUNKS_PER_THREAD))


def launch_record(
    total: _T, chunk: _T, grid: Sequence[_T], nothing: _T, *, printer: _T | None = None, python: _T | None = None
) -> list[_T]:
    """The record of a launch of ``total`` blocks before it begins: numbers for Python, or the text of instructions.

    ``nothing`` stands for 0.
    """
    fields = [nothing] * len(Field)
    fields[Field.TOTAL], fields[Field.CHUNK] = total, chunk
    fields[Field.GRID_X], fields[Field.GRID_Y], fields[Field.GRID_Z] = grid
    if printer is not None:
        fields[Field.PRINT] = printer
    if python is not None:
        fields[Field.PYTHON] = python
    return fields
