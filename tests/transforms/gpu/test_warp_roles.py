"""A stager brings what was fetched into the order of an operand, for the warp groups that multiply; text in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import aligned
from support.gpu_text import layout
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.transforms.dce import DeadCodeElimination
from tilewright.transforms.gpu.specialize_warps import SpecializeWarps
from tilewright.transforms.pipelines import run_passes

AFTER = (Path(__file__).parents[2] / "ir" / "wgmma_stager.tir").read_text()
SUM = "f32[128,64]" + layout(
    [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], [[16, 0], [32, 0], [64, 0]]
)
LEFT = "f8e4m3fn[128,64]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,0],[2,16],[4,32],[8,0],[16,0],[32,0],[64,0]]>"  # fmt: skip
FETCHED = "f8e4m3fn[64,64]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,0],[2,16],[4,32],[8,0],[16,0],[32,0]]>"  # fmt: skip
READ = "f8e4m3fn[64,64]" + layout(
    [[0, 1], [1, 0], [8, 0], [0, 16]], [[2, 0], [4, 0], [0, 2], [0, 4], [0, 8]], [[16, 0], [32, 0], [0, 32]]
)
SPLIT = "f8e4m3fn[4,2,4,2,64]" + layout(
    [[0, 0, 0, 0, 1], [0, 0, 0, 1, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 16]],
    [[0, 0, 1, 0, 0], [0, 0, 2, 0, 0], [0, 0, 0, 0, 2], [0, 0, 0, 0, 4], [0, 0, 0, 0, 8]],
    [[1, 0, 0, 0, 0], [2, 0, 0, 0, 0], [0, 0, 0, 0, 32]],
)
MIXED = "f8e4m3fn[4,4,2,2,64]" + layout(
    [[0, 0, 0, 0, 1], [0, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 16]],
    [[0, 1, 0, 0, 0], [0, 2, 0, 0, 0], [0, 0, 0, 0, 2], [0, 0, 0, 0, 4], [0, 0, 0, 0, 8]],
    [[1, 0, 0, 0, 0], [2, 0, 0, 0, 0], [0, 0, 0, 0, 32]],
)
WRITTEN = "f8e4m3fn[64,64]" + layout(
    [[0, 1], [1, 0], [2, 0], [0, 16]], [[4, 0], [8, 0], [0, 2], [0, 4], [0, 8]], [[16, 0], [32, 0], [0, 32]]
)
STAGED = "f8e4m3fn[64,64]#layout<offset = [[1,0],[2,0],[4,0],[8,0],[16,0],[32,0],[0,1],[16,2],[32,4],[0,8],[0,16],[0,32]]>"  # fmt: skip
BEFORE = f"""func @f(%p: ptr<f8e4m3fn> = "x".base, %n: i32 = "x".shape.0, %m: i32 = "x".shape.1, %s: i32 = "x".stride.0) hints {{num_warps = 8}} {{
  %map = gpu.tensor_map() {{base = 0, shape = (("p", 1, 1), ("p", 2, 1)), strides = (("p", 3, 1), ("c", 1, 1)), axes = (0, 1), box = (64, 64), element = "f8E4M3FN", dtype = f8e4m3fn}} : ptr<f8e4m3fn>
  %o = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %z = constant() {{value = 0.0, type = !{SUM}}} : {SUM}
  %x = gpu.fetch(%map, [%o, %o], _) {{type = !shared<{LEFT}>}} : shared<{LEFT}>
  %w = for(%o, %n, %one, [%z]) : {SUM} {{ ^(%k: i32, %t: {SUM})
    %y = gpu.fetch(%map, [%k, %o], _) {{type = !shared<{FETCHED}>}} : shared<{FETCHED}>
    %in = gpu.shared_load(%y) {{type = !{READ}, vector = 2}} : {READ}
    %split = reshape(%in) {{shape = (4, 2, 4, 2, 64)}} : {SPLIT}
    %mixed = permute(%split) {{axes = (0, 2, 1, 3, 4)}} : {MIXED}
    %made = reshape(%mixed) {{shape = (64, 64)}} : {WRITTEN}
    %put = gpu.stage_operand(%made, %y) {{type = !shared<{STAGED}>}} : shared<{STAGED}>
    %u = gpu.wgmma(%x, %put, %t) : {SUM}
    continue([%u])
  }}
  print([%w]) {{parts = (none), formats = ("")}}
  return()
}}
"""


def staged(before: str, limit: int = 232448) -> str:
    """Without what the sides do not need of each other."""
    return print_function(run_passes(parse_function(before), (SpecializeWarps(2, limit), DeadCodeElimination())))


def test_a_stager_fills_the_ring_that_consumers_read() -> None:
    assert staged(BEFORE) == AFTER


@pytest.mark.parametrize(
    ("old", "new", "limit"),
    [
        (
            "    continue",
            '    print([%in]) {parts = (none), formats = ("")}\n    continue',
            232448,
        ),  # others see it, too
        ("%t) : ", "%t) : ", 20 << 10),  # two tiles of the operand have room, those that arrive have none
    ],
)
def test_consumers_do_it(old: str, new: str, limit: int) -> None:
    assert old in BEFORE
    text = staged(BEFORE.replace(old, new), limit)
    assert "gpu.restage" not in text and "gpu.stage_operand" in text


@pytest.mark.parametrize("make", [interpreter_backend, ptx_backend])
def test_values_that_are_transposed_twice_are_brought_by_consumers(make: Any) -> None:
    """As each thread has 16 elements of a row of what is loaded, which ``ldmatrix`` does not transpose."""

    @ct.kernel
    def attention(q: ct.Array, k: ct.Array, v: ct.Array, out: ct.Array) -> None:
        x, total = ct.load(q, (0, 0), (128, 64)), ct.zeros((128, 64), ct.float32)
        for j in range(2):
            scores = ct.mma(x, ct.transpose(ct.load(k, (j, 0), (128, 64))), ct.zeros((128, 128), ct.float32))
            values = ct.transpose(ct.load(v, (0, j), (64, 128), order="F"))
            total = ct.mma(ct.exp2(scores).astype(q.dtype), values, total)
        ct.store(out, (0, 0), total)

    rng, out = np.random.default_rng(0), np.zeros((128, 64), np.float32)
    q, k, v = operands = [aligned((n, 64), ml_dtypes.float8_e4m3fn) for n in (128, 256, 256)]
    for operand in operands:
        operand[...] = rng.integers(-1, 2, operand.shape) * (rng.random(operand.shape) < 0.05)
    with make(None, target="sm_90") as backend:
        ct.launch(None, (1,), attention, (q, k, v, out), backend=backend)
    x, keys, values = (operand.astype(np.float32) for operand in operands)
    np.testing.assert_array_equal(out, np.exp2(x @ keys.T) @ values)
