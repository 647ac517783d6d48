"""The ``tilewright`` program."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tilewright.cli import cache, check, cxx, debug, demo, doctor, inspect, record, run, view
from tilewright.cli.errors import UsageError
from tilewright.cli.output import finish, open_streams, say
from tilewright.ir.errors import TileError
from tilewright.version import __version__

COMMANDS = (demo, run, cxx, check, view, debug, inspect, record, doctor, cache)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in ``argv`` (default: of this process); returns the exit status."""
    open_streams()
    parser = argparse.ArgumentParser(prog="tilewright", description="Tile kernels in Python and C++.")
    parser.add_argument("--version", action="version", version=f"tilewright {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    options = parser.parse_args(argv)
    try:
        status: int = options.run(options)
    except (UsageError, TileError) as e:
        say(f"tilewright: {e}", error=True)
        return 1
    return finish(status)
