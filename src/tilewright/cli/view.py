"""``tilewright view``: a page that shows which block touched which elements, and when."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from tilewright.cli.cpp import add_options
from tilewright.cli.errors import Failure, UsageError, writing
from tilewright.cli.files import check_writable
from tilewright.cli.output import say
from tilewright.cli.parsers import add_command, add_schedule, schedule
from tilewright.cli.run import run as run_program
from tilewright.compat import add_program
from tilewright.sanitizer import Report, sanitize
from tilewright.sanitizer.output import to_json
from tilewright.viewer import Recorder, RecordingProgress, render


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "view", "write a page that shows what the kernels of a program do to memory", run)
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="the page (default: PROGRAM.html, here)")
    parser.add_argument("--limit", type=_positive, default=4_000_000, help="stop recording after so many accesses")
    parser.add_argument(
        "--json", action="store_true", help="say what was recorded as JSON; the program prints to stderr"
    )
    add_schedule(parser)
    add_program(parser)
    add_options(parser)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of accesses; write one from 1 on")
    return int(text)


def run(options: argparse.Namespace) -> int:
    check_writable(_output(options))
    recorder = Recorder(options.limit)
    progress = RecordingProgress()
    with closing(progress), sanitize(**schedule(options), sinks=[recorder, progress]) as report:
        try:
            with redirect_stdout(sys.stderr) if options.json else nullcontext():
                status = run_program(options)
        finally:  # what a program did before it failed is worth seeing too
            _write(recorder, report, options)
    if not recorder.recordings:
        raise UsageError(f"{options.program} launched no kernel")
    return status


def _output(options: argparse.Namespace) -> Path:
    return options.output or Path(f"{Path(options.program).stem}.html")


def _write(recorder: Recorder, report: Report, options: argparse.Namespace) -> None:
    recordings = recorder.finish()
    if not recordings:
        return
    output = _output(options)
    with writing(output, Failure):
        output.write_text(render(Path(options.program).name, recordings), encoding="utf-8")
    accesses = sum(r.event_count for r in recordings)
    if options.json:
        found = {"page": str(output), "launches": len(recordings), "accesses": accesses, "report": to_json(report)}
        say(json.dumps(found, indent=2))
        return
    say(f"{output}: {len(recordings)} launch{'es' * (len(recordings) != 1)}, {accesses} accesses; {report.summary()}")
