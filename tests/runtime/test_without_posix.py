"""Kernels run where ``os`` lacks what only Linux, or only POSIX systems have: as on macOS and Windows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys
import numpy as np, llvmlite.binding, ml_dtypes, concurrent.futures, multiprocessing, queue, tempfile, subprocess, inspect
for name in {missing}:
    for module in (os, signal):
        if hasattr(module, name):
            delattr(module, name)
sys.platform = {platform!r}
import tilewright as ct

@ct.kernel
def scaled(x, out, n):
    total = ct.zeros((256,), ct.float32)
    for _ in range(n):
        total += ct.load(x, (ct.bid(0),), (256,))
    ct.store(out, (ct.bid(0),), total)

x = np.arange(4096 * 256, dtype=np.float32) % 7
for threads in ("1", "2"):
    os.environ["TILEWRIGHT_NUM_THREADS"] = threads
    for n in (1, 5):
        out = np.zeros_like(x)
        ct.launch(None, (4096,), scaled, (x, out, n))
        assert (out == x * n).all()
print("ran")
"""
LINUX = ["sched_getaffinity", "sched_setaffinity", "RTLD_NOLOAD", "posix_fallocate", "memfd_create"]
POSIX = [
    *LINUX,
    "geteuid",
    "getuid",
    "uname",
    "fork",
    "register_at_fork",
    "sysconf",
    "O_NOFOLLOW",
    "O_NONBLOCK",
    "fchmod",
]
POSIX += ["O_CLOEXEC", "RTLD_NOW", "setitimer", "pthread_kill", "SIGALRM", "SIGBUS", "SIGKILL", "mkfifo", "getloadavg"]


@pytest.mark.parametrize("platform, missing", [("darwin", LINUX), ("win32", POSIX)])
def test_kernels_run(platform: str, missing: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a second time, from the cache."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(missing=missing, platform=platform))
    for _ in range(2):
        found = subprocess.run([sys.executable, program], capture_output=True, text=True)
        assert found.stdout == "ran\n", found.stderr
