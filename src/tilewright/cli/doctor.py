"""``tilewright doctor``: which backends work on this machine."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
from typing import Any

import numpy as np

import tilewright as ct
from tilewright.backends.registry import backend_names, get_backend
from tilewright.cli.errors import FINDINGS, FINE
from tilewright.cli.output import say
from tilewright.cli.parsers import add_command
from tilewright.frontend.cpp.toolchain import require_compiler
from tilewright.ir.errors import TileError
from tilewright.runtime.backend_choice import usable
from tilewright.runtime.cache import disk_cache

_PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "triton", "ziglang", "nvidia-cuda-tileiras")


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "doctor", "say which backends work here, and why others do not", run)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


@ct.kernel
def _increment(x: Any, out: Any) -> None:
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (4,)) + 1)


def run(options: argparse.Namespace) -> int:
    found = _findings()
    if options.json:
        say(json.dumps(found, indent=2))
    else:
        say(f"tilewright {found['tilewright']}, Python {found['python']} on {found['machine']}")
        say(
            "packages: "
            + ", ".join(f"{name} {version or '(not installed)'}" for name, version in found["packages"].items())
        )
        say(f"disk cache: {found['cache'] or 'switched off'}")
        for name, state in found["backends"].items():
            say(f"backend {name:<12} {state['says']}")
        say(f"Tile C++            {found['c++']}")
    return FINE if all(state["works"] is not False for state in found["backends"].values()) else FINDINGS


def _findings() -> dict[str, Any]:
    """What was found out about this machine; a backend ``works``, does not, or is not here (None)."""
    cache = disk_cache()
    backends: dict[str, dict[str, Any]] = {}
    for name in backend_names():
        missing = _missing(name)
        fault = _finding(name) if missing is None else None
        works = None if missing is not None else fault is None
        backends[name] = {"works": works, "says": f"not here: {missing}" if missing else fault or "works"}
    return {
        "tilewright": ct.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {platform.system()}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "cache": str(cache.folder) if cache else None,
        "backends": backends,
        "c++": _compiler(),
    }


def _compiler() -> str:
    """Which compiler turns Tile C++ into IR."""
    try:
        found = require_compiler()
        return f"works, with {found.version} ({found.command[0]})"
    except TileError as e:
        return f"not here: {e.message}"


def _missing(name: str) -> str | None:
    """What the backend ``name`` needs and this machine has not got; None when it has everything."""
    try:
        return get_backend(name).unavailable()
    except (ImportError, ValueError):
        return None  # it does not work, which ``_finding`` explains


def _finding(name: str) -> str | None:
    """Why the backend ``name`` does not work; None when it has just run a kernel."""
    try:
        usable(name)
        x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
        ct.launch(None, (2,), _increment, (x, out), backend=name)
    except (RuntimeError, ValueError, OSError, TileError) as e:
        return f"does not work: {e}"
    return None if np.array_equal(out, x + 1) else f"does not work: it computed {out} instead of {x + 1}"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
