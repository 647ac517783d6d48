"""Which backend is the default of a device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: ({found} or None) if name == "triton" else find(name, *a)
import tilewright as ct
from tilewright.backends.registry import default_backend
print(default_backend("cuda"), default_backend("cpu"), default_backend("rocm"))

@ct.kernel
def twice(x, out):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (64,)) * 2)

import numpy as np
x = np.zeros(128, np.float32)
print(*twice.compile_for("sm_90", (x, x)).executable.stages())
"""


@pytest.mark.parametrize("found", ["True", "False"])
def test_the_default_of_gpus(found: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.format(found=found))
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0] == "gpu cpu None" and "PTX" in lines[1]
