"""Compiled kernels as bytes, and bytes that are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as ct
from tilewright.backends.cpu import record
from tilewright.backends.cpu.compiled import CompiledKernel
from tilewright.runtime.launch import specialization


@ct.kernel
def checks(x, n, out):
    t = ct.load(x, (0,), (4,))
    ct.assert_(n > 0, "n must be positive")
    ct.print("{} and {}", n, t)
    ct.store(out, (0,), ct.exp(t))


@pytest.fixture(scope="module")
def compiled() -> CompiledKernel:
    x = np.zeros(4, np.float32)
    return specialization(checks, (x, 1, x), "cpu").executable.compiled


def test_what_is_read_is_what_was_written(compiled: CompiledKernel) -> None:
    assert compiled.sites
    assert record.from_bytes(record.to_bytes(compiled)) == compiled
    plain = compiled._replace(code=b"object code", block_work=None)
    assert record.from_bytes(record.to_bytes(plain)) == plain


@given(data=st.data())
def test_other_bytes_are_an_error(compiled: CompiledKernel, data: st.DataObject) -> None:
    """None of them ends the process, or makes anything but a kernel."""
    whole = record.to_bytes(compiled)
    cut = data.draw(st.integers(0, len(whole)))
    changed = bytearray(whole[:cut])
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=4)):
        if place < cut:
            changed[place] = value
    try:
        found = record.from_bytes(bytes(changed))
    except ValueError:
        return
    assert isinstance(found, CompiledKernel)
