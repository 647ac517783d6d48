"""Damages bytecode at random: the reader must accept it or say where it is damaged, in bounded time and memory, and do
nothing else. What is still accepted is written, printed and imported, too.

    python -m support.tile_ir_mutations 0 1000000 --jobs 32       # the first million; a failure names its number
    python -m support.tile_ir_mutations 4711 1                    # that one again

Files of all versions are damaged: those with every op, those of cuTile Python, and kernels that our exporter wrote.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from support.kernel_generator import KernelGenerator
from support.kernel_runs import arguments
from support.tile_ir_ops import every_op, multimem

from tilewright.runtime.launch import specialization
from tilewright.tileir.bytecode import read, write
from tilewright.tileir.errors import BytecodeError, TileIRError, VersionError
from tilewright.tileir.export import Kernel, export
from tilewright.tileir.importer import import_entry
from tilewright.tileir.module import Module
from tilewright.tileir.optable import NEWEST
from tilewright.tileir.text import print_module

SECONDS = 10.0  # of processor time for one file
MEGABYTES = 512  # of address space for all that a process does, beside what it had
_FOREIGN = Path(__file__).parents[1] / "tileir" / "data"
_KERNELS = 16  # random ones
_KINDS = ("set", "near", "near", "near", "flip", "flip", "insert", "cut", "cut far")
_ENOUGH = 20  # faults, after which a process ends


def everything() -> list[bytes]:
    """Files with every op, of every version."""
    return [*(write(every_op(minor)) for minor in range(1, NEWEST + 1)), write(multimem())]


def _exported() -> Iterator[bytes]:
    """Random kernels of ours, in the versions that can express them."""
    for seed in range(_KERNELS):
        kernel = KernelGenerator(seed).make()
        function = specialization(kernel.kernel(), arguments(kernel)[0], "reference").function
        for minor in range(1, NEWEST + 1):
            with contextlib.suppress(VersionError):
                yield export([Kernel(function)], minor)


@functools.cache
def corpus() -> tuple[bytes, ...]:
    """Sound files, of every version and of two writers."""
    foreign = [file.read_bytes() for file in sorted(_FOREIGN.rglob("*.tilebc"))]
    return (*everything(), *foreign, *_exported())


def mutated(number: int, files: Sequence[bytes]) -> bytes:
    """Mutation ``number``: one of ``files`` with one to three changes."""
    rng = random.Random(number)
    out = bytearray(rng.choice(files))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind, at = rng.choice(_KINDS), rng.randrange(len(out))
        if kind == "set":
            out[at] = rng.randrange(256)
        elif kind == "near":
            out[at] = (out[at] + rng.choice((-2, -1, 1, 2))) % 256
        elif kind == "flip":
            out[at] ^= 1 << rng.randrange(8)
        elif kind == "insert":
            out[at:at] = rng.randbytes(rng.randrange(1, 4))
        else:
            del out[at : at + rng.randrange(1, 5 if kind == "cut" else 2000)]
        out = out or bytearray(1)
    return bytes(out)


def outcome(data: bytes) -> str:
    """What comes of reading ``data``: ``refused``, or ``read``. Any other exception than ours is a fault."""
    try:
        module = read(data)
    except BytecodeError as error:
        if not 0 <= error.offset <= len(data):
            raise AssertionError(f"byte {error.offset} of {len(data)}") from error
        return "refused"
    for use in (write, print_module, _imported):
        with contextlib.suppress(TileIRError):
            use(module)
    return "read"


def _imported(module: Module) -> None:
    for entry in module.entries:
        import_entry(module, entry, checked=True)


@dataclass
class Found:
    """What one process saw: outcomes, faults by the number of their mutation, and the slowest file in seconds."""

    counts: dict[str, int] = field(default_factory=lambda: {"read": 0, "refused": 0})
    faults: list[tuple[int, str]] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, 0)
    megabytes: int = 0

    def one(self, number: int) -> None:
        data = mutated(number, corpus())
        began = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            self.counts[outcome(data)] += 1
        except Exception as error:  # noqa: BLE001 - every failure is a finding
            self.faults.append((number, f"{type(error).__name__}: {error}".splitlines()[0][:200]))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        self.slowest = max(self.slowest, (time.process_time() - began, number))


def _too_slow(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def _memory() -> int:
    """The address space of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _work(numbers: range, at: Any, results: Any) -> None:
    """What a process does: the mutations ``numbers``, the present one being in ``at``."""
    signal.signal(signal.SIGVTALRM, _too_slow)
    before = _memory()
    resource.setrlimit(resource.RLIMIT_AS, (before + MEGABYTES * 2**20,) * 2)
    found = Found()
    for number in numbers:
        at.value = number
        found.one(number)
        if len(found.faults) == _ENOUGH:
            break
    found.megabytes = (_memory() - before) // 2**20
    results.put(found)


def run(numbers: range, jobs: int) -> list[Found]:
    """Try the mutations ``numbers`` in ``jobs`` processes; one that dies leaves the number that ended it."""
    corpus()  # which all processes share
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    found: list[Found] = []
    left = [numbers[i::jobs] for i in range(jobs)]
    while left:
        ats = [context.Value(ctypes.c_long, share.start) for share in left]
        workers = [context.Process(target=_work, args=(s, at, results)) for s, at in zip(left, ats)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        again: list[range] = []
        for worker, share, at in zip(workers, left, ats):
            if worker.exitcode:
                found.append(Found(faults=[(at.value, f"the process ended with {worker.exitcode}")]))
                again.append(share[share.index(at.value) + 1 :])
        left = [share for share in again if share]
    while not results.empty():
        found.append(results.get())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    began = time.monotonic()
    numbers = range(options.start, options.start + options.count)
    found = run(numbers, min(options.jobs, options.count))
    faults = sorted(fault for f in found for fault in f.faults)
    for number, said in faults:
        print(f"mutation {number}: {said}")
    read_, refused = (sum(f.counts[what] for f in found) for what in ("read", "refused"))
    seconds, number = max(f.slowest for f in found)
    print(
        f"{read_ + refused + len(faults)} mutations of {len(corpus())} files: {read_} read, {refused} refused, "
        f"{len(faults)} faults; the slowest took {seconds:.2f} s (mutation {number}), and a process at most "
        f"{max(f.megabytes for f in found)} MB more; {time.monotonic() - began:.0f} s in all"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
