"""``tilewright cache``: what is in the disk cache."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from tilewright.cli.errors import UsageError
from tilewright.cli.output import say
from tilewright.runtime.cache import Entry, disk_cache


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("cache", help="list or clear the disk cache of compiled kernels")
    parser.add_argument("action", choices=["list", "clear"])
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    try:
        cache = disk_cache()
    except ValueError as e:  # of the variables that describe it
        raise UsageError(str(e)) from None
    if cache is None:
        say("the disk cache is switched off (TILEWRIGHT_CACHE_DIR)")
        return 0
    if options.action == "clear":
        say(f"removed {_contents(cache.clear())} from {cache.folder}")
        return 0
    entries = sorted(cache.entries(), key=lambda e: e.last_use, reverse=True)
    for entry in entries:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.last_use))
        say(f"{when}  {entry.size:>9} bytes  {entry.path.stem[:16]}{'  unfinished' * entry.unfinished}")
    total = sum(e.size for e in entries)
    say(f"{cache.folder}: {_contents(entries)}, {total} bytes of at most {cache.limit}")
    return 0


def _contents(entries: Sequence[Entry]) -> str:
    unfinished = sum(e.unfinished for e in entries)
    kernels = len(entries) - unfinished
    text = f"{kernels} kernel{'s' * (kernels != 1)}"
    return f"{text} and {unfinished} unfinished file{'s' * (unfinished != 1)}" if unfinished else text
