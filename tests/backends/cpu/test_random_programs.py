"""Random programs give the same arrays on the CPU as on the reference backend, bit for bit."""

from __future__ import annotations

import pytest
from backends.cpu.comparison import compare
from backends.cpu.programs import ProgramMaker
from support.kernel_runs import seeds


@pytest.mark.parametrize("seed", seeds(20))
def test_random_program(seed: int) -> None:
    function, arrays = ProgramMaker(seed).make(14)
    compare(function, (1,), 0, **arrays)


@pytest.mark.parametrize("seed", seeds(4, 1000))
def test_long_random_program(seed: int) -> None:
    function, arrays = ProgramMaker(seed).make(40)
    compare(function, (1,), 0, **arrays)
