"""What reading and writing CUDA Tile IR costs, in processor time:

    PYTHONPATH=src:tests python benchmarks/tileir.py

Reading and writing of files of a megabyte, made of the kernels that cuTile Python wrote for the tests; and the export
of kernels beside the front end, which makes them from Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from support.cutile_kernels import cases
from support.kernel_generator import KernelGenerator
from support.kernel_runs import arguments

from tilewright.ir.core import Function
from tilewright.runtime.launch import specialization
from tilewright.tileir.bytecode import read, write
from tilewright.tileir.export import Kernel, export_module

T = TypeVar("T")
FILES = Path(__file__).parents[1] / "tests" / "tileir" / "data" / "cutile"
MEGABYTE = 1_000_000
REPEATS = 7


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


def traced(kernel: Any, given: tuple[Any, ...]) -> tuple[float, Function]:
    """What the front end takes for a kernel, and what it makes."""
    signatures: list[Any] = []
    trace = kernel.trace
    kernel.trace = lambda signature: (signatures.append(signature), trace(signature))[1]
    specialization(kernel, given, "reference")
    return measured(lambda: trace(signatures[0]))


def exporting() -> None:
    print(f"\n{'kernel':20} {'front end':>10} {'export':>8} {'writing':>8}   ms")
    work = [(case.name, case.kernel, tuple(case.arguments())) for case in cases()]
    generated = [KernelGenerator(seed).make() for seed in range(8)]
    work += [(f"random {i}", g.kernel(), arguments(g)[0]) for i, g in enumerate(generated)]
    total = [0.0, 0.0]
    for name, kernel, given in work:
        front, function = traced(kernel, given)
        export, module = measured(lambda function=function: export_module([Kernel(function)]))  # type: ignore[misc]
        wrote, _ = measured(lambda module=module: write(module))  # type: ignore[misc]
        print(f"{name:20} {front * 1e3:10.2f} {export * 1e3:8.2f} {wrote * 1e3:8.2f}")
        total = [total[0] + front, total[1] + export + wrote]
    print(f"export and writing take {total[1] / total[0]:.0%} of the front end's time")


if __name__ == "__main__":
    reading()
    exporting()
