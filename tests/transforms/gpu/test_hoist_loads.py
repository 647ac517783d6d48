"""Loads come before arithmetic that does not need them, and behind the stores before them."""

from __future__ import annotations

import numpy as np
import pytest
from support.ptx.backend import PtxBackend, PtxExecutable

import tilewright as ct
from tilewright.backends import registry
from tilewright.ir.core import Op
from tilewright.ir.ops.arith import Exp
from tilewright.ir.ops.gpu.memory import GlobalLoad, GlobalStore


@ct.kernel
def gated(x, gate, weights, out):
    a = ct.exp(ct.load(x, (0,), (256,)))
    b = ct.load(gate, (0,), (256,))
    total = ct.sum(a * b)
    ct.store(out, (0,), total * ct.load(weights, (0,), (256,)))
    again = ct.exp(ct.load(out, (0,), (256,)))
    ct.store(out, (1,), again * ct.load(x, (0,), (256,)))


class Kept(PtxBackend):
    name = "kept-for-loads"
    made: PtxExecutable

    def compile(self, *arguments: object) -> PtxExecutable:
        self.made = super().compile(*arguments)  # type: ignore[arg-type]
        return self.made


def test_order_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Kept(2, "sm_80")
    monkeypatch.setitem(registry._loaders, backend.name, lambda: backend)
    x, gate, weights = (np.random.default_rng(i).random(256, np.float32) for i in range(3))
    found = [np.zeros(512, np.float32) for _ in range(2)]
    for name, out in zip((backend.name, "reference"), found):
        ct.launch(None, (1,), gated, (x, gate, weights, out), backend=name)
    np.testing.assert_allclose(*found, rtol=1e-5)
    kinds: tuple[type[Op], ...] = (GlobalLoad, Exp, GlobalStore)
    order = [type(op) for op in backend.made.compiled.distributed.walk() if isinstance(op, kinds)]
    load, exp, store = kinds
    assert order[:5] == [load, load, load, exp, store], "three loads that are independent"
    assert order[5] is load, "of what was stored"
    assert order.index(store) < 5 and order[-1] is store
