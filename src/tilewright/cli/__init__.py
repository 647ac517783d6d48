"""The ``tilewright`` program."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tilewright.cli import cache, check, cxx, debug, demo, doctor, inspect, record, run, view
from tilewright.cli.errors import UsageError
from tilewright.cli.output import finish, open_streams, say
from tilewright.ir.errors import TileError
from tilewright.version import __version__

# What people come for -> the modules of the commands.
GROUPS = {
    "run programs": (demo, run, cxx),
    "find faults": (check, view, debug),
    "see and keep what is compiled": (inspect, record, cache, doctor),
}
COMMANDS = tuple(module for modules in GROUPS.values() for module in modules)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in ``argv`` (default: of this process); returns the exit status."""
    open_streams()
    parser = argparse.ArgumentParser(
        prog="tilewright",
        description=_description(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="tilewright COMMAND --help says more.",
    )
    parser.add_argument("--version", action="version", version=f"tilewright {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", help=argparse.SUPPRESS)
    for command in COMMANDS:
        command.add_parser(commands)
    options = parser.parse_args(argv)
    try:
        status: int = options.run(options)
    except (UsageError, TileError) as e:
        say(f"tilewright: {e}", error=True)
        return 1
    return finish(status)


def _description() -> str:
    """The commands in groups, with the help of each."""
    lines = ["Tile kernels in Python and C++."]
    for title, modules in GROUPS.items():
        parser = argparse.ArgumentParser(add_help=False)
        commands = parser.add_subparsers()
        for module in modules:
            module.add_parser(commands)
        lines += ["", f"{title}:"]
        for action in commands._choices_actions:
            lines.append(f"  {action.dest:<11} {action.help}")
    return "\n".join(lines)
