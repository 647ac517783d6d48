"""Compiled kernels as bytes, and bytes that are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as ct
from tilewright.backends.cpu.backend import BACKEND
from tilewright.backends.cpu.compiled import CompiledKernel
from tilewright.backends.cpu.executable import CpuExecutable
from tilewright.runtime.launch import specialization


@ct.kernel
def checks(x, n, out):
    t = ct.load(x, (0,), (4,))
    for _ in range(n):
        t = ct.exp(t)
    ct.assert_(n > 0, "n must be positive")
    ct.print("{} and {}", n, t)
    ct.store(out, (0,), t)


@pytest.fixture(scope="module")
def executable() -> CpuExecutable:
    x = np.zeros(4, np.float32)
    found: CpuExecutable = BACKEND.compile(specialization(checks, (x, 1, x), "cpu").function, {})
    return found


@pytest.fixture(scope="module")
def compiled(executable: CpuExecutable) -> CompiledKernel:
    return executable.compiled


def test_what_code_knows_by_numbers_is_made_again(compiled: CompiledKernel) -> None:
    """The same for a kernel that was stored."""
    function = specialization(checks, (np.zeros(4, np.float32), 1, np.zeros(4, np.float32)), "cpu").function
    stored = BACKEND.capabilities.serialization.from_bytes(function, compiled.to_bytes(), {}, None)
    names = [[op.name for op in ops] for ops in (stored.lowered().sites, stored.lowered().polls)]
    assert names == [["assert", "print"], ["for"]]


def test_what_is_read_is_what_was_written(compiled: CompiledKernel) -> None:
    assert compiled.may_print and compiled.may_fail
    assert CompiledKernel.from_bytes(compiled.to_bytes()) == compiled
    plain = compiled._replace(code=b"object code", block_work=None)
    assert CompiledKernel.from_bytes(plain.to_bytes()) == plain


@given(data=st.data())
def test_other_bytes_are_an_error(compiled: CompiledKernel, data: st.DataObject) -> None:
    """None of them ends the process, or makes anything but a kernel."""
    whole = compiled.to_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    changed = bytearray(whole[:cut])
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=4)):
        if place < cut:
            changed[place] = value
    try:
        found = CompiledKernel.from_bytes(bytes(changed))
    except ValueError:
        return
    assert isinstance(found, CompiledKernel)
