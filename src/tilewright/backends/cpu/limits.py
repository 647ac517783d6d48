"""What a machine can do at most, measured: traffic with each level of memory, and multiply-adds in registers."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import numpy as np

from tilewright.backends.cpu.target import host, new_machine
from tilewright.backends.native.jit import MachineCode
from tilewright.backends.native.templates import filled

_MEGABYTES = 256  # of each array that is copied: more than any last-level cache
_CHAINS = 12  # multiply-adds that do not wait for each other: latency 4, two units, and some to spare
_ITERATIONS = 4_000_000  # some 5 ms, of which waking the threads (benchmarks/cpu_costs.py) is 1 %
_REPETITIONS = 5  # of which the best counts


class Level(NamedTuple):
    """A cache, or the memory: the bytes that it holds for a launch of all threads, and bytes per second of traffic."""

    name: str
    holds: float
    bandwidth: float


def levels(threads: int) -> list[Level]:
    """The levels of memory, the nearest first, with the faster of reads alone and of copies within each."""
    found, below = [], 0
    for name, size, sharing in _caches():
        share = size // min(sharing, threads)  # of one thread
        if share <= below:  # the next level is no larger, so that nothing is in it alone
            continue
        part = max(below * 2, share // 2) if below * 2 < share else share
        found.append(
            Level(name, float(share * threads), max(_traffic(threads, part, body) for body in (_READ, _COPY_NEAR)))
        )
        below = share
    far = max(copy_bandwidth(threads), _traffic(threads, (_MEGABYTES << 20) // threads, _READ))
    return [*found, Level("memory", float("inf"), far)]


def _caches() -> list[tuple[str, int, int]]:
    """The name, the bytes, and the number of processors that share it, of each data cache, as Linux tells."""
    found = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size, shared = (
                (folder / n).read_text().strip() for n in ("level", "type", "size", "shared_cpu_map")
            )
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K"):
            sharing = bin(int(shared.replace(",", ""), 16)).count("1")
            found.append((f"L{level}", int(size[:-1]) << 10, max(sharing, 1)))
    return found


_VECTORS = 8  # of an iteration, which do not wait for each other
_REGION_SECONDS = 0.02  # of one measurement
_READ, _COPY_NEAR = "read", "copy"


def _traffic(threads: int, part: int, kind: str) -> float:
    """Bytes per second of all threads, each of which goes through ``part`` bytes of its own, again and again."""
    step = _VECTORS * _LINE
    count = max(part // (1 if kind == _READ else 2) // step, 1)
    moved = count * step * (1 if kind == _READ else 2)
    words = step // 4
    store = "" if kind == _READ else f"store <{words} x i32> %x, ptr %q, align 64"
    text = filled(__file__, "limits.ll", "stream", words=words, store=store)
    function, _engine = _compiled(text, "stream", ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)
    arrays = [np.ones(2 * count * step + 2 * _LINE, np.uint8) for _ in range(threads)]
    starts = [-a.ctypes.data % _LINE + a.ctypes.data for a in arrays]

    def work(times: int) -> list[functools.partial[object]]:
        return [functools.partial(function, start, start + count * step, count, times) for start in starts]

    times = 1
    while (seconds := fastest_seconds(work(times), 1)) < _REGION_SECONDS:
        times = max(times * 2, int(times * _REGION_SECONDS / max(seconds, 1e-6)))
    return moved * times * threads / fastest_seconds(work(times))


def copy_bandwidth(threads: int) -> float:
    """The rate of copies by that many threads, each of a part, with stores that do not read what they overwrite."""
    size = _MEGABYTES << 20
    source, target = np.ones(size + _LINE, np.uint8), np.zeros(size + _LINE, np.uint8)
    starts = [-a.ctypes.data % _LINE + a.ctypes.data for a in (source, target)]
    part = size // threads // _LINE * _LINE
    text, kinds = filled(__file__, "limits.ll", "copy"), [*[ctypes.c_void_p] * 2, ctypes.c_int64]
    copy, _engine = _compiled(text, "copy", None, *kinds)
    work = [lambda k=k: copy(starts[0] + k * part, starts[1] + k * part, part // _LINE) for k in range(threads)]
    return 2 * part * threads / fastest_seconds(work)


_LINE = 64  # bytes of a cache line, and of the vectors that are copied


def peak(threads: int, element: str) -> float:
    """The rate of multiply-adds on the widest vectors of the processor, by that many threads."""
    work, operations, _engine = _multiply_adds(element)
    return threads * operations / fastest_seconds([work] * threads)


def fastest_seconds(work: Sequence[Callable[[], object]], repetitions: int = _REPETITIONS) -> float:
    """The seconds of the fastest of several runs of all ``work`` at once."""
    best = float("inf")
    for _ in range(repetitions):
        threads = [Thread(target=w) for w in work]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        best = min(best, time.perf_counter() - start)
    return best


def _multiply_adds(element: str) -> tuple[Callable[[], object], float, MachineCode]:
    """A function of independent chains of multiply-adds, its operations, and what keeps it in memory."""
    lanes = host().lanes(4 if element == "float" else 8)
    vector, chains = f"<{lanes} x {element}>", range(_CHAINS)
    one = ", ".join([f"{element} 1.0"] * lanes)
    function_of = f"@llvm.fma.v{lanes}f{32 if element == 'float' else 64}"
    fma = f"call {vector} {function_of}({vector} %x{{0}}, {vector} %s, {vector} <{one}>)"
    text = filled(
        __file__,
        "limits.ll",
        "multiply-adds",
        vector=vector,
        element=element,
        lanes=lanes,
        fma=function_of,
        starts=[f"  %x{k} = phi {vector} [ <{one}>, %entry ], [ %y{k}, %loop ]" for k in chains],
        steps=[f"  %y{k} = {fma.format(k)}" for k in chains],
        sums=[f"  %t{k} = fadd {vector} {f'%t{k - 1}' if k > 1 else '%y0'}, %y{k}" for k in chains[1:]],
        sum=f"%t{_CHAINS - 1}",
    )
    number = ctypes.c_float if element == "float" else ctypes.c_double
    function, engine = _compiled(text, "work", number, ctypes.c_int64, number)
    return (lambda: function(_ITERATIONS, 0.5)), 2.0 * lanes * _CHAINS * _ITERATIONS, engine


def _compiled(text: str, name: str, result: Any, *arguments: Any) -> tuple[Any, MachineCode]:
    """A function of LLVM IR as one of Python, which runs without the lock, and what keeps it in memory."""
    code = MachineCode(text, new_machine(host(), level=3))
    return ctypes.CFUNCTYPE(result, *arguments)(code.address(name)), code
