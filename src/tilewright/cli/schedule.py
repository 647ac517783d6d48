"""The options that say in which order blocks run."""

from __future__ import annotations

import argparse
from typing import Any

from tilewright.backends.schedule import ORDERS
from tilewright.cli.errors import UsageError


def add_schedule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schedule", choices=ORDERS, default="in-order", help="in which order blocks run")
    parser.add_argument("--seed", type=int, help="of --schedule random; the same seed runs alike (default: 0)")


def schedule(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of the sanitizer that these options ask for. UsageError for a seed that would change nothing."""
    if options.seed is not None and options.schedule != "random":
        raise UsageError(f"--seed is for --schedule random only; --schedule {options.schedule} has no use for it")
    return {"schedule": options.schedule, "seed": options.seed or 0}
