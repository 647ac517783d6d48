"""Stores to one array, of which the TMA unit would do some: what is stored last is there in the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_products import BF16
from support.ptx.backend import PtxBackend

import tilewright as ct
from tilewright.backends import registry
from tilewright.ir.ops.gpu.tma import TmaStore


def zeros_after(total: Any, c: Any, K: int) -> None:
    ct.store(c, (0, 0), total.astype(c.dtype))
    ct.store(c, (0, 1), ct.zeros((64, 16), c.dtype))


def narrower_after(total: Any, c: Any, K: int) -> None:
    ct.store(c, (0, 0), total.astype(c.dtype))
    ct.store(c, (0, 1), ct.extract(total, (0, 0), (64, 32)).astype(c.dtype))


def scattered_after(total: Any, c: Any, K: int) -> None:
    ct.store(c, (0, 0), total.astype(c.dtype))
    ct.scatter(c, (ct.arange(64, dtype=ct.int32)[:, None], ct.arange(16, dtype=ct.int32)[None, :]), 3)


def apart(total: Any, c: Any, K: int) -> None:
    ct.store(c, (0, 0), total.astype(c.dtype))
    ct.store(c, (1, 0), (total * 2).astype(c.dtype))


@pytest.mark.parametrize(("last", "puts"), [(zeros_after, 0), (narrower_after, 0), (scattered_after, 0), (apart, 2)])
def test_what_is_stored_last(last: Any, puts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    @ct.kernel
    def product(a, b, c, K: ct.Constant[int]):
        total = ct.zeros((64, 64), ct.float32)
        for k in range(ct.cdiv(a.shape[1], K)):
            total = ct.mma(ct.load(a, (0, k), (64, K)), ct.load(b, (k, 0), (K, 64)), total)
        last(total, c, K)

    backend = PtxBackend(None, "sm_90")
    monkeypatch.setitem(registry._loaders, backend.name, lambda: backend)
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-2, 3, shape).astype(BF16) for shape in ((64, 128), (128, 64)))
    found = {name: np.zeros((128, 64), BF16) for name in (backend.name, "reference")}
    for name, out in found.items():
        ct.launch(None, (1,), product, (a, b, out, 64), backend=name)
    np.testing.assert_array_equal(*found.values())
    assert sum(isinstance(op, TmaStore) for op in backend.made[-1].compiled.distributed.walk()) == puts
