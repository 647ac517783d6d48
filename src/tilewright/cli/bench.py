"""``tilewright bench``: how long a kernel takes, beside what the machine can do."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.cli import roofline
from tilewright.cli.arguments import SPECIFICATIONS, filled, parse_index
from tilewright.cli.cpp import add_options
from tilewright.cli.errors import FINE, UsageError, misused, writing
from tilewright.cli.files import check_writable
from tilewright.cli.kernels import add_kernel, arguments_of, find
from tilewright.cli.output import say
from tilewright.cli.parsers import add_command
from tilewright.records import dataclass
from tilewright.runtime.launchable import Launchable

_MIN_CALLS = 5
_WARM_CALLS = 2


@dataclass(frozen=True)
class Times:
    """Seconds of ``calls`` calls: the median, and the quartiles around it."""

    median: float
    low: float
    high: float
    calls: int


def timed(run: Callable[[], object], seconds: float) -> Times:
    """The times of calls for about ``seconds``, five of them at least, after two that do not count."""
    for _ in range(_WARM_CALLS):
        run()
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < _MIN_CALLS or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    low, median, high = statistics.quantiles(found, n=4)
    return Times(median, low, high, len(found))


_EPILOG = f"""\
{SPECIFICATIONS}
Arrays hold 0, 1, 2, ... Each time is a call in a row of them, with warm caches and threads. The limit is what this
machine reaches, measured now: the bandwidth of the nearest cache that holds the arrays, or its multiply-adds; or what
the kernel itself reaches, where other programs keep the machine from more.

example:
  tilewright bench examples/vector_add.py::vector_add --grid 4096 --arg f32[4M] --arg f32[4M] --arg f32[4M] --arg 1024
"""


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "bench", "time a kernel, beside the limits of this machine", run, _EPILOG)
    add_kernel(parser)
    parser.add_argument("--grid", metavar="X,Y,Z", default="1", help="the blocks of the launch (default: 1)")
    parser.add_argument("--backend", metavar="NAME", help="the backend (default: the one a launch would take)")
    parser.add_argument("--seconds", type=_seconds, default=1.0, help="how long to go on (default: 1)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the roofline as SVG")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON, in seconds and bytes")
    add_options(parser)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write seconds, such as 0.5")
    return found


def run(options: argparse.Namespace) -> int:
    if options.plot is not None:
        check_writable(options.plot)
    kernel = find(options)
    grid = parse_index(options.grid, "grid", 1)
    args = tuple(map(filled, arguments_of(kernel, options)))
    with misused(TypeError, ValueError, OverflowError, RuntimeError):
        times = timed(kernel.bind(grid, args, backend=options.backend), options.seconds)
    report(kernel, grid, args, times, options)
    return FINE


def report(
    kernel: Launchable, grid: tuple[int, ...], args: tuple[Any, ...], times: Times, options: argparse.Namespace
) -> None:
    """Print ``times``, and how far they are from what the machine can do; draw that where ``--plot`` asks for it."""
    found: dict[str, Any] = {"kernel": kernel.name, "grid": grid, **vars(times)}
    lines = [
        f"{kernel.name}: median {_shown(times.median)} of {times.calls} calls, "
        f"quartiles {_shown(times.low)} and {_shown(times.high)}"
    ]
    try:
        work = kernel.work(grid, args, options.backend)
        one = roofline.Run(kernel.name, work.flops, roofline.least_traffic(work.moved, args), times.median)
        check_elements(args, one)
    except (ValueError, RuntimeError) as e:
        if options.plot is not None:
            raise UsageError(str(e)) from e
        lines.append(f"no limit is known: {e}")
    else:
        roof = roofline.roof_above(one)
        what, least = roof.limit(one)
        found |= {"flops": one.flops, "bytes": one.moved, "limit": what, "limit_seconds": least}
        lines.append(roofline.describe(one, roof))
        if options.plot is not None:
            write_plot(options.plot, one, roof)
    say(json.dumps(found, indent=2) if options.json else "\n".join(lines))


def check_elements(args: tuple[Any, ...], run: roofline.Run) -> None:
    """ValueError for products of 8-bit integers: their instructions have a peak of their own, which nobody measures."""
    if run.flops and any(isinstance(a, np.ndarray) and a.dtype in (np.int8, np.uint8) for a in args):
        raise ValueError("the peak of this machine is measured for floating-point numbers, not for 8-bit integers")


def write_plot(file: Path, one: roofline.Run, roof: roofline.Roof) -> None:
    """Draw the roofline. UsageError where there is none, or the file cannot be written."""
    with misused(ValueError), writing(file):
        file.write_text(roofline.draw(one, roof), encoding="utf-8")


def _shown(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.3f} ms"
