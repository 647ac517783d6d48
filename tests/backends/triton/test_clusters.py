"""Kernels that are spread over clusters of blocks load what they transpose in the transposed order."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.irbuild import run

import tilewright as ct
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.backends.triton.backend import compile_for
from tilewright.backends.triton.clusters import for_clusters
from tilewright.backends.triton.footprint import spilled
from tilewright.backends.triton.target import parse_target
from tilewright.ir.core import Function
from tilewright.ir.verifier import verify
from tilewright.passes.pipelines import optimize
from tilewright.runtime.launch import specialization

HOPPER = parse_target("sm_90")


@ct.kernel(num_ctas=4)
def turned(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int], first: ct.Constant[bool]):
    """Products of transposed tiles: of ``b``, and of ``a`` with ``first``."""
    columns = ct.cdiv(c.shape[1], TN)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], TM) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        total = ct.zeros((TM, TN), ct.float32)
        for k in range(ct.cdiv(b.shape[1], TK)):
            if first:
                x = ct.transpose(ct.load(a, (k, i), (TK, TM), padding_mode=ct.PaddingMode.ZERO))
            else:
                x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
            y = ct.transpose(ct.load(b, (j, k), (TN, TK), padding_mode=ct.PaddingMode.ZERO))
            total = ct.mma(x, y, total)
        ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel(num_ctas=2)
def overwritten(a, b, c):
    """The tile that is transposed was stored over in between."""
    x = ct.load(a, (0, 0), (256, 64))
    y = ct.load(b, (0, 0), (256, 64))
    ct.store(b, (0, 0), x)
    ct.store(c, (0, 0), ct.mma(x, ct.transpose(y), ct.zeros((256, 256), ct.float32)))


def function_of(n: int, shape: tuple[int, int, int], dtype: Any = np.float16) -> Function:
    a, b, c = (np.zeros((n, n), t) for t in (dtype, dtype, np.float16))
    return optimize(specialization(turned, (a, b, c, *shape, False), "reference").function)


@pytest.mark.parametrize("first", [False, True])
def test_the_result_is_that_of_the_transposed_tiles(first: bool) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((72, 140) if first else (140, 72), (520, 72)))
    c = np.zeros((140, 520), np.float16)
    function = optimize(specialization(turned, (a, b, c, 128, 512, 64, first), "reference").function)
    form = for_clusters(function, HOPPER)
    verify(form)
    assert not any(op.name == "permute" for op in form.walk())
    run(REFERENCE, form, (2,), a=a, b=b, c=c)
    np.testing.assert_array_equal(c, (a.T if first else a) @ b.T)


def test_large_products_of_transposed_tiles_are_spread() -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    made = compile_for(function_of(1024, (128, 512, 64)), HOPPER, {})
    assert made.binary.num_ctas == 4 and "without effect: none" in made.binary.texts["choices"]
    assert "wgmma.mma_async" in made.binary.texts["PTX"] and spilled(made.binary, HOPPER) == 0


def test_what_one_block_holds_and_what_is_stored_over_are_compiled_without_the_hint() -> None:
    small = for_clusters(function_of(1024, (128, 128, 64)), HOPPER)
    x = np.zeros((256, 64), np.float16)
    arguments = (x, x.copy(), np.zeros((256, 256), np.float32))
    stored = for_clusters(optimize(specialization(overwritten, arguments, "reference").function), HOPPER)
    narrow = for_clusters(function_of(1024, (128, 512, 64), ml_dtypes.float8_e4m3fn), HOPPER)
    for function in (small, stored, narrow):
        assert "num_ctas" not in function.hints
        assert any(op.name == "permute" for op in function.walk())
    assert "num_ctas" not in for_clusters(function_of(1024, (128, 512, 64)), parse_target("sm_80")).hints


def test_a_hint_without_effect_changes_nothing() -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    a, b, c = (np.zeros((1024, 1024), np.float16) for _ in range(3))
    texts = [
        compile_for(specialization(kernel, (a, b, c, 128, 128, 64, False), "reference").function, HOPPER, {})
        for kernel in (turned, turned.replace_hints(num_ctas=None))
    ]
    assert texts[0].binary.texts["TTIR"] == texts[1].binary.texts["TTIR"]
    assert "without effect: num_ctas" in texts[0].binary.texts["choices"]
