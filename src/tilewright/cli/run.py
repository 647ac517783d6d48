"""``tilewright run``: a program written for ``cuda.tile``, unmodified."""

from __future__ import annotations

import argparse
from typing import Any

from tilewright.cli.errors import UsageError
from tilewright.compat import add_program, run_program


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("run", help="run a program that imports cuda.tile, unmodified")
    add_program(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    try:
        run_program(
            options.program,
            options.arguments,
            device=options.device,
            replace=options.replace,
            module=options.module,
        )
    except FileNotFoundError as e:
        raise UsageError(str(e)) from None
    return 0
