"""NumPy's warnings about special values are noise in comparisons of backends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def quiet_numpy() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield
