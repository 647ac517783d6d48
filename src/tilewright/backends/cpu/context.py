"""The records that a launch shares with the machine code: 64-bit integers."""

from __future__ import annotations

import enum


class Field(enum.IntEnum):
    """Places in the record of the launch."""

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


class Worker(enum.IntEnum):
    """Places in the record of each thread of a launch, which no other thread writes."""

    BUDGET = 0  # work that is left until it looks for signals and at the clock
    POLL = 1  # 1 + the number of the poll where it ended because of a cancellation, or BETWEEN_BLOCKS
    BLOCK = 2  # the block there, or the one whose loop waits
    STATE = 3  # address of the thread state of Python that it has left; 0 where it must not enter Python
    LOOK = 4  # when it looks for signals again, in nanoseconds
    WAITED = 5  # iterations of the waiting loop that it is in, since its last change; 0 elsewhere, ENDED at the end
    WAITS_AT = 6  # 1 + the number of the poll of this loop
    PROGRESS = 7  # changes of memory in waiting loops, such loops that ended, and blocks of theirs
    SEEN = 8  # PROGRESS at the latest iteration


class Cancellation(enum.IntEnum):
    """Why a launch ends early."""

    NONE = 0
    RAISED = 1  # a signal handler raised an exception
    TIMED_OUT = 2
    REQUESTED = 3  # by another thread


class Python(enum.IntEnum):
    """Places in the table of functions of Python."""

    SAVE_THREAD = 0
    RESTORE_THREAD = 1
    CHECK_SIGNALS = 2


PYTHON_FUNCTIONS = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals")  # in this order
WORKER_BYTES = 128  # of a record of a thread: no two share a cache line, nor a pair of them
BETWEEN_BLOCKS = -1
ENDED = -1
