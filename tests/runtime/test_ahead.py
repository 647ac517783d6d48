"""Compiling in another process, for a GPU that is elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.base import Machine
from tilewright.backends.registry import get_backend
from tilewright.runtime.abstract import abstract_array
from tilewright.runtime.ahead import LaunchTarget, compile_at
from tilewright.runtime.cache import disk_cache


@ct.kernel
def product(a: Any, b: Any, c: Any, T: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((T, T), ct.float32)
    for k in range(ct.cdiv(a.shape[1], T)):
        total = ct.mma(ct.load(a, (i, k), (T, T)), ct.load(b, (k, j), (T, T)), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@pytest.mark.skipif(get_backend("triton").capabilities.exports == {}, reason="Triton is not installed")
def test_entries_for_a_gpu_that_is_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver is asked; where a grid puts a block on each SM, the variant with a deeper pipeline is compiled, too."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tilewright.gpu_runtime.driver.device", None)
    n, place = 1024, LaunchTarget("triton", Machine("sm_90", 132))
    args = (*(abstract_array(i, (n, n), np.float16, "cuda") for i in range(3)), 64)
    few = compile_at(product.replace_hints(), args, (8, 8, 1), place)
    many = compile_at(product.replace_hints(), args, (64, 64, 1), place)
    assert len(few) == 2 and many == few[:1]
    cache = disk_cache()
    assert cache is not None and all(cache.get(key) == data for key, data, _ in few)


def test_a_kernel_that_is_wrong_has_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    args = (*(abstract_array(i, (64, 64), np.float32) for i in range(3)), 100)
    assert compile_at(product.replace_hints(), args, (1, 1, 1), LaunchTarget("cpu", None)) == []
