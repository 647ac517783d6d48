"""Every test here runs on each backend, the CPU one with more threads than there are cores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support.elementwise import BACKENDS

import tilewright as ct


@pytest.fixture(params=BACKENDS, autouse=True)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "8")
    with ct.use_backend(request.param), np.errstate(all="ignore"):
        yield request.param
