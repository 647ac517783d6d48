"""A team of threads of our own in machine code, with the interface of an OpenMP runtime: a launch needs no step in
Python to wake them, and none of them Python's lock."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

from tilewright.backends import native
from tilewright.backends.cpu.openmp import Runtime
from tilewright.backends.native.templates import filled

_CALLS = {"x86_64": 202, "aarch64": 98}  # the number of the system call futex on Linux
_PAUSES = {"x86_64": "llvm.x86.sse2.pause()", "aarch64": "llvm.aarch64.isb(i32 15)"}
_CLOSED = 1 << 62
# Some 75 us on the Xeon of benchmarks/results/cpu_notes.md: longer than a thread that sleeps is late. For longer yet it
# would keep threads of other libraries from their processors, and one that calls sched_yield() Linux lets wait.
_LOOKS = 4000
# Nanoseconds: for how long a processor counts as shared after another thread has taken it from one of the team, how
# long that one keeps it then, less than Linux lets it, and how long it does without (benchmarks/results/cpu_notes.md).
_SHARED, _TURN, _REST = 50_000_000, 3_000_000, 2_000_000
# Words that threads share, and where they are: those that threads wait for share no pair of cache lines with others.
_WORDS = {"epoch": 0, "sleepers": 4, "state": 128, "code": 256, "data": 264, "size": 272, "busy": 280, "launcher": 284}
_WORDS |= {"launch": 288, "kept": 292, "calls": 296, "affinity": 384}
_MASK_BYTES = 128  # of a set of processors, of which Linux has up to 1024 in programs that do not ask
_NO_PROCESSOR = 8 * _MASK_BYTES - 1
_PERIOD = 64  # to ask for the affinity costs 0.3 us, a tenth of a short launch: it is asked for once in so many


class OwnTeam:
    """The team, which one thread at a time may use. Its threads live as long as the process."""

    def __init__(self) -> None:
        key = ctypes.c_uint()
        if ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None):
            raise OSError("the system gives no more keys for values of threads")
        machine = os.uname().machine
        words = {name: f"getelementptr (i8, ptr @words, i64 {at})" for name, at in _WORDS.items()}
        system = {"key": key.value, "futex": _CALLS[machine], "pause": _PAUSES[machine], "mask_bytes": _MASK_BYTES}
        times = {"shared": _SHARED, "turn": _TURN, "rest": _REST, "others": _PERIOD - 1}
        text = filled(__file__, "own_team.ll", closed=_CLOSED, looks=_LOOKS, **times, **system, **words)
        self._code = code = native.compiler().MachineCode(text, forever=True)
        start = code.address("words")
        self._serve = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int32)(code.address("serve"))
        self._affinity = set[int]()  # of the launching thread, which the others share
        self._affinity_at = start + _WORDS["affinity"]
        self._state, self._size = (ctypes.c_int64.from_address(start + _WORDS[w]) for w in ("state", "size"))
        halves = (ctypes.c_int32.from_address(start + _WORDS[word]) for word in ("epoch", "sleepers", "busy", "kept"))
        self._epoch, self._sleepers, self._busy, self._kept = halves

        def function(name: str, result: Any, *parameters: Any) -> Any:
            return ctypes.PYFUNCTYPE(result, *parameters)(code.address(name))

        fork = function("fork", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        threads, in_parallel = (function(name, ctypes.c_int) for name in ("threads", "in_parallel"))
        self.runtime = Runtime(fork, threads, in_parallel, code.address("number"), lambda kind: 0, list)
        self.forget()

    def resize(self, size: int) -> int:
        """Have launches use ``size`` threads, or as many as the system gives; how many that are."""
        allowed = os.sched_getaffinity(0)
        if size != self._size.value or allowed != self._affinity:
            while self._started < size - 1:
                self._started += 1  # first, as what a signal handler raises may leave a thread that has started
                given = self._started, self._epoch.value
                try:
                    threading.Thread(target=self._serve, args=given, name="tilewright", daemon=True).start()
                except RuntimeError:  # can't start new thread
                    self._started -= 1
                    break
            mask = sum(1 << k for k in allowed if k < 8 * _MASK_BYTES)
            ctypes.memmove(self._affinity_at, mask.to_bytes(_MASK_BYTES, "little"), _MASK_BYTES)
            self._affinity = allowed
            # Each thread sees that it is another one. Where threads share processors, they keep off none.
            self._changes += 1
            self._kept.value = self._changes % 1024 * 2048 | (_NO_PROCESSOR if size > len(allowed) else 0)
            self._size.value = min(size, self._started + 1)
        return self._size.value

    def forget(self) -> None:
        """Begin without threads: those of its parent do not exist in the child of a process."""
        self._started = self._sleepers.value = self._busy.value = self._changes = 0
        self._affinity.clear()
        self._size.value, self._state.value = 1, _CLOSED
