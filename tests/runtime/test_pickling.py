"""Kernels as objects: copied, pickled, and handed to other processes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as ct


@ct.kernel
def scale(x, out, by: ct.Constant[int]):
    ct.store(out, (0,), ct.load(x, (0,), (8,)) * by)


hinted = scale.replace_hints(occupancy=2)


@ct.kernel(num_ctas=2)
def replaced(x):
    ct.store(x, (0,), 1)


original, replaced = replaced, None


class Holder:
    @ct.kernel
    def inner(x, out, by: ct.Constant[int]):
        ct.store(out, (0,), ct.load(x, (0,), (8,)) - by)


def run(kernel: Any, by: int) -> list[float]:
    """In another process."""
    out = np.zeros(8)
    ct.launch(None, (1,), kernel, (np.arange(8.0), out, by), backend="cpu")
    return out.tolist()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("launched", [False, True])
def test_kernels_are_pickled_by_name(protocol: int, launched: bool) -> None:
    if launched:
        run(scale, 2)
    assert pickle.loads(pickle.dumps(scale, protocol)) is scale
    assert pickle.loads(pickle.dumps(Holder.inner, max(protocol, 4))) is Holder.inner
    found = pickle.loads(pickle.dumps(hinted, protocol))
    assert (found.function, found.hints) == (scale.function, hinted.hints)


def test_variants_keep_hints_and_options() -> None:
    variant = scale.replace_hints(occupancy=4).replace_options("cpu", threads=1)
    found = pickle.loads(pickle.dumps(variant))
    assert found is not scale and found.function is scale.function
    assert found.hints == variant.hints and found.options == variant.options
    assert run(found, 3) == run(scale, 3)


def test_kernels_without_a_name_are_refused() -> None:
    @ct.kernel
    def local(x):
        ct.store(x, (0,), 1)

    for kernel in (local, original):
        with pytest.raises(
            pickle.PicklingError, match="is not found under this name in the module .*; define it at the"
        ):
            pickle.dumps(kernel)


def test_copies_are_the_kernel() -> None:
    run(scale, 2)
    held = SimpleNamespace(kernel=scale, more=[hinted])
    assert copy.copy(scale) is scale and copy.deepcopy(hinted) is hinted
    copied = copy.deepcopy(held)
    assert copied.kernel is scale and copied.more == [hinted]


def test_process_pools_take_kernels() -> None:
    run(scale, 2)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(run, [scale, Holder.inner, scale.replace_options("cpu", threads=1)], [3, 1, 2]))
    x = np.arange(8.0)
    assert found == [(x * 3).tolist(), (x - 1).tolist(), (x * 2).tolist()]
