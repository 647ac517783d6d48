"""TILEWRIGHT_DEBUG_INFO: machine code knows the lines of its kernel, and does the same as without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.kernel_runs import compare, generated

import tilewright as ct
from tilewright.backends.registry import get_backend
from tilewright.runtime.launch import specialization

PROGRAM = """\
import numpy as np
import tilewright as ct

@ct.kernel
def scaled(x, out):
    i = ct.bid(0)
    a = ct.load(x, (i,), (256,))
    ct.store(out, (i,), a * 3)

x, out = np.ones(1024, np.float32), np.zeros(1024, np.float32)
ct.launch(None, (4,), scaled, (x, out))
"""


@ct.kernel
def scaled(x, out):
    ct.store(out, (ct.bid(0),), ct.exp(ct.load(x, (ct.bid(0),), (16,))))


def test_code_has_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = np.ones(16, np.float32), np.zeros(16, np.float32)
    plain = specialization(scaled, arguments, "cpu").executable
    assert "!DILocation" not in plain.stages()["LLVM IR"]
    monkeypatch.setenv("TILEWRIGHT_DEBUG_INFO", "1")
    executable = get_backend("cpu").compile(specialization(scaled, arguments, "cpu").function, {})
    line = scaled.function.__code__.co_firstlineno + 2
    assert f"line: {line}, scope: " in executable.stages()["LLVM IR"]
    assert b".debug_line" in executable.compiled.code


@pytest.mark.parametrize("seed", range(3))
def test_results_are_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setenv("TILEWRIGHT_DEBUG_INFO", "1")
    compare(generated(seed), "cpu")


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_gdb_stops_at_a_line_of_a_kernel(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    commands = ["set breakpoint pending on", "set debuginfod enabled off", "break program.py:7", "run", "bt 1"]
    words = ["gdb", "-q", "-nx", "-batch", *(w for c in commands for w in ("-ex", c)), "--args", sys.executable]
    environment = {**os.environ, "TILEWRIGHT_DEBUG_INFO": "1", "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [*words, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    if "ptrace" in done.stderr:
        pytest.skip("processes may not be traced here")
    assert "a = ct.load(x, (i,), (256,))" in done.stdout and "#0  block () at " in done.stdout, (
        done.stdout + done.stderr
    )
