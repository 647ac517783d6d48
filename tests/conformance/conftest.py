"""Tests that ask for ``engine`` run on every engine of the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tilewright as ct


@pytest.fixture(params=["reference", "cpu"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    with ct.use_backend(request.param):
        yield request.param
