"""The ``tilewright`` program."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.cli.errors import MISUSE, STATUSES
from tilewright.cli.files import own_modules
from tilewright.cli.output import open_streams, say, status_of
from tilewright.cli.parsers import hint_at_misplaced
from tilewright.system.environment import check_settings
from tilewright.system.forks import load
from tilewright.version import __version__

# What people come for -> the commands, with their modules. Only that of the command at hand is loaded, where one is:
# what the others import would take longer than many programs.
GROUPS = {
    "run programs": {"demo": "demo", "run": "run", "c++": "cxx"},
    "find faults": {"check": "check", "view": "view", "debug": "debug"},
    "measure": {"bench": "bench", "tune": "tune"},
    "see and keep what is compiled": {
        "inspect": "inspect",
        "record": "record",
        "precompile": "precompile",
        "cache": "cache",
    },
    "set up": {"doctor": "doctor", "completion": "completion"},
}
COMMANDS = {name: module for commands in GROUPS.values() for name, module in commands.items()}
_OF_ALL = "completion"  # tells of all the others


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in ``argv`` (default: of this process); returns the exit status, of which ``errors`` tells."""
    open_streams()
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] not in COMMANDS and not words[0].startswith("-"):
        say(f"tilewright: there is no command {words[0]}{_meant(words[0])}", error=True)
        return MISUSE
    known = bool(words) and words[0] in COMMANDS and words[0] != _OF_ALL
    parser, commands = _parsers(words[:1] if known else list(COMMANDS))
    options, unknown = parser.parse_known_args(words)
    if unknown:
        commands.choices[options.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    # argparse takes away a -- that comes right behind the program
    given = len(getattr(options, "arguments", ()))
    options.separated = words[len(words) - given - 1 : len(words) - given] == ["--"]
    hint_at_misplaced(options, commands.choices[options.command], words)

    def carry_out() -> int:
        check_settings()
        with own_modules():
            status: int = options.run(options)
        return status

    return status_of(carry_out)


def add_command(name: str, commands: Any) -> None:
    """Add the parser of a command to ``commands``."""
    load(f"tilewright.cli.{COMMANDS[name]}").add_parser(commands)


def _meant(word: str) -> str:
    """What to write instead of ``word``: a command that is spelt much like it, or a command before a program."""
    if word.endswith((".py", ".cu", ".cpp", ".tilebc", ".mlir")):
        return f"; to run that program: tilewright run {word}"
    close = difflib.get_close_matches(word, COMMANDS, 1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(COMMANDS)}"


def _parsers(
    names: Sequence[str],
) -> tuple[argparse.ArgumentParser, argparse._SubParsersAction[argparse.ArgumentParser]]:
    """A parser that knows the commands ``names``."""
    parser = argparse.ArgumentParser(
        prog="tilewright",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"tilewright COMMAND --help says more.\n\n{STATUSES}",
    )
    parser.add_argument("--version", action="version", version=f"tilewright {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command", help=argparse.SUPPRESS)
    for name in names:
        add_command(name, commands)
    parser.description = _description({action.dest: action.help or "" for action in commands._choices_actions})
    return parser, commands


def _description(helps: Mapping[str, str]) -> str:
    """The commands in groups, with the help of each, as far as it is known."""
    lines = ["Tile kernels in Python and C++."]
    for title, names in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:<11} {helps[name]}" for name in names if name in helps)]
    return "\n".join(lines)
