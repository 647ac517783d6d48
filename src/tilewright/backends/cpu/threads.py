"""The threads that run blocks, and their scratch memory."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from tilewright.system.environment import variable

_ALIGNMENT = 64
_GLANCES = 100  # at threads that are about to end: as long as it takes to sleep and be woken


def thread_count() -> int:
    """How many threads share the work of a launch: ``TILEWRIGHT_NUM_THREADS``, or the processors of this process."""
    wanted = variable("TILEWRIGHT_NUM_THREADS")
    if wanted is not None:
        if not (wanted.isascii() and wanted.isdigit()) or int(wanted) < 1:
            raise ValueError(f"TILEWRIGHT_NUM_THREADS={wanted!r} is not a positive number")
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Arena(threading.local):
    """Aligned memory that each thread keeps for its next launch."""

    def __init__(self) -> None:
        self.size = 0
        self.address = 0
        self.memory: ctypes.Array[ctypes.c_char] | None = None


_ARENA = _Arena()


def scratch(size: int) -> int:
    """The address of ``size`` bytes that belong to the calling thread until its next call."""
    if _ARENA.size < size:
        _ARENA.memory = ctypes.create_string_buffer(size + _ALIGNMENT)
        _ARENA.address = -(-ctypes.addressof(_ARENA.memory) // _ALIGNMENT) * _ALIGNMENT
        _ARENA.size = size
    return _ARENA.address


def _find_current_processor() -> Callable[[], int]:
    """A function that tells which processor its caller runs on; it says -1 where the system does not tell."""
    if hasattr(os, "sched_setaffinity"):
        ask = getattr(ctypes.CDLL(None), "sched_getcpu", None)
        if ask is not None:
            return ask
    return lambda: -1


_current_processor = _find_current_processor()


def _find_give_way() -> Callable[[], object]:
    """A function that lets other threads have the interpreter for a moment, and their processor."""
    if os.name != "posix":
        return lambda: time.sleep(0)
    found: Callable[[], object] = ctypes.CDLL(None).sched_yield  # unlike time.sleep(0), it does not sleep
    return found


_give_way = _find_give_way()


class _Job:
    """Work that several threads may join until it is closed."""

    __slots__ = ("_closed", "_helpers", "_idle", "_lock", "_work")

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._idle = threading.Lock()  # held while ``finish`` has to wait
        self._helpers = 0
        self._closed = False

    def help(self) -> None:
        """Take part, unless the work is done."""
        with self._lock:
            if self._closed:
                return
            self._helpers += 1
        try:
            self._work()
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._helpers -= 1
            if self._closed and not self._helpers:
                self._idle.release()

    def finish(self) -> None:
        """Admit no more threads, and wait for those that take part. What a signal handler raises meanwhile, as that of
        Ctrl-C does, is raised after that: threads write to the arrays of the launch, which nobody may keep."""
        raised: BaseException | None = None
        while True:
            try:
                self._wait()
                break
            except BaseException as e:  # noqa: BLE001 - whatever it is, it has to wait, too
                raised = e
        if raised is not None:
            raise raised

    def _wait(self) -> None:
        """Does what is left of that where it was left before."""
        with self._lock:
            if self._helpers and not self._idle.locked():
                self._idle.acquire()
            self._closed = True
        for _ in range(_GLANCES):
            if not self._helpers:
                return
            _give_way()
        self._idle.acquire()


class Pool:
    """Threads that wait for work and live as long as the process."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[int] = []  # their numbers in the system
        self._started = 0
        self._wanted = 0  # by the launches that are running
        self._avoided = -1

    def run(self, work: Callable[[], None], threads: int, *, all_needed: bool = False) -> None:
        """Call ``work`` in this thread and in up to ``threads - 1`` others; return when all calls have ended.

        Every call of this method gets threads of its own, as blocks of one kernel may wait for each other. Where the
        system gives no more threads, the others do the work; with ``all_needed`` that is a RuntimeError.
        """
        job = _Job(work)
        missing = self._change_demand(threads - 1)
        try:
            if missing and all_needed:
                raise RuntimeError(
                    f"blocks of this kernel wait for each other and need {threads} threads, but the system gives "
                    f"{missing} fewer: raise its limit of threads (ulimit -u), or launch fewer blocks"
                )
            self._make_way(threads)
            for _ in range(threads - 1 - missing):
                self._jobs.put(job)
            work()
        finally:
            try:
                job.finish()
            finally:
                self._change_demand(1 - threads)

    def _change_demand(self, change: int) -> int:
        """Want ``change`` more threads; returns how many the system did not give."""
        with self._lock:
            self._wanted += change
            for _ in range(self._started, self._wanted):
                try:
                    threading.Thread(target=self._serve, name="tilewright", daemon=True).start()
                except RuntimeError:  # can't start new thread
                    break
                self._started += 1
            return max(0, self._wanted - self._started)

    def _make_way(self, threads: int) -> None:
        """Keep the threads off the processor that this one runs on, where each can have one of its own.

        Systems like to wake a thread where its waker runs, and take milliseconds to notice that another processor is
        idle: longer than many launches.
        """
        here = _current_processor()
        if here == self._avoided:
            return
        allowed = os.sched_getaffinity(0)
        here = here if 1 < threads <= len(allowed) else -1
        with self._lock:
            if here != self._avoided:
                self._avoided = here
                for thread in self._threads:
                    _restrict(thread, allowed - {here})

    def _serve(self) -> None:
        with self._lock:
            self._threads.append(threading.get_native_id())
            if self._avoided >= 0:
                _restrict(self._threads[-1], os.sched_getaffinity(0) - {self._avoided})
        while True:
            self._jobs.get().help()


def _restrict(thread: int, processors: set[int]) -> None:
    """Let ``thread`` run on ``processors`` only. A wish: what the system refuses costs time, not correctness."""
    with suppress(OSError):
        os.sched_setaffinity(thread, processors)


POOL = Pool()


def _reset_after_fork() -> None:
    """The threads of the parent process do not exist in the child."""
    POOL.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
