"""``tilewright run``: a program written for ``cuda.tile``, unmodified."""

from __future__ import annotations

import argparse
from typing import Any

from tilewright.cli.errors import UsageError
from tilewright.compat import run_program


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("run", help="run a program that imports cuda.tile, unmodified")
    add_program(parser)
    parser.set_defaults(run=run)


def add_program(parser: argparse.ArgumentParser) -> None:
    """The options that say which program to run, and how."""
    parser.add_argument("--device", choices=["cpu"], help="run torch CUDA tensors as CPU tensors")
    parser.add_argument("--replace", action="store_true", help="use tilewright even where cuda.tile is installed")
    parser.add_argument("program", metavar="PROGRAM.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")


def run(options: argparse.Namespace) -> int:
    try:
        run_program(options.program, options.arguments, device=options.device, replace=options.replace)
    except FileNotFoundError as e:
        raise UsageError(str(e)) from None
    return 0
