"""Clamps between 0 and 1 give the number that the language says for NaN, which a saturation does not."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from backends.triton.compiled_kernels import compiled, disassembler

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")


@ct.kernel
def lower_after_upper(x, out):
    """However they are written. Two forms propagate NaN, and one is a saturation that may be made."""
    a = ct.load(x, (0,), (128,))
    below = (
        ct.minimum(a, 1),
        ct.minimum(1, a),
        ct.where(a < 1, a, 1),
        ct.where(1 >= a, a, 1),  # noqa: SIM300 - the order is what is tested
        ct.where(~(a <= 1), 1, a),
        ct.minimum(a, 1).reshape((2, 64)).reshape((128,)),
    )
    for i in ct.static_iter(range(6)):
        b = below[i]
        ct.store(out, (i, 0), ct.maximum(b, 0).reshape((1, 128)))
        ct.store(out, (6 + i, 0), ct.where(b > 0, b, 0).reshape((1, 128)))
        ct.store(out, (12 + i, 0), ct.where(0 < b, b, 0).reshape((1, 128)))  # noqa: SIM300
        ct.store(out, (18 + i, 0), ct.where(~(b > 0), 0, b).reshape((1, 128)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_no_saturation(dtype: Any, target: str, tmp_path: Path) -> None:
    arguments = np.zeros(128, dtype), np.zeros((24, 128), dtype)
    path = tmp_path / "kernel.cubin"
    path.write_bytes(compiled(lower_after_upper, arguments, target).binary.code)
    command = [disassembler(target), "-c", str(path)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "MNMX" in listing and ".SAT" not in listing


def test_float64_is_compared() -> None:
    """There, ptxas makes a saturation of every form of a maximum with zero."""
    made = lower_after_upper.compile_for("sm_90", (np.zeros(128), np.zeros((24, 128))))
    assert "max.f64" not in made.stage("PTX") and "setp.gt.f64" not in made.stage("PTX")
