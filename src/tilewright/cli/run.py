"""``tilewright run``: a program written for ``cuda.tile``, or for the CUDA runtime and Tile C++, unmodified."""

from __future__ import annotations

import argparse
from typing import Any

from tilewright.cli.cpp import add_options, is_cpp, requested
from tilewright.cli.errors import UsageError
from tilewright.compat import add_program, run_program
from tilewright.cpp.host.program import run as run_cpp


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("run", help="run a program for cuda.tile, or a C++ program with tile kernels")
    add_program(parser)
    add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if not options.module and is_cpp(options.program):
        return run_cpp(requested(options.program, options), options.arguments)
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
