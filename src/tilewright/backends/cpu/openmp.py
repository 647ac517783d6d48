"""Launches by a team of threads: of an OpenMP runtime that the program uses already, as PyTorch does, or of our own.

Threads of OpenMP wait actively for more work, for milliseconds after each parallel region: threads of our own would
share their processors with them. So where PyTorch has been imported, the blocks of a launch are a parallel region.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tilewright.backends import native
from tilewright.backends.cpu import on_demand, threads
from tilewright.records import NamedTuple

_SOFT = 1  # omp_pause_soft
# Launches in several threads after which LLVM is loaded for a team of our own: about as many as lose without it what
# that takes. See benchmarks/results/cpu_notes.md.
_ENOUGH = 300
_FEW = 1  # such launches before a team is made where LLVM is loaded: one is not worth what this takes
# Seconds, about what threads of our own cost more on 16 processors, and of the time of the launch.
LATE, LATE_PART = 1e-3, 0.25
_LONGEST_PENALTY = 1024  # launches
MAIN_THREAD = threading.main_thread().ident  # in a child, whose main thread may be another, no team is used
# For machine code: whether the main thread may use the team without asking (``team_stub.py``), and what the arguments
# of ``note_use`` are for its latest launch, in nanoseconds, where threads were late.
FREE, NOTED = ctypes.c_int64(0), (ctypes.c_int64 * 2)(0, 0)
# When the team last ran a launch, or should have; and after how long without one a short launch is to leave it alone,
# but not the one after that. OpenMP waits for all threads of a region: to wake one takes as long as many launches, and
# milliseconds where Linux wakes it on the processor of the one that waits for it. Our own team waits for no thread that
# is late. Nanoseconds of the monotonic clock.
LAST, AWAKE = ctypes.c_int64(0), ctypes.c_int64(sys.maxsize)
# The clock of the processor time of a thread of the team: it goes on while that looks for the next region. PyTorch may
# have had one since the last launch.
_NO_CLOCK = -1
MEMBER = ctypes.c_int32(_NO_CLOCK)
_LOOKING = 5_000_000  # about as long as GNU's threads look for the next region


_NOTED = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # what the threads of a region call


class Runtime(NamedTuple):
    """Functions of an OpenMP runtime that is loaded, or of our own team."""

    fork: Callable[[int, bytes, int, int], None]  # GOMP_parallel(function, data, threads, flags), with Python's lock
    threads: Callable[[], int]  # of a parallel region that the calling thread begins
    in_parallel: Callable[[], int]
    number: int  # address of omp_get_thread_num
    pause: Callable[[int], int]
    members: Callable[[], list[int]]  # the other threads of such a region, by their numbers in the system


class _ThreadState:
    """What this process knows of the runtime."""

    def __init__(self) -> None:
        self.runtime: Runtime | None = None
        self.looked = False  # for it
        self.own: Any = None  # an ``OwnTeam``, which is used where there is no such runtime
        self.without = 0  # launches that had none of both
        self.penalty = 0  # launches that leave a team alone which was late
        self.left_alone = 0  # how many more of them there are to be
        self.rested = False  # whether the team has been left alone since the last launch by it
        self.members: list[int] = []  # of the team: see ``Runtime``
        self.used = False  # whether a launch may have started threads
        self.forked = False  # in a child, the threads of the parent do not exist


_STATE = _ThreadState()


def runtime(wanted: int) -> tuple[Runtime, int] | None:
    """The runtime that may be used by the calling thread, if there is one, and how many threads its regions have: as
    many as ``wanted``, if it is our own and the system gives them.

    Only the main thread uses it: each thread that begins a region of OpenMP gets a team of its own.
    """
    if known() is None and _can_have_team():
        _STATE.without += 1
        if _STATE.without > (_FEW if native.loaded() else _ENOUGH):
            _STATE.own = on_demand.module("own_team").OwnTeam()
    found = known()
    if NOTED[1]:
        own, late = NOTED
        NOTED[1] = 0
        note_use(own * 1e-9, late * 1e-9)
    if found is None or not _is_main_thread() or found.in_parallel():
        return None
    if _STATE.runtime is None:
        return found, _STATE.own.resize(wanted)
    if _STATE.forked:
        return None
    if _STATE.left_alone:
        _STATE.left_alone -= 1
        _STATE.rested = True
        return None
    _STATE.used = True
    return found, found.threads()


def known() -> Runtime | None:
    """The runtime that the program uses, or our own team, if there is one."""
    if _STATE.runtime is None and not _STATE.looked and "torch" in sys.modules:
        _look()
    if _STATE.runtime is None and _STATE.own and not threads.POOL.is_shared:
        return _STATE.own.runtime
    return _STATE.runtime


def expected() -> bool:
    """Whether a team runs launches in several threads, now or after the first ones."""
    return known() is not None or (native.loaded() and _can_have_team())


def _can_have_team() -> bool:
    """Whether there can be a team of our own, which is machine code of ``own_team.ll``."""
    able = sys.platform == "linux" and os.uname().machine in ("x86_64", "aarch64")
    return able and not threads.POOL.is_shared and native.available()


def note_use(own: float, late: float) -> None:
    """The launching thread ran blocks for ``own`` seconds of a launch, and waited for other threads: ``late`` seconds
    longer than their last blocks may have taken.

    A parallel region begins and ends when all threads of the team are there. Where other processes keep them from
    running, that takes milliseconds: then the next launches leave the team alone, twice as many each time. The first
    one after these finds threads that sleep, which says nothing. Our own team waits for no thread that is late.
    """
    if _STATE.runtime is None:
        FREE.value = 1
    elif _STATE.rested:
        _STATE.rested = False
    else:
        _STATE.left_alone, _STATE.penalty = penalty_of(own, late, _STATE.penalty)
        FREE.value = not _STATE.penalty


def is_asleep() -> bool:
    """Whether the threads of the team sleep now, as far as one of them tells."""
    now = time.monotonic_ns()
    idle, LAST.value = now - LAST.value, now
    return idle > AWAKE.value and not _member_runs()


def _member_runs() -> bool:
    try:
        before = time.clock_gettime_ns(MEMBER.value)
        return time.clock_gettime_ns(MEMBER.value) > before
    except OSError:  # there is none, or it has ended
        return False


def find_members(found: Runtime, size: int) -> list[int]:
    """The ``size - 1`` other threads of a team, as far as they are known."""
    if len(_STATE.members) != size - 1:
        _STATE.members = found.members()
        MEMBER.value = thread_clock(_STATE.members[0]) if _STATE.members else _NO_CLOCK
    return _STATE.members


def thread_clock(thread: int) -> int:
    """The clock of the processor time of a thread, as Linux numbers them (``MAKE_THREAD_CPUCLOCK``)."""
    return ~thread << 3 | 6


@contextlib.contextmanager
def woken_elsewhere(found: Runtime, size: int) -> Iterator[None]:
    """Keep the ``size - 1`` other threads of a team that sleeps off the processor of the calling one meanwhile, where
    each can have one of its own, and none is bound to some. Linux likes to wake a thread where its waker runs, and
    takes milliseconds to notice that another processor is idle."""
    before: dict[int, set[int]] = {}
    here = threads.current_processor()
    try:
        if here >= 0 and size <= len(allowed := os.sched_getaffinity(0)):
            for thread in find_members(found, size):
                if os.sched_getaffinity(thread) == allowed:
                    before[thread] = allowed
                    os.sched_setaffinity(thread, allowed - {here})
    except OSError:  # it has ended, as teams do that are given up
        _STATE.members = []
    try:
        yield
    finally:
        for thread, processors in before.items():
            threads.restrict(thread, processors)


def penalty_of(own: float, late: float, before: int) -> tuple[int, int]:
    """How many launches are to leave the team alone, and the penalty, after one ``before``."""
    if late <= max(LATE, own * LATE_PART):
        return 0, before // 4
    penalty = min(max(1, 2 * before), _LONGEST_PENALTY)
    return penalty, penalty


def use(found: Runtime | None) -> None:
    """Have launches use this runtime, or where it is None our own team."""
    FREE.value = NOTED[1] = 0
    _STATE.members, MEMBER.value = [], _NO_CLOCK
    AWAKE.value = sys.maxsize if found is None else _LOOKING
    if _STATE.own is not None:
        _STATE.own.resize(0)  # so that machine code finds it changed
    _STATE.looked, _STATE.runtime, _STATE.penalty, _STATE.left_alone, _STATE.rested = True, found, 0, 0, False


def _is_main_thread() -> bool:
    return threading.get_ident() == MAIN_THREAD


def _look() -> None:
    """Find the runtime that PyTorch is linked with, unless PyTorch is being imported."""
    library = getattr(sys.modules["torch"], "_C", None)
    if library is not None and hasattr(sys.modules["torch"], "set_num_threads"):
        use(find(Path(library.__file__).parent / "lib" / "libtorch_cpu.so") if sys.platform == "linux" else None)


def find(library: Path) -> Runtime | None:
    """The OpenMP runtime that ``library`` is or needs, if it is loaded, or None. Its pool of threads can be given up
    since OpenMP 5.0."""
    try:
        loaded = ctypes.CDLL(str(library), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        number = ctypes.cast(loaded.omp_get_thread_num, ctypes.c_void_p).value or 0
        return Runtime(
            _function(loaded, "GOMP_parallel", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint),
            _function(loaded, "omp_get_max_threads", ctypes.c_int),
            _function(loaded, "omp_in_parallel", ctypes.c_int),
            number,
            _function(loaded, "omp_pause_resource_all", ctypes.c_int, ctypes.c_int),
            functools.partial(_members, loaded.GOMP_parallel),
        )
    except (OSError, AttributeError):
        return None


def _members(fork: Callable[..., None]) -> list[int]:
    """The threads of a region that the calling one begins by ``fork``, without itself; they need Python's lock."""
    found: list[int] = []
    fork(_NOTED(lambda data: found.append(threading.get_native_id())), None, 0, 0)
    return [thread for thread in found if thread != threading.get_native_id()]


def _function(library: ctypes.CDLL, name: str, result: Any, *parameters: Any) -> Callable[..., Any]:
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    found: Callable[..., Any] = ctypes.PYFUNCTYPE(result, *parameters)(address or 0)
    return found


def _before_fork() -> None:
    """End the team that launches have started: a child that finds its record waits for threads that do not exist."""
    if _STATE.used and _STATE.runtime is not None and _is_main_thread():
        _STATE.runtime.pause(_SOFT)
        _STATE.used = False
        FREE.value = 0


def _in_child() -> None:
    FREE.value = 0
    _STATE.forked = True
    if _STATE.own is not None:
        _STATE.own.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)
