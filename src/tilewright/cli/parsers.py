"""The parser of a command."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def add_command(
    commands: Any, name: str, summary: str, run: Callable[[argparse.Namespace], int], epilog: str | None = None
) -> argparse.ArgumentParser:
    """Add the command ``name`` to ``commands``, which ``run`` runs; ``epilog`` is shown as it is written."""
    raw = argparse.RawDescriptionHelpFormatter
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, epilog=epilog, formatter_class=raw)
    parser.set_defaults(run=run)
    return parser
