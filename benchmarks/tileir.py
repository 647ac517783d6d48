"""What reading and writing CUDA Tile IR costs, in processor time:

    PYTHONPATH=src:tests python benchmarks/tileir.py
    PYTHONPATH=src:tests python benchmarks/tileir.py export     # that alone

Reading and writing of files of a megabyte, made of the kernels that cuTile Python wrote for the tests; and the export
of kernels beside the front end, which makes them from Python.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from support.cutile_kernels import cases
from support.kernel_generator import KernelGenerator
from support.kernel_runs import arguments

from tilewright.frontend.python import source
from tilewright.ir.core import Function
from tilewright.runtime.launch import specialization
from tilewright.tileir.bytecode import read, write
from tilewright.tileir.export import Kernel, export

T = TypeVar("T")
FILES = Path(__file__).parents[1] / "tests" / "tileir" / "data" / "cutile"
MEGABYTE = 1_000_000
REPEATS, TURNS = 7, 75


def measured(work: Callable[[], T], repeats: int = REPEATS) -> tuple[float, T]:
    """The least processor time that ``work`` took, in seconds, and what it gave."""
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        found = work()
        best = min(best, time.process_time() - began)
    return best, found


def large(data: bytes) -> bytes:
    """A file of a megabyte: the entries of ``data``, again and again."""
    module = read(data)
    module.layout = None
    entries, module.entries = module.entries, []
    while len(write(module)) < MEGABYTE:
        count = max(2 * len(module.entries), len(entries))
        module.entries = [replace(entries[i % len(entries)], name=f"k{i}") for i in range(count)]
    return write(module)


def reading() -> None:
    print(f"{'file':32} {'bytes':>9} {'reading':>9} {'writing':>9}   s for a megabyte")
    for file in sorted(FILES.glob("*.tilebc")):
        data = large(file.read_bytes())
        took, module = measured(lambda data=data: read(data), 3)  # type: ignore[misc]
        wrote, _ = measured(lambda module=module: write(module), 3)  # type: ignore[misc]
        scale = MEGABYTE / len(data)
        print(f"{file.stem:32} {len(data):9} {took * scale:9.3f} {wrote * scale:9.3f}")


def traced(kernel: Any, given: tuple[Any, ...]) -> Callable[[], Function]:
    """The work of the front end for a kernel, from its source on."""
    signatures: list[Any] = []
    trace = kernel.trace
    kernel.trace = lambda signature: (signatures.append(signature), trace(signature))[1]
    specialization(kernel, given, "reference")

    def work() -> Function:
        source._SOURCES.clear()  # it parses a function once
        return trace(signatures[0])

    return work


def exporting() -> None:
    """The kernels of the tests and random ones. Each is measured in turns: the front end, and the export of what it has
    made, as a file. Shown are medians of all turns; the ratio is the median of those of single turns."""
    print(f"\n{'kernel':20} {'front end':>10} {'export':>8}   ms {'ratio':>8}")
    work = [(case.name, case.kernel, tuple(case.arguments())) for case in cases()]
    generated = [KernelGenerator(seed).make() for seed in range(8)]
    work += [(f"random {i}", g.kernel(), arguments(g)[0]) for i, g in enumerate(generated)]
    total, ratios = [0.0, 0.0], list[float]()
    for name, kernel, given in work:
        trace = traced(kernel, given)
        times = []
        for _ in range(TURNS):
            front, function = measured(trace, 1)
            took, _ = measured(lambda function=function: export([Kernel(function)]), 1)  # type: ignore[misc]
            times.append((front, took))
        front, took = (statistics.median(found) for found in zip(*times))
        ratio = statistics.median(took / front for front, took in times)
        print(f"{name:20} {front * 1e3:10.2f} {took * 1e3:8.2f} {ratio:11.0%}")
        total = [total[0] + front, total[1] + took]
        ratios.append(ratio)
    print(
        f"the export takes {total[1] / total[0]:.1%} of the front end's time; the mean of the kernels is "
        f"{statistics.mean(ratios):.1%}"
    )


if __name__ == "__main__":
    if sys.argv[1:] != ["export"]:
        reading()
    exporting()
