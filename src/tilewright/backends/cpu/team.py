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

_RECORD = struct.Struct(f"={len(Team)}q")
# The address of the bytes that it is given, which live as long as whoever gave them has them.
_ADDRESS = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyBytes_AsString", ctypes.pythonapi))


class Layout(NamedTuple):
    """How the memory of a team is divided."""

    total: int  # bytes
    unit: int  # the alignment of scratch memory
    stride: int  # bytes of scratch memory per thread
    records: bytes  # of the threads, before the launch

    @classmethod
    @functools.lru_cache
    def of(cls, size: int, scratch_bytes: int, ranges: bool) -> Layout:
        unit = WORKER_BYTES if scratch_bytes < mmap.PAGESIZE else mmap.PAGESIZE
        stride, records = aligned(scratch_bytes, unit), worker_records(size, ranges=ranges)
        return cls(len(records) + unit + size * stride, unit, stride, records)

    def scratch(self, memory: threads.Scratch) -> int:
        """The address of the scratch memory of the launching thread, which that of the others follows."""
        return aligned(memory.worker + len(self.records), self.unit)


class TeamMemory(NamedTuple):
    """The records of ``size`` threads, the launching one first, then their scratch memory, and the record of the
    launch. Each thread is the first to write to its scratch memory, so that it lies where the thread runs."""

    memory: threads.Scratch
    size: int  # of the team that takes part
    layout: Layout

    @classmethod
    def take(cls, size: int, scratch_bytes: int, *, ranges: bool) -> TeamMemory:
        """To be given back in the same thread, by ``give_back``. ``ranges``: each thread begins with blocks of its own
        (``codegen/shares.py``)."""
        layout = Layout.of(size, scratch_bytes, ranges)
        memory = threads.take_scratch(layout.total)
        memory.grid = None
        ctypes.memmove(memory.worker, layout.records, len(layout.records))
        return cls(memory, size, layout)

    def give_back(self) -> None:
        threads.give_scratch(self.memory)

    def run(self, runtime: Runtime, code: int, packed: bytes) -> None:
        """Have the threads of ``runtime`` call ``code``, a ``kernel_team``."""
        layout, memory = self.layout, self.memory
        where = _ADDRESS(packed), memory.context, memory.worker, layout.scratch(memory)
        runtime.fork(code, _RECORD.pack(*where, layout.stride, self.size, runtime.number), 0, 0)
