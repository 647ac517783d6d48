"""``tilewright doctor``: which backends work on this machine."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
from typing import Any

import numpy as np

import tilewright as ct
from tilewright.backends.registry import backend_names, get_backend
from tilewright.cli.errors import FINDINGS, FINE
from tilewright.cli.output import say
from tilewright.frontend.cpp.toolchain import require_compiler
from tilewright.ir.errors import TileError
from tilewright.runtime.backend_choice import usable
from tilewright.runtime.cache import disk_cache

_PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "triton", "ziglang", "nvidia-cuda-tileiras")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("doctor", help="say which backends work here, and why others do not")
    parser.set_defaults(run=run)


@ct.kernel
def _increment(x: Any, out: Any) -> None:
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (4,)) + 1)


def run(options: argparse.Namespace) -> int:
    say(f"tilewright {ct.__version__}, Python {platform.python_version()} on {platform.machine()} {platform.system()}")
    say("packages: " + ", ".join(f"{name} {_version(name)}" for name in _PACKAGES))
    cache = disk_cache()
    say(f"disk cache: {cache.folder if cache else 'switched off'}")
    broken = False
    for name in backend_names():
        missing = _missing(name)
        finding = _finding(name) if missing is None else None
        broken = broken or finding is not None
        say(f"backend {name:<12} {f'not here: {missing}' if missing else finding or 'works'}")
    say(f"Tile C++            {_compiler()}")
    return FINDINGS if broken else FINE


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


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
