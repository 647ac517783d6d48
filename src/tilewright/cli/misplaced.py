"""Options of a command that were written after PROGRAM, which makes them arguments of the program."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tilewright.cli.output import say


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
