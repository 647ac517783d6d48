"""The example of an all-gather with matmul in one kernel: processes order their accesses to the memory that they share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "symmetric_memory"


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_on_the_host(processes: int) -> None:
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "processes.py", "--processes", str(processes), "--repetitions", "30"],
        env={**os.environ, "TILEWRIGHT_NUM_THREADS": "2", "PYTHONPATH": paths},
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout == f"{processes} processes: 30 repetitions are right\n"
