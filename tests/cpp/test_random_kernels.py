"""SIMT kernels of the generator give in loops and by warps what they give as fibers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.simt_programs import simt_program
from support.kernel_runs import seeds


@pytest.mark.parametrize("seed", seeds(2))
def test_random_kernels(seed: int, tmp_path: Path) -> None:
    program = tmp_path / "program.cu"
    program.write_text(simt_program(seed, 6))
    command = [sys.executable, "-m", "tilewright", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr + program.read_text()


def test_a_seed_has_one_program() -> None:
    assert simt_program(3, 2) == simt_program(3, 2) != simt_program(4, 2)
