"""Random whole kernels give the same on a GPU as on the reference, bit for bit."""

from __future__ import annotations

import pytest
import support.gpu
from support.kernel_runs import compare, generated, seeds

from tilewright.backends import base


@pytest.fixture(autouse=True)
def engine_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine that copies arrays to the GPU and back, in the place of the CPU engine."""
    monkeypatch.setitem(base._MODULES, "cpu", support.gpu.__name__)


@pytest.mark.parametrize("seed", seeds(150))
def test_same_as_the_reference(seed: int) -> None:
    compare(generated(seed), "cpu")
