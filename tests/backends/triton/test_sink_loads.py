"""Tiles that have no room beside each other are loaded one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.irbuild import run

import tilewright as ct
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.backends.triton import backend
from tilewright.backends.triton.resources import OutOfSharedMemory
from tilewright.ir.core import Op
from tilewright.ir.verifier import verify
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.sink_loads import SinkLoads
from tilewright.transforms.pipelines import optimize


@ct.kernel
def chained(q, k, v, out, D: ct.Constant[int], N: ct.Constant[int]):
    """Both tiles of an iteration are loaded at its start, and one is stored over in between."""
    x = ct.load(q, (0, 0), (64, D))
    total = ct.zeros((64, N), ct.float32)
    for j in range(ct.cdiv(k.shape[0], 128)):
        y = ct.transpose(ct.load(k, (j, 0), (128, D)))
        z = ct.load(v, (j, 0), (128, N))
        before = ct.load(out, (0, 0), (64, N))
        s = ct.mma(x, y, ct.zeros((64, 128), ct.float32))
        ct.store(out, (0, 0), ct.full((64, N), j, ct.float32))
        total = ct.mma(s.astype(ct.float16), z, total) + before
    ct.store(out, (0, 0), total)


def test_loads_move_to_their_uses_but_not_over_stores() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.integers(-2, 3, s).astype(np.float16) for s in ((64, 16), (256, 16), (256, 32)))
    out = rng.integers(-2, 3, (64, 32)).astype(np.float32)
    function = optimize(specialization(chained, (q, k, v, out, 16, 32), "reference").function)
    late = SinkLoads().run(function)
    verify(late)

    def order(of: Op) -> list[str]:
        return [op.name for op in of.regions[0].ops if op.name in ("load_view", "store_view", "mma")]

    loops = [next(op for op in f.walk() if op.name == "for") for f in (function, late)]
    moves = ["load_view", "load_view", "load_view", "mma", "store_view", "mma"]
    assert list(map(order, loops)) == [moves, ["load_view", "mma", "load_view", "load_view", "store_view", "mma"]]
    found = []
    for f in (function, late):
        found.append(out.copy())
        run(REFERENCE, f, (1,), q=q, k=k, v=v, out=found[-1])
    np.testing.assert_array_equal(*found)


def test_what_does_not_fit_otherwise_is_compiled_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    columns = ((512, np.float16), (512, np.float16), (256, np.float16), (256, np.float32))
    arguments = (*(np.zeros((256, n), dtype) for n, dtype in columns), 512, 256)
    compile_with_fallbacks, fails = backend.compile_with_fallbacks, [True]

    def failing(*given: Any) -> Any:
        if fails and fails.pop():
            raise OutOfSharedMemory(327680)
        return compile_with_fallbacks(*given)

    monkeypatch.setattr(backend, "compile_with_fallbacks", failing)
    made = chained.compile_for("sm_90", arguments)
    decisions = made.stage("compile decisions")
    assert "compiled again: the tiles need 327680 bytes of shared memory, so loads wait" in decisions
    fails += [True, True]
    with pytest.raises(ct.TileError, match="needs 327680 bytes of shared memory"):
        chained.replace_hints(opt_level=2).compile_for("sm_90", arguments)
