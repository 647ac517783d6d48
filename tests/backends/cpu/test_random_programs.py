"""Random programs give the same arrays on the CPU as on the reference backend, bit for bit."""

from __future__ import annotations

import pytest
from backends.cpu.comparison import compare
from backends.cpu.programs import ProgramMaker


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed: int) -> None:
    function, arrays = ProgramMaker(seed).make(14)
    compare(function, (1,), 0, **arrays)


@pytest.mark.parametrize("seed", range(1000, 1010))
def test_long_random_program(seed: int) -> None:
    function, arrays = ProgramMaker(seed).make(40)
    compare(function, (1,), 0, **arrays)
