"""A small run of the soak test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"
PHASES = ("launches", "kills", "disk_full", "hostile", "interrupts")  # other tests have the rest


def test_every_phase_passes() -> None:
    command = [sys.executable, "-W", "ignore", str(SOAK), "--scale", "0.002", *PHASES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()] == list(PHASES)


def test_unknown_phases_are_named() -> None:
    done = subprocess.run([sys.executable, str(SOAK), "nap"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2 and "unknown phase 'nap'" in done.stderr
