"""``tilewright view``: a page that shows which block touched which elements, and when."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tilewright.cli.errors import UsageError
from tilewright.compat import run_program
from tilewright.sanitizer import sanitize
from tilewright.view import Recorder, render


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("view", help="write a page that shows what the kernels of a program do to memory")
    parser.add_argument("--output", "-o", type=Path, help="the page to write (default: PROGRAM.html, here)")
    parser.add_argument("--limit", type=int, default=4_000_000, help="stop recording after so many accesses")
    parser.add_argument("program", metavar="PROGRAM.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    recorder = Recorder(options.limit)
    status: Any = 0
    with sanitize(sinks=[recorder]) as report:
        try:
            run_program(options.program, options.arguments)
        except FileNotFoundError as e:
            raise UsageError(str(e)) from None
        except SystemExit as e:
            status = e.code
    recordings = recorder.finish()
    if not recordings:
        raise UsageError(f"{options.program} launched no kernel")
    output = options.output or Path(f"{Path(options.program).stem}.html")
    output.write_text(render(Path(options.program).name, recordings))
    accesses = sum(r.event_count for r in recordings)
    print(f"{output}: {len(recordings)} launch{'es' * (len(recordings) != 1)}, {accesses} accesses; {report.summary()}")
    return status if isinstance(status, int) else int(status is not None)
