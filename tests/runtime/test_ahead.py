"""Compiling in another process, for a GPU that is elsewhere."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.base import Machine
from tilewright.ir.printer import print_function
from tilewright.runtime.ahead import CompileRequest, compile_at, compile_request
from tilewright.runtime.arrays import abstract_array
from tilewright.runtime.cache import disk_cache


@ct.kernel
def product(a: Any, b: Any, c: Any, T: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((T, T), ct.float32)
    for k in range(ct.cdiv(a.shape[1], T)):
        total = ct.mma(ct.load(a, (i, k), (T, T)), ct.load(b, (k, j), (T, T)), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def test_entries_for_a_gpu_that_is_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver is asked; where a grid puts a block on each SM, variants for few blocks are compiled, too."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tilewright.gpu_runtime.driver.device", None)
    n = 1024
    args = (*(abstract_array(i, (n, n), np.float16, "cuda") for i in range(3)), 64)
    text = print_function(product.trace(product.regions(args)[0]), locations=True)
    few, many = (
        compile_at(CompileRequest(text, "gpu", Machine("sm_90", 132), {}, grid, 0)) for grid in ((8, 8, 1), (64, 64, 1))
    )
    assert few[0] == many[0]
    assert {key for key, *_ in few} - {key for key, *_ in many}
    cache = disk_cache()
    assert cache is not None and all(cache.get(key) == data for key, data, _ in few)


def test_a_kernel_that_is_wrong_has_no_request() -> None:
    arrays = [np.zeros((64, 64), np.float32) for _ in range(3)]
    with pytest.raises(ct.TileTypeError, match="power of two"):
        compile_request(product.replace_hints(), (*arrays, 100), (1, 1, 1))


def test_a_request_is_what_a_launch_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks of what the kernel does among it; the text form has all of a long chain of ops, which pickling has not."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_CHECK", "1")

    @ct.kernel
    def chain(x: Any, out: Any) -> None:
        tile = ct.load(x, (0,), (16,))
        for i in ct.static_iter(range(300)):
            tile = tile * tile + i
        ct.store(out, (0,), tile)

    x = np.zeros(16, np.int32)
    request = compile_request(chain, (x, x.copy()), (1, 1, 1))
    assert len(compile_at(pickle.loads(pickle.dumps(request)))) == 1
    ct.launch(None, (1,), chain, (x, x.copy()))
    assert [s.compilation.origin for s in chain.inspect().specializations] == ["disk cache"]
