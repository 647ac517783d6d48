"""``tilewright record``: what a program compiles, in a list."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from tilewright.cli import run
from tilewright.cli.cpp import add_options
from tilewright.cli.errors import UsageError
from tilewright.cli.files import check_writable
from tilewright.cli.parsers import add_command
from tilewright.compat import add_program
from tilewright.runtime.manifest import RECORD


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "record", "run a program and list all that it compiles in a manifest", _record)
    parser.add_argument("manifest", metavar="MANIFEST", type=Path, help="the file to add to")
    add_program(parser)
    add_options(parser)


def _record(options: argparse.Namespace) -> int:
    if options.manifest.exists() and not options.manifest.is_file():
        raise UsageError(f"{options.manifest} is no regular file, which a manifest must be")
    check_writable(options.manifest)  # the program would find out at its first launch only
    os.environ[RECORD] = str(options.manifest.resolve())
    return run.run(options)
