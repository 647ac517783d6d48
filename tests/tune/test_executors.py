"""Searches in the executors of libraries for many machines, where these are installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parents[1] / "support" / "executors_program.py")
MODULES = {"mpi": "mpi4py", "ray": "ray", "dask": "distributed"}


@pytest.mark.parametrize("kind", MODULES)
def test_configurations_compile_and_are_measured_there(kind: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(MODULES[kind]) is None:
        pytest.skip(f"{MODULES[kind]} is not installed")
    command = [sys.executable, PROGRAM, kind]
    if kind == "mpi":
        launcher = shutil.which("mpiexec", path=os.pathsep.join([os.path.dirname(sys.executable), os.defpath]))
        if launcher is None:
            pytest.skip("there is no mpiexec")
        command = [launcher, "-n", "2", *command]
    paths = os.pathsep.join(filter(None, sys.path))
    environment = {
        **os.environ,
        "PYTHONPATH": paths,
        "TILEWRIGHT_CACHE_DIR": str(tmp_path),
        "RAY_AUTH_MODE": "disabled",
    }
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.stdout.strip().endswith("done"), run.stdout[-2000:] + run.stderr[-2000:]
