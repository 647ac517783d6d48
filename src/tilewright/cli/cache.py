"""``tilewright cache``: what is in the disk cache."""

from __future__ import annotations

import argparse
import time
from typing import Any

from tilewright.runtime.cache import disk_cache


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("cache", help="list or clear the disk cache of compiled kernels")
    parser.add_argument("action", choices=["list", "clear"])
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    cache = disk_cache()
    if cache is None:
        print("the disk cache is switched off (TILEWRIGHT_CACHE_DIR)")
        return 0
    if options.action == "clear":
        print(f"{cache.folder}: removed {_count(cache.clear())}")
        return 0
    entries = sorted(cache.entries(), key=lambda e: e.last_use, reverse=True)
    for entry in entries:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.last_use))
        print(f"{when}  {entry.size:>9} bytes  {entry.path.stem[:16]}")
    total = sum(e.size for e in entries)
    print(f"{cache.folder}: {_count(len(entries))}, {total} bytes of at most {cache.limit}")
    return 0


def _count(n: int) -> str:
    return f"{n} kernel{'s' * (n != 1)}"
