"""Products and attention whose sums are in tensor memory (sm_100): the results in both interpreters, and what is found."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.gpu_attention import run
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, E4M3, E5M2, Product, matmul, persistent, random_product
from support.gpu_stage import Fault
from support.passes import after, without
from support.ptx.backend import ptx_backend

from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tensor_memory import Tcgen05Mma, Tcgen05Wait, TensorLoad, TensorStore
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

BACKENDS: list[Callable[[], Any]] = [
    functools.partial(interpreter_backend, None, target="sm_100"),
    functools.partial(ptx_backend, None, "sm_100"),
]
PRODUCTS = [
    Product(),
    Product((200, 88, 104), out=np.float16),  # edges, and fewer steps than stages
    Product((128, 64, 64), (128, 64, 64), BF16, BF16),  # two warp groups
    Product((256, 64, 64), (256, 64, 32)),  # each of which has two times 64 rows
    Product((64, 32, 64), (64, 32, 16), right=True),  # rows of 32 bytes
    Product((64, 256, 64), (64, 256, 64), left=True),
    Product((64, 48, 64), (64, 16, 32), BF16),
    Product(dtype=E4M3, right=True),
    Product(dtype=E5M2, right=True, tile=(64, 64, 32)),
    Product(dtype=np.int8, out=np.int32, right=True),
    Product(dtype=np.uint8, out=np.int32, right=True),
    Product(dtype=E4M3),  # transposed by threads
    Product((128, 64, 64), (128, 64, 64), np.float32, rounded=True),
    Product((40, 136, 72), (16, 64, 32)),  # few rows: the transposed product
]


def seen(run: Callable[[], object]) -> Function:
    """The function of the gpu stage of what ``run`` compiles."""
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see):
        run()
    return found[-1]


@pytest.mark.parametrize("make", BACKENDS, ids=["interpreter", "ptx"])
@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_products(product: Product, make: Callable[[], Any]) -> None:
    with make() as backend:
        function = seen(lambda: product.run(backend, matmul))
    assert function.ops_of(Tcgen05Mma) and not function.ops_of(GpuMma)


@pytest.mark.parametrize("make", BACKENDS, ids=["interpreter", "ptx"])
@pytest.mark.parametrize("seed", range(8))
def test_random_products(seed: int, make: Callable[[], Any]) -> None:
    product = random_product(seed)
    with make() as backend:
        product.run(backend, matmul if product.rounded else persistent, blocks=1 + seed % 3)


def test_sums_of_a_loop_are_loaded_once() -> None:
    """They are in tensor memory from one iteration to the next, with an MMA op in flight."""
    with interpreter_backend(None, target="sm_100") as backend:
        function = seen(lambda: Product((64, 64, 512)).run(backend, matmul))
    (mma,), (load,) = function.ops_of(Tcgen05Mma), function.ops_of(TensorLoad)
    assert isinstance(mma.parent, For) and load.parent is not mma.parent
    assert all(store.parent is not mma.parent for store in function.ops_of(TensorStore))


@pytest.mark.parametrize("make", BACKENDS, ids=["interpreter", "ptx"])
@pytest.mark.parametrize(
    ("keys", "M", "N", "D", "causal"),
    [(256, 128, 64, 64, False), (200, 64, 64, 64, False), (256, 128, 64, 64, True), (256, 128, 128, 128, False)],
)
def test_attention(make: Callable[[], Any], keys: int, M: int, N: int, D: int, causal: bool) -> None:
    """The weights are a left operand, through shared memory; sums are scaled in registers."""
    function = run(make, keys, M, N, D, causal)
    assert function.ops_of(Tcgen05Mma) and not function.ops_of(GpuMma)


def test_integers_have_no_tensor_memory_on_sm_103() -> None:
    with interpreter_backend(None, target="sm_103") as backend:
        function = seen(lambda: Product(dtype=np.int8, out=np.int32, right=True).run(backend, matmul))
    assert function.ops_of(GpuMma) and not function.ops_of(Tcgen05Mma)


def test_a_wait_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    after(InsertBarriers, functools.partial(without, lambda op: isinstance(op, Tcgen05Wait)), monkeypatch)
    with interpreter_backend(None, target="sm_100") as backend, pytest.raises(Fault, match="in flight"):
        Product().run(backend, matmul)
