"""``tilewright precompile``: what a manifest lists, compiled ahead of its use."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from tilewright.cli.errors import FINDINGS, FINE, UsageError
from tilewright.cli.output import say
from tilewright.cli.parsers import add_command
from tilewright.ir.errors import TileError
from tilewright.runtime.backend_choice import usable
from tilewright.runtime.cache import disk_cache
from tilewright.runtime.compiling import compiled
from tilewright.runtime.manifest import RECORD, ManifestError, read


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "precompile", "compile what a manifest lists into the disk cache", _run)
    parser.add_argument("manifest", metavar="MANIFEST", type=Path)
    parser.add_argument("--json", action="store_true", help="print what became of each kernel as JSON")


def _run(options: argparse.Namespace) -> int:
    os.environ.pop(RECORD, None)
    cache = disk_cache()
    if cache is None:
        raise UsageError("the disk cache is switched off; set TILEWRIGHT_CACHE_DIR to a folder")
    try:
        entries = list(read(options.manifest))
    except OSError as e:
        raise UsageError(f"the manifest {options.manifest} cannot be read: {e.strerror}") from None
    except ManifestError as e:
        raise UsageError(str(e)) from e
    found = []
    for entry in entries:
        start = time.perf_counter()
        outcome, said = "failed", ""
        try:
            _, outcome = compiled(entry.function, usable(entry.backend), entry.options)
        except (ValueError, RuntimeError, TileError) as e:
            said = str(e)
        milliseconds = (time.perf_counter() - start) * 1e3
        found.append({"kernel": entry.function.name, "backend": entry.backend, "outcome": outcome, "message": said})
        if not options.json:
            what = {"failed": f"not compiled: {said}", "compiled": f"compiled in {milliseconds:.0f} ms"}
            say(f"{entry.function.name} for {entry.backend}: {what.get(outcome, 'is in the cache already')}")
    made, failed = (sum(f["outcome"] == outcome for f in found) for outcome in ("compiled", "failed"))
    if options.json:
        say(json.dumps({"folder": str(cache.folder), "kernels": found}, indent=2))
    else:
        say(f"{cache.folder}: {made} of {len(entries)} compiled{f', {failed} failed' if failed else ''}")
    return FINDINGS if failed else FINE
