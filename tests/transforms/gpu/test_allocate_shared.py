"""Tiles that are live at the same time have shared memory of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import aligned
from support.ptx.backend import ptx_backend
from transforms.gpu.test_specialize_warps import HEAD, SUM, TILE, constants

import tilewright as ct
from tilewright.ir.ops.gpu.memory import SharedAlloc
from tilewright.ir.parser import parse_function
from tilewright.transforms.gpu.allocate_shared import AllocateShared

OTHER = f"shared<{TILE.replace('f16', 'f32')}>"
EXCHANGED = f"""
  %c = gpu.shared_alloc() {{type = !{OTHER}}} : {OTHER}
  %d = gpu.shared_load(%c) {{type = !f32[64,64]{SUM}}} : f32[64,64]{SUM}"""
WAITED = f"\n  %w = gpu.wgmma_wait([%u], [], []) : f32[64,64]{SUM}"


@pytest.mark.parametrize(("after", "apart"), [(EXCHANGED + WAITED, True), (WAITED + EXCHANGED, False)])
def test_what_an_mma_op_reads_stays_until_that_is_waited_for(after: str, apart: bool) -> None:
    function = parse_function(f"""{HEAD}{constants("")}
  %x = gpu.shared_alloc() {{type = !shared<{TILE}>, alignment = 1024}} : shared<{TILE}>
  %first = gpu.wgmma(%x, %x, %z) {{pending = none}} : f32[64,64]{SUM}
  %u = gpu.wgmma(%x, %x, %first) {{pending = none}} : f32[64,64]{SUM}{after}
  print([%w, %d]) {{parts = (none, none), formats = ("", "")}}
  return()
}}""")
    placed = AllocateShared().run(function).ops_of(SharedAlloc)
    ends = [(op.offset or 0, (op.offset or 0) + op.type.bytes) for op in placed]
    assert (ends[0][1] <= ends[1][0] or ends[1][1] <= ends[0][0]) == apart


@pytest.mark.parametrize("make", [interpreter_backend, ptx_backend])
def test_a_bias_is_exchanged_beside_the_first_scores(make: Any) -> None:
    """Of two warp groups, in attention over pages, whose first keys are fetched once."""

    @ct.kernel
    def attention(q: ct.Array, k: ct.Array, v: ct.Array, bias: ct.Array, pages: ct.Array, out: ct.Array) -> None:
        x, total = ct.load(q, (0, 0), (128, 32)), ct.zeros((128, 32), ct.float32)
        for j in range(2):
            page = ct.load(pages, (j,), ())
            scores = ct.mma(x, ct.load(k, (0, page), (32, 64), order="F"), ct.zeros((128, 64), ct.float32))
            scores += ct.load(bias, (0, page), (128, 64))
            weights = ct.where(scores > 0, ct.exp2(scores), 0)
            total = ct.mma(weights.astype(q.dtype), ct.load(v, (page, 0), (64, 32)), total)
        ct.store(out, (0, 0), total)

    rng, pages = np.random.default_rng(2), np.array([1, 0], np.int32)
    q, k, v = operands = [aligned(shape, np.float16) for shape in ((128, 32), (128, 32), (128, 32))]
    for operand in operands:
        operand[...] = rng.integers(-1, 2, operand.shape) * (rng.random(operand.shape) < 0.3)
    bias, out = aligned((128, 128), np.float32), np.zeros((128, 32), np.float32)
    bias[...] = rng.integers(-1, 2, bias.shape)
    with make(None, target="sm_90") as backend:
        ct.launch(None, (1,), attention, (q, k, v, bias, pages, out), backend=backend)
    scores = q.astype(np.float32) @ k.T.astype(np.float32) + bias
    np.testing.assert_array_equal(out, np.where(scores > 0, np.exp2(scores), 0) @ v.astype(np.float32))
