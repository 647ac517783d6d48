"""A launch by the team of threads of another runtime: the memory that they share."""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
from typing import NamedTuple

from tilewright.backends.cpu import threads
from tilewright.backends.cpu.context import WORKER_BYTES, Team, worker_records
from tilewright.backends.cpu.openmp import Runtime
from tilewright.backends.cpu.scratch import aligned

_RECORD = struct.Struct(f"={Team.CODE}q")  # what threads read
# The address of the bytes that it is given, which live as long as whoever gave them has them.
_ADDRESS = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyBytes_AsString", ctypes.pythonapi))


class TeamMemory(NamedTuple):
    """How the memory of a launch by ``size`` threads is divided, behind the record of the launch: the records of the
    threads, the launching one first, then their scratch memory. Each is the first to write to its own, so that it lies
    where the thread runs."""

    size: int  # threads
    total: int  # bytes
    unit: int  # the alignment of scratch memory
    stride: int  # bytes of scratch memory per thread
    records: bytes  # of the threads, before the launch

    @classmethod
    @functools.lru_cache
    def of(cls, size: int, scratch_bytes: int, ranges: bool) -> TeamMemory:
        """``ranges``: each thread begins with blocks of its own (``codegen/drivers.ll``)."""
        unit = WORKER_BYTES if scratch_bytes < mmap.PAGESIZE else mmap.PAGESIZE
        stride, records = aligned(scratch_bytes, unit), worker_records(size, ranges=ranges)
        return cls(size, len(records) + unit + size * stride, unit, stride, records)

    def take(self) -> threads.Scratch:
        """Memory with the records, until ``threads.give_scratch`` gets it back in the same thread."""
        memory = threads.take_scratch(self.total)
        ctypes.memmove(memory.worker, self.records, len(self.records))
        return memory

    def scratch(self, memory: threads.Scratch) -> int:
        """The address of the scratch memory of the launching thread, which that of the others follows."""
        return aligned(memory.worker + len(self.records), self.unit)

    def run(self, memory: threads.Scratch, runtime: Runtime, code: int, packed: bytes) -> None:
        """Have the threads of ``runtime`` call ``code``, a ``kernel_team``."""
        where = _ADDRESS(packed), memory.context, memory.worker, self.scratch(memory)
        runtime.fork(code, _RECORD.pack(*where, self.stride, self.size, runtime.number), 0, 0)
