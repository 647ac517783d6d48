"""Which machine code fits: the processor and the compiler, identified without loading LLVM."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import sys
from pathlib import Path

from tilewright.backends.cpu.on_demand import host
from tilewright.system.environment import switch
from tilewright.system.processors import request_tiles

_PROCESSORS = Path("/proc/cpuinfo")
_ONE_PROCESSOR = 8192  # bytes: more than the description of the first one
_CHANGING = ("TILEWRIGHT_DEBUG_INFO", "TILEWRIGHT_BF16_DOT")  # switches that change the code
_TELLING = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU", "Features")


def target_key() -> str:
    """Names the machine code that this process makes and runs: part of every cache key."""
    chosen = [name for name in _CHANGING if switch(name)]
    if request_tiles():  # now, as stored code has no other way to ask for them
        chosen.append("tiles")
    return ":".join((_target(), *chosen))


@functools.cache
def _target() -> str:
    if not _PROCESSORS.exists():
        return f"{host()}:{_llvm()}"
    with _PROCESSORS.open() as file:
        first = file.read(_ONE_PROCESSOR).split("\n\n")[0]
    facts = sorted(line for line in first.splitlines() if line.startswith(_TELLING) and "MHz" not in line)
    return f"{sys.platform}:{platform.machine()}:{facts}:{_llvm()}"


def _llvm() -> str:
    """Identifies the LLVM that would compile."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return "none"
    status = os.stat(Path(spec.origin).with_name("_version.py"))
    return f"{spec.origin} {status.st_size} {status.st_mtime_ns}"
