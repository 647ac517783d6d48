"""Index arithmetic with equal elements, which Triton makes arithmetic of scalars, and code that is never reached."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.backend import compile_for
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.runtime.launch import specialization


@ct.kernel
def loads_one_element(x, out, n):
    """In every thread, and takes the larger of it and another."""
    index = ct.full((8, 16), n, ct.int32) + ct.broadcast_to(ct.load(x, (0,), (1,)), (8, 16))
    found = ct.gather(x, (index,))
    ct.store(out, (0, 0), ct.maximum(found, n) % 7)


@ct.kernel
def loads_nothing(x, out, n):
    rows = ct.broadcast_to(ct.arange(8, dtype=ct.int32).reshape((8, 1)), (8, 16))
    found = ct.gather(x, (rows,), mask=ct.zeros((8, 16), ct.bool_), padding_value=3)
    ct.store(out, (0, 0), ct.minimum(found, n))


@ct.kernel
def never_loops(x, out, n):
    i = 0
    while i < (ct.sum(ct.arange(1, dtype=ct.int32), axis=0) & 3):
        i = i + 1
        rows = ct.arange(16, dtype=ct.int32).reshape((1, 16)) * ct.load(x, (8,), ())
        ct.atomic_max(out, (ct.arange(8, dtype=ct.int32).reshape((8, 1)), rows % 16), ct.gather(x, (rows % n,)))
    ct.store(out, (0, 0), ct.full((8, 16), n, ct.int32))


@pytest.mark.parametrize("kernel", [loads_one_element, loads_nothing, never_loops])
@pytest.mark.parametrize("hides", [False, True])
def test_compiles(kernel: Any, hides: bool) -> None:
    function = specialization(kernel, (np.zeros(64, np.int32), np.zeros((8, 16), np.int32), 4), "reference").function
    assert compile_for(function, parse_target("sm_90"), {}, Constraints(hide_divisibility=hides)).binary.code


@ct.kernel
def two_axes(x, out, n):
    rows, columns = ct.arange(8, dtype=ct.int32).reshape((8, 1)), ct.arange(16, dtype=ct.int32).reshape((1, 16))
    found = ct.gather(x, (ct.minimum(rows * n - columns, 5),)).astype(ct.int8)
    if n > 3:
        found = ct.maximum(found, rows.astype(ct.int8) - columns.astype(ct.int8))
    ct.store(out, (0, 0), found.astype(ct.int32))


def test_nothing_is_said_of_several_axes_where_it_is_hidden() -> None:
    function = specialization(two_axes, (np.zeros(64, np.int32), np.zeros((8, 16), np.int32), 4), "reference").function
    said = "tt.divisibility = dense<1> : tensor<2xi32>"
    for hides in (False, True):
        ttir = compile_for(function, parse_target("sm_90"), {}, Constraints(hide_divisibility=hides)).binary.texts[
            "TTIR"
        ]
        assert (said in ttir) != hides
