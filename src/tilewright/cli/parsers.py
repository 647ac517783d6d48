"""The parser of a command, options of several, and a hint at misplaced ones."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.backends.schedule import ORDERS
from tilewright.cli.errors import UsageError
from tilewright.cli.output import say


def add_command(
    commands: Any, name: str, summary: str, run: Callable[[argparse.Namespace], int], epilog: str | None = None
) -> argparse.ArgumentParser:
    """Add the command ``name`` to ``commands``, which ``run`` runs; ``epilog`` is shown as it is written."""
    raw = argparse.RawDescriptionHelpFormatter
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, epilog=epilog, formatter_class=raw)
    parser.set_defaults(run=run)
    return parser


def hint_at_misplaced(options: argparse.Namespace, parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Say so on the standard error, once, where an argument of the program is spelt as an option of ``parser``.

    Options without a long name, such as ``-D``, are too common among programs.

    Nothing is said where ``words``, the command line, hold ``--``: it was meant so.
    """
    if "program" not in options or "--" in words:
        return
    known = [action.option_strings for action in parser._actions]
    own = {text for strings in known if any(s.startswith("--") for s in strings) for text in strings}
    found = next((word for word in options.arguments if word.partition("=")[0] in own), None)
    if found is not None:
        say(
            f"tilewright: {found} comes after {options.program} and is for that program; "
            f"write it before {options.program} where {parser.prog} is to have it",
            error=True,
        )


def add_schedule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schedule", choices=ORDERS, default="in-order", help="in which order blocks run")
    parser.add_argument("--seed", type=int, help="of --schedule random; the same seed runs alike (default: 0)")


def schedule(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of the sanitizer that these options ask for. UsageError for a seed that would change nothing."""
    if options.seed is not None and options.schedule != "random":
        raise UsageError(f"--seed is for --schedule random only; --schedule {options.schedule} has no use for it")
    return {"schedule": options.schedule, "seed": options.seed or 0}
