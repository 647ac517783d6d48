"""Operators on DTensors, in several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this build of PyTorch has no torch.distributed", allow_module_level=True)
TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("processes", [2, 4])
def test_strategies_of_the_declaration(processes: int, tmp_path: Path) -> None:
    """Products and norms are split as declared, forward, backward and compiled."""
    program = str(TESTS / "support" / "dtensor_program.py")
    paths = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TILEWRIGHT_NUM_THREADS": "1", "PYTHONPATH": paths}
    command = [sys.executable, program]
    running = [
        subprocess.Popen(
            [*command, str(rank), str(processes), str(tmp_path / "meeting")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(processes)
    ]
    outputs = [process.communicate(timeout=400)[0] for process in running]
    assert all("done" in output for output in outputs), "\n".join(output[-3000:] for output in outputs)
