"""The backward pass of attention by warp groups: tiles that MMA ops read in both directions are fetched once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.gpu_attention import backward_of_keys, backward_of_queries
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, aligned
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.gpu.memory import SharedCopy
from tilewright.ir.ops.gpu.tma import TmaLoad
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.instrumentation import observed_passes

LENGTH = 192


def interpreted() -> Any:
    return interpreter_backend(None, target="sm_90")


def as_ptx() -> Any:
    return ptx_backend(None, "sm_90")


@pytest.mark.parametrize("make", [interpreted, as_ptx])
@pytest.mark.parametrize("kernel", [backward_of_queries, backward_of_keys])
def test_each_tile_is_fetched_once(kernel: Any, make: Callable[[], Any]) -> None:
    rng = np.random.default_rng(LENGTH)
    arrays = [aligned((LENGTH, 64), BF16) for _ in range(6)]
    for a in arrays[:4]:
        a[...] = rng.standard_normal(a.shape) / 4
    q, k, v, g = (a.astype(np.float64) for a in arrays[:4])
    lse, delta = (aligned((LENGTH,), np.float32) for _ in range(2))
    scores = q @ k.T
    lse[...] = np.log2(np.exp2(scores).sum(1))
    weights = np.exp2(scores - lse[:, None])
    delta[...] = ((weights @ v) * g).sum(1)
    change = weights * (g @ v.T - delta[:, None])
    wanted = [change @ k] if kernel is backward_of_queries else [change.T @ q, weights.T @ g]
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    out = arrays[4 : 4 + len(wanted)]
    with observed_passes(see), make() as backend:
        ct.launch(None, (LENGTH // 64,), kernel, (*arrays[:4], lse, delta, *out, 64, 64, 64), backend=backend)
    for got, want in zip(out, wanted):
        assert np.linalg.norm(got.astype(np.float64) - want) < 5e-3 * np.linalg.norm(want)
    copies = [op.buffer.op for op in found[-1].walk() if isinstance(op, TmaLoad)]
    assert len({copy.buffer for copy in copies if isinstance(copy, SharedCopy)}) == 4
