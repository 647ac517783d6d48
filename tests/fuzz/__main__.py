"""Runs random programs on backends, which must agree with a NumPy model and with each other.

Prints each fault with the seed of its program; the exit status is 1 where there is one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from fuzz.check import faults
from fuzz.programs import program
from support import gpu


def _check(
    seed: int, backends: tuple[str, ...], targets: tuple[str, ...], on_gpu: bool
) -> tuple[int, list[str], str, bool]:
    if on_gpu:
        gpu.pytest_configure()
    warnings.simplefilter("ignore", RuntimeWarning)
    p = program(seed)
    found = faults(p, backends, targets)
    return seed, found, p.source, p.predict() is not None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("start", type=int, help="the first seed")
    parser.add_argument("count", type=int)
    parser.add_argument(
        "--backends", default="reference,cpu", help="the first is the one that the model is compared with"
    )
    parser.add_argument("--targets", default="", help="GPU architectures to compile for, such as sm_80,sm_90")
    parser.add_argument("--gpu", action="store_true", help="a GPU in the place of the backend cpu")
    parser.add_argument("--keep", type=Path, help="a folder for the programs with faults")
    parser.add_argument("-j", "--processes", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    backends, targets = (tuple(filter(None, o.split(","))) for o in (options.backends, options.targets))
    bad = modelled = 0
    began = time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = [
            pool.submit(_check, seed, backends, targets, options.gpu)
            for seed in range(options.start, options.start + options.count)
        ]
        for job in jobs:
            seed, found, source, predicted = job.result()
            modelled += predicted
            if found:
                bad += 1
                print(f"seed {seed}:", *found, sep="\n    ", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{seed}.py").write_text(source)
    seconds = time.monotonic() - began
    print(f"fuzz: {options.count} programs in {seconds:.0f} s, {modelled} of them modelled: {bad} with faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
