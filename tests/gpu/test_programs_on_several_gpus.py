"""Examples on two GPUs: over NCCL, in JAX, and over symmetric memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
pytest.importorskip("torch", reason="PyTorch is not installed")


TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def run(folder: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
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
    assert "2 x cuda: loss" in run("transformer", *TORCHRUN, "train_torch.py", "--steps", "50", *options)


@pytest.mark.parametrize("options", [["--tensor", "2"], ["--shard-map"]])
def test_the_transformer_in_jax(options: list[str]) -> None:
    """Plain jit with weights that are split, and shard_map: the same losses as JAX's own operators on one GPU."""
    pytest.importorskip("jax", reason="JAX is not installed")
    assert "2 x gpu: loss" in run("transformer", "train_jax.py", "--devices", "2", "--steps", "50", *options)


def test_an_all_gather_with_matmul_in_one_kernel() -> None:
    """Over symmetric memory, whose accesses nothing but the kernels orders."""
    found = run("symmetric_memory", *TORCHRUN, "torch_gather_matmul.py", "--repetitions", "1000")
    assert "2 GPUs: 1000 repetitions are right" in found
