"""Short steps along k that are done at once: what stays of the loop, and its results in both interpreters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, E4M3, Product, matmul, persistent
from support.ptx.backend import ptx_backend

from tilewright.ir.core import Function
from tilewright.ir.ops.linear import Mma
from tilewright.transforms.gpu.widen_steps import WidenSteps
from tilewright.transforms.instrumentation import observed_passes

PRODUCTS = [
    Product((64, 64, 96), (64, 64, 32)),  # one of two, and one
    Product((64, 64, 32), (64, 64, 32)),  # none
    Product((72, 72, 104), (64, 64, 32), BF16, right=True),  # edges
    Product((64, 64, 112), (64, 64, 16)),  # of four, and three
    Product((64, 64, 224), (64, 64, 32), E4M3, right=True),
    Product((40, 128, 96), (16, 64, 32)),  # transposed
    Product((64, 64, 96), (64, 64, 32), left=True),  # no rows along k
    Product((64, 64, 48), (64, 64, 16), np.float32, right=True, rounded=True),
]


def depths(product: Product, kernel: Any) -> list[int]:
    """How much of k each MMA op adds, after the pass."""
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == WidenSteps.name:
            found.append(function)

    with observed_passes(see), interpreter_backend(None, target="sm_90") as backend:
        product.run(backend, kernel)
    return [op.x.tile.shape[1] for op in found[-1].ops_of(Mma)]


@pytest.mark.parametrize("kernel", [matmul, persistent])
@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_steps_fill_a_line(product: Product, kernel: Any) -> None:
    wide, left = depths(product, kernel)
    assert left == product.tile[2]
    assert wide * np.dtype(product.dtype).itemsize == 128


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_as_instructions(product: Product) -> None:
    with ptx_backend(None, "sm_90") as backend:
        product.run(backend)


OTHERS = [
    Product((64, 64, 128), (64, 64, 64)),  # rows that are as long
    Product((64, 64, 64), (64, 64, 32), E4M3),  # of bytes that threads transpose
]


@pytest.mark.parametrize("product", OTHERS, ids=str)
def test_other_loops_stay(product: Product) -> None:
    assert depths(product, matmul) == [product.tile[2]]
