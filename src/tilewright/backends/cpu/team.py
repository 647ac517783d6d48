"""A launch by the team of threads of another runtime: the memory that they share."""

from __future__ import annotations

import ctypes
import struct
from typing import NamedTuple

from tilewright.backends.cpu import threads
from tilewright.backends.cpu.context import WORKER_BYTES, Team, Worker
from tilewright.backends.cpu.openmp import Runtime

_RECORD = struct.Struct(f"={len(Team)}q")
_ZEROS = bytes(WORKER_BYTES)


class TeamMemory(NamedTuple):
    """The records and scratch memory of ``size`` threads, the launching one first, and the record of the launch."""

    memory: threads.Scratch
    size: int  # of the team that takes part
    stride: int  # bytes per thread

    @classmethod
    def take(cls, size: int, scratch_bytes: int) -> TeamMemory:
        """To be given back in the same thread, by ``give_back``."""
        stride = -(-(WORKER_BYTES + scratch_bytes) // WORKER_BYTES) * WORKER_BYTES
        found = cls(threads.take_scratch(size * stride), size, stride)
        for k in range(size):
            ctypes.memmove(found.worker(k), _ZEROS, WORKER_BYTES)
        return found

    def give_back(self) -> None:
        threads.give_scratch(self.memory)

    def worker(self, thread: int) -> int:
        """The address of the record of a thread."""
        return self.memory.worker + thread * self.stride

    def words(self, thread: int) -> ctypes.Array[ctypes.c_int64]:
        return (ctypes.c_int64 * len(Worker)).from_address(self.worker(thread))

    def run(self, runtime: Runtime, code: int, packed: bytes) -> None:
        """Have the threads of ``runtime`` call ``code``, a ``kernel_team``."""
        values = ctypes.c_char_p(packed)
        address = ctypes.cast(values, ctypes.c_void_p).value or 0
        where = address, self.memory.context, self.memory.worker
        runtime.fork(code, _RECORD.pack(*where, self.stride, self.size, runtime.number), 0, 0)
