"""Launches by a team of threads: of an OpenMP runtime that the program uses already, as PyTorch does, or of our own.

Threads of OpenMP wait actively for more work, for milliseconds after each parallel region: threads of our own would
share their processors with them. So while PyTorch's threads run, the blocks of a launch are a parallel region. It
begins and ends when all of these are there: where they sleep, or others have their processors, as the threads of
NumPy's BLAS do that wait for work actively, too, it is our own team that runs the blocks, which waits for no thread.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
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
# The address of ``Runtime.number`` of the runtime that is used while its threads run, 0 where that is our own team.
CURRENT = ctypes.c_int64(0)
# When that last ran a launch, and for how long after that its threads are taken to run, in nanoseconds of the monotonic
# clock. After that the processor time of one of them tells, which goes on while it looks for the next region.
LAST, AWAKE = ctypes.c_int64(0), ctypes.c_int64(100_000)
_NO_CLOCK = -1
MEMBER = ctypes.c_int32(_NO_CLOCK)


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
        self.runtime: Runtime | None = None  # that PyTorch uses
        self.looked = False  # for it
        self.own: Any = None  # an ``OwnTeam``, which is used where there is no such runtime, or its threads do not run
        self.without = 0  # launches that had none of both
        self.penalty = 0  # launches that leave a team alone which was late
        self.left_alone = 0  # how many more of them there are to be
        self.members: list[int] = []  # of the team: see ``Runtime``
        self.used = False  # whether a launch may have started threads
        self.forked = False  # in a child, the threads of the parent do not exist


_STATE = _ThreadState()


def runtime(wanted: int) -> tuple[Runtime, int] | None:
    """The runtime that may be used by the calling thread, if there is one, and how many threads its regions have: as
    many as ``wanted``, if it is our own and the system gives them.

    Only the main thread uses it: each thread that begins a region of OpenMP gets a team of its own.
    """
    theirs = of_program()
    if NOTED[1]:
        own, late = NOTED
        NOTED[1] = 0
        note_use(theirs, own * 1e-9, late * 1e-9)
    if not _is_main_thread() or (theirs is not None and theirs.in_parallel()):
        return None
    if theirs is not None and not _STATE.forked:
        if _STATE.left_alone:
            _STATE.left_alone -= 1
        elif _runs(theirs):
            return theirs, theirs.threads()
        else:
            _STATE.penalty = 0
    return own_runtime(wanted)


def of_program() -> Runtime | None:
    """The runtime that the program uses, if there is one."""
    if _STATE.runtime is None and not _STATE.looked and "torch" in sys.modules:
        _look()
    return _STATE.runtime


def own_runtime(wanted: int, *, repeats: bool = False) -> tuple[Runtime, int] | None:
    """Our own team with so many threads, as far as the system gives them; None where there is none or it works.
    Launches that are known to repeat are worth one as soon as LLVM is loaded."""
    if not _can_have_team():
        return None
    if _STATE.own is None:
        _STATE.without += 1
        if _STATE.without <= ((0 if repeats else _FEW) if native.loaded() else _ENOUGH):
            return None
        _STATE.own = on_demand.module("own_team").OwnTeam()
    found: Runtime = _STATE.own.runtime
    return None if found.in_parallel() else (found, _STATE.own.resize(wanted))


def expected() -> bool:
    """Whether a team runs launches in several threads, now or after the first ones."""
    return of_program() is not None or (_can_have_team() and (_STATE.own is not None or native.loaded()))


def _can_have_team() -> bool:
    """Whether there can be a team of our own, which is machine code of ``own_team.ll``."""
    able = sys.platform == "linux" and os.uname().machine in ("x86_64", "aarch64")
    return able and not threads.POOL.is_shared and native.available()


def note_use(found: Runtime | None, own: float, late: float) -> None:
    """In a launch by ``found`` the launching thread ran blocks for ``own`` seconds, and waited for other threads:
    ``late`` seconds longer than their last blocks may have taken.

    A parallel region ends when all threads of the team are there. Where other processes keep them from running, that
    takes milliseconds: then the next launches leave the team alone, twice as many each time. Our own team waits for no
    thread that is late.
    """
    if found is not None and found is _STATE.runtime:
        LAST.value = time.monotonic_ns()
        _STATE.left_alone, _STATE.penalty = penalty_of(own, late, _STATE.penalty)
    FREE.value = not _STATE.penalty


def _runs(found: Runtime) -> bool:
    """Whether the threads of ``found`` run, as far as one of them tells: in a region, or while they look for one."""
    find_members(found, found.threads())
    return time.monotonic_ns() - LAST.value <= AWAKE.value or _member_runs()


def _member_runs() -> bool:
    try:
        before = time.clock_gettime_ns(MEMBER.value)
        return time.clock_gettime_ns(MEMBER.value) > before
    except OSError:  # there is none, or it has ended
        _STATE.members = []
        return False


def find_members(found: Runtime, size: int) -> None:
    """Have MEMBER be the clock of one of the ``size - 1`` other threads of a team, as far as they are known."""
    if len(_STATE.members) != size - 1:
        _STATE.used = True
        _STATE.members = found.members()
        MEMBER.value = thread_clock(_STATE.members[0]) if _STATE.members else _NO_CLOCK


def thread_clock(thread: int) -> int:
    """The clock of the processor time of a thread, as Linux numbers them (``MAKE_THREAD_CPUCLOCK``)."""
    return ~thread << 3 | 6


def penalty_of(own: float, late: float, before: int) -> tuple[int, int]:
    """How many launches are to leave the team alone, and the penalty, after one ``before``."""
    if late <= max(LATE, own * LATE_PART):
        return 0, before // 4
    penalty = min(max(1, 2 * before), _LONGEST_PENALTY)
    return penalty, penalty


def use(found: Runtime | None) -> None:
    """Have launches use this runtime while its threads run, and our own team where it is None."""
    FREE.value = NOTED[1] = 0
    _STATE.members, MEMBER.value = [], _NO_CLOCK
    CURRENT.value = 0 if found is None else found.number
    _STATE.looked, _STATE.runtime, _STATE.penalty, _STATE.left_alone = True, found, 0, 0


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
