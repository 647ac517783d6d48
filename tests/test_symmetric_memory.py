"""The example of an all-gather with matmul in one kernel: processes order their accesses to the memory that they share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "symmetric_memory"


ALONE = """
from multiprocessing.shared_memory import SharedMemory
from processes import work
memories = [SharedMemory(create=True, size=64 + 4 * 64 * 96) for _ in range(2)]
try:
    work(0, memories, (64, 96), 80, 3, 1.0)
finally:
    for memory in memories:
        memory.unlink()
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "TILEWRIGHT_NUM_THREADS": "2", "PYTHONPATH": paths},
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_on_the_host(processes: int) -> None:
    done = run("processes.py", "--processes", str(processes), "--repetitions", "30")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout == f"{processes} processes: 30 repetitions are right\n"


def test_a_process_that_does_not_come() -> None:
    """The others end, and say what they have waited for."""
    done = run("-c", ALONE)
    assert done.returncode == 1
    assert "process 0: nothing came for 1 s in repetition 1" in done.stderr
    assert "process 0 6 and 0, process 1 0 and " in done.stderr
