"""Products go without tensor memory where Triton fails at it, and that is said."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton import fallbacks
from tilewright.backends.triton.backend import compile_for
from tilewright.backends.triton.resources import CompilerFailure
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.runtime.launch import specialization

HALF, SINGLE = np.empty((1024, 64), np.float16), np.empty((1024, 64), np.float32)


@ct.kernel
def stored_first(x, y, out, EVERY: ct.Constant[int]):
    """The sums so far are stored before each product, or before every third."""
    sums = ct.zeros((64, 64), ct.float32)
    for k in range(ct.num_tiles(x, 0, (128, 64))):
        if k % EVERY == 0:
            ct.store(out, (k, 0), sums)
        sums = ct.mma(ct.transpose(ct.load(x, (k, 0), (128, 64))), ct.load(y, (k, 0), (128, 64)), sums)
    ct.store(out, (0, 0), sums)


def compiled(every: int, target: str) -> Artifact:
    return compile_for(
        specialization(stored_first, (HALF, HALF, SINGLE, every), "reference").function, parse_target(target), {}
    )


@pytest.mark.filterwarnings("ignore:.* compiles without tensor memory")
@pytest.mark.parametrize("every", [1, 3])
def test_stores_before_products_compile(every: int) -> None:
    """Triton 3.6 fails at both with tensor memory, and 3.9 at the second."""
    text = compiled(every, "sm_100").binary.texts["PTX"]
    assert "tcgen05.mma" in text or "mma.sync" in text


def test_a_failure_of_the_compiler_leads_to_products_in_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = fallbacks.compiler()
    compile_ttir = driver.compile_ttir

    def failing(kernel: Any, target: Any, options: Any, **how: Any) -> Any:
        if options.tensor_memory:
            raise CompilerFailure("it failed; its report is in a file")
        return compile_ttir(kernel, target, options, **how)

    monkeypatch.setattr(driver, "compile_ttir", failing)
    with pytest.warns(
        RuntimeWarning, match=r"stored_first\(\): it failed; its report is in a file\. It compiles without"
    ):
        texts = compiled(1, "sm_100").binary.texts
    assert "mma.sync" in texts["PTX"] and "tcgen05" not in texts["PTX"]
    assert "\nMMA ops: by mma.sync, as it failed; its report is in a file\n" in texts["compile decisions"]
    assert "DISABLE_MMA_V5" not in os.environ
    with pytest.raises(CompilerFailure):  # an architecture without it
        compiled(1, "sm_80")


def test_tensor_memory_is_used() -> None:
    @ct.kernel
    def product(x, y, out):
        tile = ct.mma(ct.load(x, (0, 0), (128, 64)), ct.load(y, (0, 0), (64, 64)), ct.zeros((128, 64), ct.float32))
        ct.store(out, (0, 0), tile)

    function = specialization(product, (HALF, HALF, SINGLE), "reference").function
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        texts = compile_for(function, parse_target("sm_100"), {}).binary.texts
    assert "tcgen05.mma" in texts["PTX"] and "tensor memory" not in texts["compile decisions"]
