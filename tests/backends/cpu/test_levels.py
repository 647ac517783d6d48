"""Optimized and unoptimized code leave the same bytes: random programs with and without passes, wide and narrow."""

from __future__ import annotations

import numpy as np
import pytest
from backends.cpu.comparison import Arrays, copies
from backends.cpu.programs import ProgramMaker
from support.irbuild import run
from support.kernel_runs import seeds

from tilewright.backends.cpu import BACKEND, compiler
from tilewright.backends.cpu.codegen.pipeline import LOWERINGS
from tilewright.backends.cpu.target import Processor
from tilewright.backends.vector.features import HostFeatures
from tilewright.ir.core import Function
from tilewright.transforms.pipelines import run_passes


def narrow(vector_bytes: int) -> Processor:
    """This processor, with short vectors, few of them, and none of the instructions that code may choose."""
    return compiler.host()._replace(vector_bytes=vector_bytes, vector_registers=16, features=HostFeatures())


def memory_after(function: Function, arrays: Arrays) -> list[np.ndarray]:
    """Everything around the arrays too."""
    values, memory = copies(arrays)
    run(BACKEND, function, (1,), **values)
    return [m.view(np.uint8) if m.dtype.itemsize == 1 else m for m in memory]


@pytest.mark.parametrize("seed", seeds(10, 5000))
def test_optimization_changes_no_result(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    function, arrays = ProgramMaker(seed).make(14)
    optimized = memory_after(function, arrays)
    monkeypatch.setattr(compiler, "optimize", lambda f: run_passes(f, LOWERINGS))
    without_passes = memory_after(function, arrays)
    processor = narrow((16, 32)[seed % 2])
    monkeypatch.setattr(compiler, "host", lambda: processor)
    plain = memory_after(function, arrays)
    for mine, unoptimized, narrowest in zip(optimized, without_passes, plain):
        np.testing.assert_array_equal(mine, unoptimized)  # NaN equals NaN, whatever its payload
        np.testing.assert_array_equal(mine, narrowest)
