"""``tilewright cache``: what is in the disk cache."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

from tilewright.cli.errors import FINE
from tilewright.cli.output import say
from tilewright.cli.parsers import add_command
from tilewright.runtime.cache import CacheEntry, DiskCache, disk_cache
from tilewright.system.sizes import show_size


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "cache", "list or clear the disk cache of compiled kernels", run)
    parser.add_argument("action", choices=["list", "clear"])
    parser.add_argument("--json", action="store_true", help="print the entries, or those removed, as JSON")


def run(options: argparse.Namespace) -> int:
    cache = disk_cache()
    if cache is None:
        say("null" if options.json else "the disk cache is switched off (TILEWRIGHT_CACHE_DIR)")
        return FINE
    entries = sorted(cache.entries(), key=lambda e: e.last_use, reverse=True)
    labels = {entry.path: cache.label_of(entry) for entry in entries}
    if options.action == "clear":
        entries = cache.clear()
    if options.json:
        say(json.dumps(_described(cache, entries, labels), indent=2))
    elif options.action == "clear":
        say(f"removed {_contents(entries)} from {cache.folder}")
    else:
        for entry in entries:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.last_use))
            name = "unfinished" if entry.unfinished else labels[entry.path]
            say(f"{when}  {show_size(entry.size):>10}  {entry.path.stem[:16]}  {name}".rstrip())
        total = sum(e.size for e in entries)
        say(f"{cache.folder}: {_contents(entries)}, {show_size(total)} of at most {show_size(cache.limit)}")
    return FINE


def _described(cache: DiskCache, entries: Sequence[CacheEntry], labels: dict[Any, str]) -> dict[str, Any]:
    return {
        "folder": str(cache.folder),
        "limit": cache.limit,
        "entries": [
            {
                "key": entry.path.stem,
                "name": labels.get(entry.path, ""),
                "bytes": entry.size,
                "last_use": entry.last_use,
                "unfinished": entry.unfinished,
            }
            for entry in entries
        ],
    }


def _contents(entries: Sequence[CacheEntry]) -> str:
    unfinished = sum(e.unfinished for e in entries)
    finished = len(entries) - unfinished
    text = f"{finished} entr{'y' if finished == 1 else 'ies'}"
    return f"{text} and {unfinished} unfinished file{'s' * (unfinished != 1)}" if unfinished else text
