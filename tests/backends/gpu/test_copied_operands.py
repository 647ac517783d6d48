"""Operands that the launch copies: to where the TMA unit reads them, and transposed for instructions that want it so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_products import BF16, E4M3, E5M2, Product, matmul, persistent
from support.ptx.backend import PtxBackend, ptx_backend

from tilewright.backends import registry
from tilewright.ir.ops.gpu.wgmma import Wgmma

PRODUCTS = [
    Product((64, 64, 128), (64, 64, 128), E4M3),
    Product((72, 80, 144), (64, 64, 64), E5M2),
    Product((64, 64, 96), (64, 64, 32), np.int8, np.int32),
    Product((64, 40, 72), (64, 32, 32), np.float32, rounded=True),
    Product((64, 64, 64), (64, 64, 64), E4M3, left=True),  # both operands
    Product((70, 67, 69), (64, 64, 64), E4M3),  # none of whose rows are whole units
    Product((67, 71, 45), (64, 64, 32), np.float16, np.float32),
    Product((67, 71, 45), (64, 64, 32), BF16, BF16, left=True, right=True),
    Product((131, 133, 45), (128, 128, 32), np.float16, np.float16),  # threads store row by row
]


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
@pytest.mark.parametrize("kernel", [matmul, persistent])
def test_copied_operands(product: Product, kernel: Any) -> None:
    if kernel is persistent and product.rounded:
        pytest.skip("it does not round")
    with ptx_backend(None, "sm_90", realign=True) as name:
        backend = registry.get_backend(name)
        assert isinstance(backend, PtxBackend)
        product.run(name, kernel)
    assert any(isinstance(op, Wgmma) for op in backend.made[0].compiled.distributed.walk())
    assert any(op.needs_realign for op in backend.made[0].compiled.maps)
