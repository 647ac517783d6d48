"""Examples that run a process on each of two GPUs, over NCCL and over symmetric memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
pytest.importorskip("torch", reason="PyTorch is not installed")


def run(folder: str, *arguments: str) -> str:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *torchrun, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        cwd=EXAMPLES / folder,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("options", [["--tensor", "2"], ["--tensor", "1"], ["--tensor", "2", "--compile"]])
def test_the_transformer_over_nccl(options: list[str]) -> None:
    """Tensor parallelism, and FSDP2: the losses of 50 steps are those of PyTorch's own operators on one GPU."""
    assert "2 x cuda: loss" in run("transformer", "train_torch.py", "--steps", "50", *options)


def test_an_all_gather_with_matmul_in_one_kernel() -> None:
    """Over symmetric memory, whose accesses nothing but the kernels orders."""
    found = run("symmetric_memory", "torch_gather_matmul.py", "--repetitions", "1000")
    assert "2 GPUs: 1000 repetitions are right" in found
