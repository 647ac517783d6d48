"""A launch by the team of threads of another runtime: the memory that they share."""

from __future__ import annotations

import ctypes
import mmap
import struct
from typing import NamedTuple

from tilewright.backends.cpu import threads
from tilewright.backends.cpu.context import WORKER_BYTES, Team, Worker, worker_records
from tilewright.backends.cpu.openmp import Runtime
from tilewright.backends.cpu.scratch import aligned

_RECORD = struct.Struct(f"={len(Team)}q")


class TeamMemory(NamedTuple):
    """The records of ``size`` threads, the launching one first, then their scratch memory, and the record of the
    launch. Each thread is the first to write to its scratch memory, so that it lies where the thread runs."""

    memory: threads.Scratch
    size: int  # of the team that takes part
    scratch: int  # the address of that of the launching thread
    stride: int  # bytes of scratch memory per thread

    @classmethod
    def take(cls, size: int, scratch_bytes: int, *, ranges: bool) -> TeamMemory:
        """To be given back in the same thread, by ``give_back``. ``ranges``: each thread begins with blocks of its own
        (``codegen/shares.py``)."""
        unit = WORKER_BYTES if scratch_bytes < mmap.PAGESIZE else mmap.PAGESIZE
        stride, records = aligned(scratch_bytes, unit), size * WORKER_BYTES
        memory = threads.take_scratch(records + unit + size * stride)
        ctypes.memmove(memory.worker, worker_records(size, ranges=ranges), records)
        return cls(memory, size, aligned(memory.worker + records, unit), stride)

    def give_back(self) -> None:
        threads.give_scratch(self.memory)

    def worker(self, thread: int) -> int:
        """The address of the record of a thread."""
        return self.memory.worker + thread * WORKER_BYTES

    def words(self, thread: int) -> ctypes.Array[ctypes.c_int64]:
        return (ctypes.c_int64 * len(Worker)).from_address(self.worker(thread))

    def run(self, runtime: Runtime, code: int, packed: bytes) -> None:
        """Have the threads of ``runtime`` call ``code``, a ``kernel_team``."""
        values = ctypes.c_char_p(packed)
        address = ctypes.cast(values, ctypes.c_void_p).value or 0
        where = address, self.memory.context, self.memory.worker, self.scratch
        runtime.fork(code, _RECORD.pack(*where, self.stride, self.size, runtime.number), 0, 0)
