"""Runs random kernels in Tile C++, many in a translation unit: the reference backend must agree with the NumPy model bit
for bit, the CPU with both.

    python -m fuzz.cpp START COUNT

Prints each fault with the seed of its kernel; the exit status is 1 where there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from fuzz.check import same_bits
from fuzz.cpp_programs import BLOCKS, PREAMBLE, CppProgram, cpp_program

import tilewright as ct
from tilewright.cpp.module import Kernel, request_of
from tilewright.cpp.translation import kernel_functions


def faults(programs: Sequence[CppProgram]) -> Iterator[tuple[CppProgram, str]]:
    """What is wrong with which program, all of them being one translation unit."""
    try:
        kernels = _compiled(programs)
    except Exception as error:  # noqa: BLE001 - every failure is a finding
        if len(programs) > 1:  # find those that the compiler refuses
            for p in programs:
                yield from faults([p])
            return
        yield programs[0], f"{type(error).__name__}: {str(error)[:2000]}"
        return
    for p, kernel in zip(programs, kernels):
        try:
            fault = _fault(p, kernel)
        except Exception as error:  # noqa: BLE001 - every failure is a finding
            fault = f"{type(error).__name__}: {str(error)[:2000]}"
        if fault is not None:
            yield p, fault


def _compiled(programs: Sequence[CppProgram]) -> list[Kernel]:
    """With one run of the C++ compiler."""
    request = request_of(PREAMBLE + "\n".join(p.source for p in programs))
    functions = kernel_functions(request, [p.name for p in programs])
    return [Kernel(p.name, f, lambda f=f: f, None, request) for p, f in zip(programs, functions)]  # type: ignore[misc]


def _fault(p: CppProgram, kernel: Kernel) -> str | None:
    expected = p.predict()
    for backend in ("reference", "cpu"):
        inputs, outputs = [a.copy() for a in p.inputs], p.fresh_outputs()
        ct.launch(None, (BLOCKS,), kernel, (*inputs, *outputs), backend=backend)
        for i, (found, wanted) in enumerate(zip(outputs, expected)):
            wrong = ~same_bits(found, wanted)
            if wrong.any():
                at = int(np.argmax(wrong))
                return f"{backend}: o{i}[{at}] of {wrong.sum()} is {found[at]} instead of {wanted[at]}"
        if not all(map(np.array_equal, inputs, p.inputs)):
            return f"{backend}: an input was written"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.cpp", description="Random kernels in Tile C++.")
    parser.add_argument("start", type=int, help="the first seed")
    parser.add_argument("count", type=int)
    parser.add_argument("--unit", type=int, default=25, help="kernels in a translation unit")
    parser.add_argument("--seconds", type=float, default=1e9, help="no translation unit is begun after so many")
    parser.add_argument("--keep", type=Path, help="a folder for the programs with faults")
    options = parser.parse_args(arguments)
    bad, done, began = 0, 0, time.monotonic()
    for first in range(options.start, options.start + options.count, options.unit):
        if time.monotonic() - began > options.seconds:
            break
        last = min(first + options.unit, options.start + options.count)
        for p, fault in faults([cpp_program(seed) for seed in range(first, last)]):
            bad += 1
            print(f"{p.name}: {fault}", flush=True)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{p.name}.cu").write_text(PREAMBLE + p.source)
        done += last - first
    print(f"fuzz.cpp: {done} kernels in {time.monotonic() - began:.0f} s: {bad} with faults")
    return 1 if bad or not done else 0


if __name__ == "__main__":
    sys.exit(main())
