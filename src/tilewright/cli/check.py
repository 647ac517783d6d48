"""``tilewright check``: a program, with every launch under the sanitizer."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from tilewright.cli.cpp import add_options
from tilewright.cli.errors import FINDINGS, FINE, Failure, UsageError, misused, writing
from tilewright.cli.files import check_writable
from tilewright.cli.output import say, status_of
from tilewright.cli.parsers import add_schedule, schedule
from tilewright.cli.run import run as run_program
from tilewright.compat import add_program
from tilewright.cpp.host.findings import Finding
from tilewright.sanitizer import Report, UndefinedBehaviorError, Violation, sanitize
from tilewright.sanitizer.categories import CATEGORIES, category, simt_category
from tilewright.sanitizer.output import to_json, to_sarif
from tilewright.sanitizer.session import current_session


class _WholeWords(argparse.HelpFormatter):
    """Help whose lines do not end within the name of a category."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)


def add_parser(commands: Any) -> None:
    summary = "run a program and report the undefined behaviour of its kernels"
    parser = commands.add_parser("check", help=summary, formatter_class=_WholeWords)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--continue", dest="stop", action="store_false", help="report everything (the default)")
    mode.add_argument("--stop", action="store_true", help="end the program at the first violation")
    parser.set_defaults(stop=False)
    names = f"one of: {', '.join(CATEGORIES)}"
    parser.add_argument("--disable", action="append", default=[], metavar="CATEGORY", help=names)
    parser.add_argument("--enable", action="append", default=[], metavar="CATEGORY", help="such as nan-generated")
    add_schedule(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON; the program prints to stderr")
    parser.add_argument("--sarif", metavar="FILE", help="write the report as SARIF 2.1.0")
    add_program(parser)
    add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """FINE or FINDINGS; a program that ends with another status keeps it."""
    disable, enable = _names(options.disable), _names(options.enable)
    settings = {"stop": options.stop, **schedule(options)}
    if options.sarif is not None:
        check_writable(Path(options.sarif))
    with sanitize(disable=disable, enable=enable, **settings) as report:

        def reported(end: Callable[[], int]) -> int:
            try:
                status = _status(end, options)
            except UsageError:  # nothing ran, of which a report would say that it is clean
                raise
            except BaseException:  # the report of a program that fails comes as well
                _write(report, options)
                raise
            _write(report, options)
            return status or (FINE if report.clean else FINDINGS)

        def at_exit(end: Callable[[], int]) -> int:
            return status_of(lambda: reported(end))

        return reported(lambda: run_program(options, _report, at_exit))


def _names(given: list[str]) -> list[str]:
    """The categories in options that may be repeated or hold several."""
    with misused(ValueError):
        return [category(name.strip()).name for text in given for name in text.split(",")]


def _status(end: Callable[[], int], options: argparse.Namespace) -> int:
    """The exit status of the program, which ``end`` runs or has run."""
    try:
        with redirect_stdout(sys.stderr) if options.json else nullcontext():
            return end()
    except UndefinedBehaviorError:
        return FINDINGS  # it is in the report
    except SystemExit as e:
        if e.code is None or isinstance(e.code, int):
            return e.code or 0
        say(str(e.code), error=True)
        return 1


def _report(findings: Sequence[Finding]) -> None:
    """Add what a launch of a SIMT kernel found, or a copy in host code, which has no kernel, to the report."""
    session = current_session()
    session.report.launches += all(f.kernel for f in findings)
    for f in findings:
        facts = {} if f.thread is None else {"thread": f.thread}
        kind = simt_category(f.category)
        session.add(Violation(kind, f.message, f.kernel, f.loc, f.block, operands=facts, count=f.count))


def _write(report: Report, options: argparse.Namespace) -> None:
    if options.sarif is not None:
        with writing(options.sarif, Failure):
            Path(options.sarif).write_text(json.dumps(to_sarif(report), indent=2) + "\n")
    if options.json:
        say(json.dumps(to_json(report), indent=2))
    else:
        say(report.render(), error=True)
