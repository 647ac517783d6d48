"""MMA ops of float64: from Hopper on instructions of 16 rows, which take several steps along K."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from support.ptx.backend import PtxBackend, ptx_backend

import tilewright as ct
from tilewright.backends import registry
from tilewright.backends.gpu import assemble
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.runtime.launch import specialization


@ct.kernel
def product(
    a: ct.Array, b: ct.Array, c: ct.Array, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]
) -> None:
    total = ct.load(c, (ct.bid(0), ct.bid(1)), (M, N))
    for k in range(ct.num_tiles(a, 1, (M, K))):
        total = ct.mma(ct.load(a, (ct.bid(0), k), (M, K)), ct.load(b, (k, ct.bid(1)), (K, N)), total)
    ct.store(c, (ct.bid(0), ct.bid(1)), total)


@pytest.mark.parametrize(
    ("target", "tile", "shape"),
    [
        ("sm_80", (32, 32, 16), "m8n8k4"),
        ("sm_90", (64, 64, 16), "m16n8k16"),
        ("sm_90", (32, 32, 32), "m16n8k16"),
        ("sm_90", (16, 64, 8), "m16n8k8"),
        ("sm_90", (64, 8, 4), "m16n8k4"),
        ("sm_90", (8, 32, 16), "m8n8k4"),  # too few rows
    ],
)
def test_products(target: str, tile: tuple[int, int, int], shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(sum(tile))
    (m, n, k), texts = tile, []
    a, b = rng.integers(-9, 9, (2 * m, 3 * k)).astype(float), rng.integers(-9, 9, (3 * k, 2 * n)).astype(float)
    c = rng.integers(-9, 9, (2 * m, 2 * n)).astype(float)
    wanted = a @ b + c
    with ptx_backend(None, target) as name:
        backend = registry.get_backend(name)
        assert isinstance(backend, PtxBackend)
        compile_ = backend.compile
        monkeypatch.setattr(
            backend, "compile", lambda *args: [made := compile_(*args), texts.append(made.compiled.ptx)][0]
        )
        ct.launch(None, (2, 2), product, (a, b, c, *tile), backend=name)
    np.testing.assert_array_equal(c, wanted)
    assert set(re.findall(r"mma\.sync\.aligned\.(\w+)", texts[0])) == {shape}


@pytest.mark.skipif(assemble.missing() is not None, reason=assemble.missing() or "")
def test_an_occupancy_with_too_few_registers_for_the_instructions_is_given_up() -> None:
    arrays = (np.zeros((64, 4)), np.zeros((4, 16)), np.zeros((64, 16)))
    with ptx_backend(None, "sm_90") as name:
        function = specialization(product, (*arrays, 64, 16, 4), name).function
    stages = GpuBackend("sm_90").compile(replace(function, hints={"occupancy": 9}), {}).stages()
    assert "compiled again: without the hint occupancy" in stages["compile decisions"]
