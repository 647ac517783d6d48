"""The example that trains a transformer of tile kernels: its losses are those of the framework's own operators."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "transformer"
SIZES = ["--steps", "3", "--batch", "4", "--length", "40", "--width", "32", "--layers", "1"]


def run(*arguments: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TILEWRIGHT_NUM_THREADS": "1"}
    environment.pop("XLA_FLAGS", None)
    paths = filter(None, sys.path)
    done = subprocess.run(
        [sys.executable, *arguments, *SIZES],
        env={**environment, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("processes", [1, 4])
def test_pytorch(processes: int) -> None:
    torch = pytest.importorskip("torch")
    if processes == 1:
        assert f"1 x {'cuda' if torch.cuda.is_available() else 'cpu'}: loss" in run("train_torch.py")
    else:
        torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
        assert "4 x cpu: loss" in run(*torchrun, "train_torch.py", "--tensor", "2")


@pytest.mark.parametrize("options", [[], ["--devices", "4", "--tensor", "2"], ["--devices", "2", "--shard-map"]])
def test_jax(options: list[str]) -> None:
    pytest.importorskip("jax")
    assert "x cpu: loss" in run("train_jax.py", *options)
