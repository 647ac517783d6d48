"""The ``tilewright`` program."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tilewright.cli import bench, cache, check, completion, cxx, debug, demo, doctor, inspect, record, run, tune, view
from tilewright.cli.errors import FAILED, MISUSE, STATUSES, Failure, UsageError
from tilewright.cli.failures import show
from tilewright.cli.files import own_modules
from tilewright.cli.misplaced import hint_at_misplaced
from tilewright.cli.output import finish, open_streams, say
from tilewright.ir.errors import TileError
from tilewright.system.environment import SettingError, check_settings
from tilewright.version import __version__

# What people come for -> the modules of the commands.
GROUPS = {
    "run programs": (demo, run, cxx),
    "find faults": (check, view, debug),
    "measure": (bench, tune),
    "see and keep what is compiled": (inspect, record, cache),
    "set up": (doctor, completion),
}
COMMANDS = tuple(module for modules in GROUPS.values() for module in modules)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in ``argv`` (default: of this process); returns the exit status, of which ``errors`` tells.

    What the program raises is shown as Python would show it, from the program's own lines on.
    """
    open_streams()
    parser, commands = _parsers()
    words = sys.argv[1:] if argv is None else argv
    options = parser.parse_args(words)
    hint_at_misplaced(options, commands.choices[options.command], words)
    try:
        check_settings()
        with own_modules():
            status: int = options.run(options)
    except (UsageError, SettingError) as e:
        say(f"tilewright: {e}", error=True)
        return MISUSE
    except (Failure, TileError) as e:
        say(f"tilewright: {e}", error=True)
        return FAILED
    except Exception as e:  # noqa: BLE001 - whatever a program raises is its failure
        show(e)
        return finish(FAILED)
    return finish(status)


def _parsers() -> tuple[argparse.ArgumentParser, argparse._SubParsersAction[argparse.ArgumentParser]]:
    parser = argparse.ArgumentParser(
        prog="tilewright",
        description=_description(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"tilewright COMMAND --help says more.\n\n{STATUSES}",
    )
    parser.add_argument("--version", action="version", version=f"tilewright {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command", help=argparse.SUPPRESS)
    for module in COMMANDS:
        module.add_parser(commands)
    return parser, commands


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
