"""The arrays of lists are in tables in memory, which Triton's kernels read like other arrays."""

from __future__ import annotations

import numpy as np
import pytest
from backends.gpu.test_lists import Lists
from backends.triton.compiled_kernels import compiled

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.backend import compile_for
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.gpu_runtime.executable import CAPACITIES

pytest.importorskip("triton", reason="the package triton is not installed")


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_tables_are_in_memory(target: str) -> None:
    """Also where there would be room among the parameters; and the copy engine knows arrays of parameters alone."""
    function = Lists(((256, 256, 256),)).function
    artifact = compile_for(function, parse_target(target), {}, Constraints(capacity=CAPACITIES[0]))
    assert artifact.binary.code and not artifact.capacity and not artifact.descriptors
    assert [(t.by_value, t.descriptors, t.entry_bytes) for t in artifact.tables] == [(False, (), 40)] * 3
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact


def test_a_kernel_that_chooses_between_lists() -> None:
    @ct.kernel
    def one_of_two(a, b, out, flag):
        chosen = a
        if flag > 0:
            chosen = b
        ct.store(out, (0,), ct.load(chosen[1], (0,), (64,)))

    ones = [np.zeros(64, np.float32)] * 2
    assert not any(t.by_value for t in compiled(one_of_two, (ones, ones, ones[0], 1), "sm_90").tables)
