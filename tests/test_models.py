"""Whole models of Hugging Face's transformers on tile kernels, beside PyTorch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

LLAMA = Path(__file__).parents[1] / "examples" / "models" / "llama.py"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_llama(dtype: str) -> None:
    """Its exit status says whether the logits are those of PyTorch; two prompts' worth of tiles, one of them partial."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    options = ["--layers", "2", "--width", "256", "--prompt", "70", "--new", "5", "--runs", "1"]
    command = [sys.executable, "-m", "tilewright", "run", "--device", "cpu", "--replace", str(LLAMA), *options]
    done = subprocess.run([*command, "--dtype", dtype], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cuda.tile is tilewright" in done.stderr
    found = re.search(r"of the largest; (\d+)% of the tokens agree\ntorch: .*\ntiles: ", done.stdout)
    assert found is not None, done.stdout
    if dtype == "float32":
        assert found[1] == "100"
