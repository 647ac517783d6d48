"""Sums in float16, to which warp groups add while they are in flight, two elements in a word."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from backends.gpu.test_gathered_operands import integers, interpreters
from support.gpu_products import E4M3, E5M2, Product, aligned, matmul, persistent

import tilewright as ct
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.runtime.launch import specialization

HALF = ct.float16


@pytest.mark.parametrize("where", interpreters())
@pytest.mark.parametrize(
    ("kernel", "product"),
    [
        (matmul, Product((128, 64, 208), sums=HALF)),
        (matmul, Product((128, 256, 128), (128, 256, 64), out=np.float16, sums=HALF)),
        (matmul, Product((64, 128, 208), (64, 128, 64), E4M3, right=True, sums=HALF)),
        (matmul, Product((64, 64, 208), (64, 64, 32), E5M2, sums=HALF)),
        (matmul, Product((128, 64, 80), left=True, out=np.float16, sums=HALF)),
        (persistent, Product((256, 192, 160), (128, 64, 32), out=np.float16, sums=HALF)),
    ],
)
def test_products(where: str, kernel: Any, product: Product) -> None:
    with interpreters()[where] as backend:
        product.run(backend, kernel, blocks=3)


def parts(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
    """Two tiles beside each other, which one instruction multiplies."""
    first, second = ct.zeros((64, 64), ct.float16), ct.zeros((64, 64), ct.float16)
    for k in range(ct.cdiv(a.shape[1], 64)):
        x = ct.load(a, (0, k), (64, 64))
        first = ct.mma(x, ct.load(b, (k, 0), (64, 64)), first)
        second = ct.mma(x, ct.load(b, (k, 1), (64, 64)), second)
    ct.store(c, (0, 0), first)
    ct.store(c, (0, 1), second)


def halved(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
    """Each step halves the sum, but for every other one: threads compute with it, and control passes it on."""
    total = ct.zeros((64, 128), ct.float16)
    for k in range(ct.cdiv(a.shape[1], 64)):
        if k % 2 == 0:
            total = total * 0.5
        total = ct.mma(ct.load(a, (0, k), (64, 64)), ct.load(b, (k, 0), (64, 128)), total)
    ct.store(c, (0, 0), total)


@pytest.mark.parametrize("where", interpreters())
def test_parts(where: str) -> None:
    a, b, c = integers((64, 208), np.float16), integers((208, 128), np.float16), aligned((64, 128), np.float16)
    with interpreters()[where] as backend:
        ct.launch(None, (1,), ct.kernel(parts), (a, b, c), backend=backend)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("where", interpreters())
def test_sums_that_threads_change(where: str) -> None:
    a, b, c = 4 * integers((64, 256), np.float16), integers((256, 128), np.float16), aligned((64, 128), np.float16)
    with interpreters()[where] as backend:
        ct.launch(None, (1,), ct.kernel(halved), (a, b, c), backend=backend)
    steps = [a[:, k : k + 64].astype(np.float32) @ b[k : k + 64].astype(np.float32) for k in range(0, 256, 64)]
    np.testing.assert_array_equal(c, (steps[0] + steps[1]) / 2 + steps[2] + steps[3])


def compiled(kernel: Any, arguments: tuple[Any, ...], target: str) -> Any:
    return compile_to_ptx(specialization(ct.kernel(kernel), arguments, "reference").function, target, None)


def test_a_loop_carries_words_that_nothing_divides() -> None:
    """What is in flight would be waited for."""
    half = aligned((256, 256), np.float16)
    arguments = half, half, half, 128, 128, 64, False, False, HALF, False
    made = compiled(matmul, arguments, "sm_90a")
    (mma,) = made.distributed.ops_of(Wgmma)
    assert mma.pending != 0 and "m64n128k16.f16.f16.f16" in made.ptx
    loop = made.ptx[made.ptx.index("wgmma.fence") :]
    assert not re.search(r"cvt\.f32\.f16", made.ptx) and "cvt.rn.f16x2.f32" not in loop


def test_tensor_memory_has_a_word_for_each_element() -> None:
    half = aligned((256, 256), np.float16)
    made = compiled(matmul, (half, half, half, 128, 128, 64, False, False, HALF, False), "sm_100a")
    assert made.distributed.ops_of(GpuMma) and "tcgen05.mma" not in made.ptx
