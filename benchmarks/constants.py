"""What rows of ``cpu.py`` take with other values of a constant: where the numbers of the CPU backend come from.

    python benchmarks/constants.py backends.cpu.loops.vectorize._ROW_VECTORS 2 4 8 --rows 'softmax|norm'

Kernels are compiled anew for each value, and their launches take turns in one process: hot, of one thread, by processor
time, or with ``--wall`` by the clock, with all processors. ``--output FILE`` adds the table to a file, such as
``benchmarks/results/constants.md``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", help="module and name, below tilewright")
    parser.add_argument("values", nargs="+", help="the values, as Python writes them")
    parser.add_argument("--rows", default="", metavar="REGEX", help="only the rows whose names match")
    parser.add_argument("--wall", action="store_true", help="by the clock, with all processors")
    parser.add_argument("--output", type=Path, metavar="FILE", help="add the table to a file")
    o = parser.parse_args()
    os.environ["TILEWRIGHT_CACHE_DIR"] = "off"
    if not o.wall:
        os.environ.update(dict.fromkeys(("TILEWRIGHT_NUM_THREADS", "OMP_NUM_THREADS"), "1"))
    how = "milliseconds" if o.wall else "processor milliseconds of one thread"
    lines = [f"`{o.name}`, {how}:", "", f"| row | {' | '.join(o.values)} |", "|---" + "|--:" * len(o.values) + "|"]
    lines += measured(o.name, o.values, o.rows, time.perf_counter if o.wall else time.process_time)
    print("\n".join(lines))
    if o.output is not None:
        with o.output.open("a") as file:
            file.write("\n".join(["", *lines, ""]))


def setter(name: str) -> Callable[[Any], None]:
    """A function that gives a constant another value, in every loaded module that has it; ``name`` is its module and
    name, below tilewright."""
    module, _, constant = f"tilewright.{name}".rpartition(".")
    before = getattr(importlib.import_module(module), constant)
    modules = [m for n, m in sys.modules.items() if n.startswith("tilewright.") and vars(m).get(constant) is before]

    def change(value: Any) -> None:
        for each in modules:
            setattr(each, constant, value)

    return change


def measured(name: str, values: Sequence[str], wanted: str, clock: Any) -> list[str]:
    """A line of the table for each row whose name matches."""
    sys.modules.update(dict.fromkeys(("jax", "cpu_numba")))  # peers, which are not measured
    import cpu_kernels  # noqa: PLC0415 - after the variables that libraries read
    import cpu_rows  # noqa: PLC0415
    from cpu_timing import hot  # noqa: PLC0415

    importlib.import_module("tilewright.backends.cpu.compiler")  # with what it imports
    change = setter(name)

    def side(row: str, value: Any) -> Any:
        """The launch of a row that is compiled with this value."""
        change(value)
        importlib.reload(cpu_kernels)
        run = next(each for each in importlib.reload(cpu_rows).rows() if each.name == row).make().ours
        run()
        return lambda: (change(value), run())

    lines = []
    for row in [row.name for row in cpu_rows.rows() if re.search(wanted, row.name)]:
        times = hot({value: side(row, eval(value)) for value in values}, clock)
        lines.append(f"| {row} | {' | '.join(f'{times[value].median * 1e3:.3f}' for value in values)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


if __name__ == "__main__":
    main()
