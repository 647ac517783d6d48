"""The threads that run blocks, and their scratch memory."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Set
from contextlib import suppress
from queue import SimpleQueue

import numpy as np

from tilewright.backends.cpu.context import LONGEST_TICK, SHORTEST_TICK, TOO_FEW_THREADS, WORKER_BYTES
from tilewright.backends.cpu.scratch import ALIGNMENT
from tilewright.system.environment import number_of_threads
from tilewright.system.processors import available_processors

INVITED = 2  # threads that each one wakes: the launching one begins its own work soon, and 64 are there in six steps


def thread_count() -> int:
    """How many threads share the work of a launch: ``TILEWRIGHT_NUM_THREADS``, or the processors of this process."""
    wanted = number_of_threads()
    return available_processors() if wanted is None else wanted


class Scratch:
    """Aligned memory for one thread of a launch: ``size`` bytes at ``address``, a record at ``worker``, and another one
    for the launch at ``context``, which begins at ``offset`` of ``memory``.

    Large memory comes untouched from the system, which places a page where the thread runs that writes to it first."""

    __slots__ = ("address", "context", "memory", "offset", "size", "worker")

    def __init__(self, size: int) -> None:
        self.size = size
        zeros = np.zeros(size + 2 * WORKER_BYTES + ALIGNMENT, np.uint8)
        self.memory = zeros.data
        start = zeros.ctypes.data
        self.context = -(-start // ALIGNMENT) * ALIGNMENT
        self.offset = self.context - start
        self.worker = self.context + WORKER_BYTES
        self.address = self.worker + WORKER_BYTES


class _Kept(threading.local):
    """What each thread keeps for its next launches: one, or several where signal handlers launch kernels as well."""

    def __init__(self) -> None:
        self.free: list[Scratch] = []
        self.number = 0


_KEPT = _Kept()


def number() -> int:
    """Which thread of the pool the calling one is, from 1; 0 for one that is none of it."""
    return _KEPT.number


def take_scratch(size: int) -> Scratch:
    """Memory of at least ``size`` bytes, until ``give_scratch`` gets it back in the same thread."""
    free = _KEPT.free
    found = free.pop() if free else None
    return found if found is not None and found.size >= size else Scratch(size)


def give_scratch(memory: Scratch) -> None:
    _KEPT.free.append(memory)


# Which processor the calling thread runs on, -1 where the system does not tell or lets nobody choose.
_system = ctypes.CDLL(None) if hasattr(os, "sched_setaffinity") else None
current_processor: Callable[[], int] = getattr(_system, "sched_getcpu", lambda: -1)


class _Job:
    """Work that several threads may join until it is closed."""

    __slots__ = (
        "_abandoned",
        "_cancel",
        "_closed",
        "_done",
        "_guests",
        "_helpers",
        "_idle",
        "_lock",
        "_queue",
        "_work",
    )

    def __init__(
        self, work: Callable[[], object], cancel: Callable[[], None], queue: SimpleQueue[_Job], guests: int
    ) -> None:
        """``guests`` threads that wait at ``queue`` are to help."""
        self._work = work
        self._queue, self._guests = queue, guests
        self._cancel = cancel
        self._lock = threading.Lock()
        self._idle = threading.Lock()  # held while ``finish`` has to wait
        self._done = threading.Lock()  # held until threads have taken part and all of them have left
        self._done.acquire()
        self._helpers = 0
        self._closed = self._abandoned = False

    def invite(self, most: int = INVITED) -> None:
        """Wake threads to help."""
        with self._lock:
            count = min(most, self._guests)
            self._guests -= count
        for _ in range(count):
            self._queue.put(self)

    def help(self) -> None:
        """Take part, unless the work is done, and first wake some of those that are still to help."""
        with self._lock:
            if self._closed:
                return
            self._helpers += 1
        try:
            self.invite()
            self._work()
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._helpers -= 1
            if not self._helpers:
                if self._done.locked():  # no longer where a thread has left before
                    self._done.release()
                if self._idle.locked():
                    self._idle.release()

    def is_done(self, seconds: float) -> bool:
        """Whether a thread has taken part and none does after at most so many seconds."""
        return self._done.acquire(timeout=seconds)

    def finish(self) -> None:
        """Admit no more threads, and wait for those that take part. What a signal handler raises meanwhile, as that of
        Ctrl-C does, cancels the work, and is raised after that: threads write to the arrays of the launch, which nobody
        may keep."""
        raised: BaseException | None = None
        while True:
            try:
                self._wait()
                break
            except BaseException as e:  # noqa: BLE001 - whatever it is, it has to wait, too
                self._cancel()
                raised = e
        if raised is not None:
            raise raised

    def abandon(self) -> None:
        """Admit no more threads, and wait for none: those that take part have nothing left to do."""
        with self._lock:
            self._closed = self._abandoned = True

    def _wait(self) -> None:
        """Does what is left of that where it was left before."""
        with self._lock:
            self._closed = True
            if self._abandoned or not self._helpers:
                return
            if not self._idle.locked():
                self._idle.acquire()
        self._idle.acquire()


class Pool:
    """Threads that wait for work and live as long as the process."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.RLock()  # a signal handler that launches may interrupt what has it
        self._threads: list[int] = []  # their numbers in the system
        self._started = 0
        self._wanted = 0  # by the launches that are running
        self._kept: tuple[int, Set[int]] = -1, frozenset()  # the processor that they keep off, and the set they have
        self.is_shared = False
        self.take: Callable[[int], int] = lambda wanted: wanted
        self.give: Callable[[int], object] = lambda count: None

    def share(self, take: Callable[[int], int], give: Callable[[int], object]) -> None:
        """Share the processors with threads of others: ``take`` says how many of so many threads may help a launch, if
        its blocks need no thread each, and ``give`` gets them back."""
        self.take, self.give, self.is_shared = take, give, True

    def run(
        self,
        work: Callable[[], object],
        threads: int,
        own: Callable[[], object],
        cancel: Callable[[], None] = lambda: None,
    ) -> None:
        """Call ``work`` in up to ``threads - 1`` other threads, and ``own`` in this one, which waits for what they do.
        What is raised in this thread meanwhile calls ``cancel``, which is to end them soon, and waits for them.

        Every call of this method gets threads of its own, as blocks of one kernel may wait for each other. Where the
        system gives no more threads, the others do the work.
        """
        granted = self.take(threads - 1) if threads > 1 else 0
        missing = self._change_demand(threads - 1)
        job = _Job(work, cancel, self._jobs, min(granted, threads - 1 - missing))
        try:
            self._make_way(threads)
            job.invite()
            own()
            job.abandon()
        except BaseException:
            cancel()
            raise
        finally:
            try:
                job.finish()
            finally:
                self._finish(job, threads - 1)
                self.give(granted)

    def supervise(
        self, work: Callable[[], object], threads: int, watch: Callable[[int], int] | None, cancel: Callable[[], None]
    ) -> None:
        """Call ``work`` in up to ``threads`` other threads, as many as the system gives, and again and again ``watch``
        in this one, which says how many more than those that it is given are needed; return when all calls have ended.
        Without ``watch`` none are needed, and this thread works where there is no other one.

        RuntimeError where the system gives no thread that is needed.
        """
        missing = self._change_demand(threads)
        job = _Job(work, cancel, self._jobs, threads - missing)
        try:
            self._make_way(1)
            job.invite(threads)
            if missing == threads and watch is None:
                job.help()
            started, tick = threads - missing, SHORTEST_TICK
            if not started and watch is not None:
                _start_for(job, 0)
                started = 1
            while not job.is_done(tick):
                more = watch(started) if watch is not None else 0
                tick = SHORTEST_TICK if more else min(tick * 1.5, LONGEST_TICK)
                for _ in range(more):
                    _start_for(job, started)
                    started += 1
        except BaseException:
            cancel()
            raise
        finally:
            try:
                job.finish()
            finally:
                self._finish(job, threads)

    def _finish(self, job: _Job, threads: int) -> None:
        """For the end of a launch whose ``job.finish`` a signal handler may have ended before that began."""
        try:
            job.finish()
        finally:
            self._change_demand(-threads)

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
        if (here := current_processor()) < 0:
            return
        allowed = os.sched_getaffinity(0)
        kept = here if 1 < threads <= len(allowed) else -1, allowed
        with self._lock:
            if kept != self._kept:
                self._kept = kept
                for thread in self._threads:
                    restrict(thread, allowed - {kept[0]})

    def _serve(self) -> None:
        with self._lock:
            self._threads.append(threading.get_native_id())
            _KEPT.number = len(self._threads)
            if self._kept[1]:
                restrict(self._threads[-1], {*self._kept[1]} - {self._kept[0]})
        while True:
            self._jobs.get().help()


def _start_for(job: _Job, others: int) -> None:
    """Start a thread for one job, beside so many others."""
    try:
        threading.Thread(target=job.help, name="tilewright", daemon=True).start()
    except RuntimeError as e:  # can't start new thread
        raise RuntimeError(TOO_FEW_THREADS % others) from e


def restrict(thread: int, processors: set[int]) -> None:
    """Let ``thread`` run on ``processors`` only. A wish: what the system refuses costs time, not correctness."""
    with suppress(OSError):
        os.sched_setaffinity(thread, processors)


POOL = Pool()


def _reset_after_fork() -> None:
    """The threads of the parent process do not exist in the child."""
    POOL.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
