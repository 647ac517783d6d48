"""Operands of products are copied to shared memory some iterations ahead, text in and text out."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_text import layout
from support.passes import check

import tilewright as ct
from tilewright.ir.gpu_stage import NUM_STAGES
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.gpu.pipeline_loads import PipelineLoads
from tilewright.transforms.pipelines import optimize

SUM = layout([[0, 1], [0, 2], [1, 0], [2, 0]], [[0, 4], [4, 0], [0, 8], [8, 0], [0, 0]])
X = layout([[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0]], [[0, 0], [4, 0], [0, 0], [8, 0], [0, 0]])
Y = layout([[1, 0], [2, 0], [4, 0], [8, 0], [0, 1], [0, 2]], [[0, 4], [0, 0], [0, 8], [0, 0], [0, 0]])
LOADED = layout([[0, 1], [0, 2], [8, 0]], [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]])
SHARED = "f32[16,16]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[1,0],[2,0],[4,4],[8,8]]>"
HEAD = f"""
func @f(%p: ptr<f32> = "x".base, %n: i32 = "n".scalar) hints {{num_warps = 1}} {{
  %zero = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %y = constant() {{value = 2.0, type = !f32[16,16]{Y}}} : f32[16,16]{Y}
  %acc = constant() {{value = 0.0, type = !f32[16,16]{SUM}}} : f32[16,16]{SUM}
  %i = iota() {{type = !i32[16,16]{LOADED}}} : i32[16,16]{LOADED}"""
TAIL = """
  print([%z]) {parts = (none), formats = ("")}
  return()
}
"""


def pointers(at: str) -> str:
    """``%q_at``: where the tile of an iteration is."""
    return f"""
    %p_{at} = ptr_offset(%p, %{at}) : ptr<f32>
    %w_{at} = gpu.splat(%p_{at}) {{type = !ptr<f32>[16,16]{LOADED}}} : ptr<f32>[16,16]{LOADED}
    %q_{at} = ptr_offset(%w_{at}, %i) : ptr<f32>[16,16]{LOADED}"""


LOOP = f"""
  %z = for(%zero, %n, %one, [%acc]) : f32[16,16]{SUM} {{ ^(%k: i32, %s: f32[16,16]{SUM}){pointers("k")}
    %l = gpu.load(%q_k, _, _) {{vector = 4}} : f32[16,16]{LOADED}
    %c = gpu.convert_layout(%l) {{type = !f32[16,16]{X}}} : f32[16,16]{X}
    %t = gpu.mma(%c, %y, %s) {{instruction = (1, 1, 1)}} : f32[16,16]{SUM}
    continue([%t])
  }}"""


def copied(at: str, buffer: str, runs: str) -> str:
    """The copy of one iteration, masked with whether there is one."""
    return f"""{pointers(at)}
    %m_{at} = gpu.splat(%{runs}) {{type = !i1[16,16]{LOADED}}} : i1[16,16]{LOADED}
    %b_{at} = gpu.shared_copy(%buffers, %{buffer}) : shared<{SHARED}>
    gpu.async_copy(%b_{at}, %q_{at}, %m_{at}) {{vector = 4}}
    gpu.async_commit()"""


def next_buffer(of: str, name: str) -> str:
    return f"""
    %o_{name} = constant() {{value = 1, type = !i32}} : i32
    %a_{name} = add(%{of}, %o_{name}) : i32
    %c_{name} = constant() {{value = 2, type = !i32}} : i32
    %e_{name} = cmp(%a_{name}, %c_{name}) {{predicate = CmpPredicate.EQ}} : i1
    %z_{name} = constant() {{value = 0, type = !i32}} : i32
    %{name} = select(%e_{name}, %z_{name}, %a_{name}) : i32"""


# Every step of addresses is made anew for each iteration that runs ahead.
PIPELINED = f"""
  %buffers = gpu.shared_alloc() {{type = !shared<{SHARED},2>}} : shared<{SHARED},2>
  %first = constant() {{value = 0, type = !i32}} : i32
  %runs = cmp(%zero, %n) {{predicate = CmpPredicate.LT}} : i1{copied("zero", "first", "runs")}
  %read = constant() {{value = 0, type = !i32}} : i32
  %written = constant() {{value = 1, type = !i32}} : i32
  %z, %y1, %y2 = for(%zero, %n, %one, [%acc, %read, %written]) : f32[16,16]{SUM}, i32, i32 {{
    ^(%k: i32, %s: f32[16,16]{SUM}, %r: i32, %v: i32)
    gpu.async_wait()
    %ahead = constant() {{value = 1, type = !i32}} : i32
    %distance = mul(%one, %ahead) : i32
    %later = add(%k, %distance) : i32
    %more = cmp(%later, %n) {{predicate = CmpPredicate.LT}} : i1{copied("later", "v", "more")}{pointers("k")}
    %h = gpu.shared_copy(%buffers, %r) : shared<{SHARED}>
    %c = gpu.shared_load(%h) {{type = !f32[16,16]{X}}} : f32[16,16]{X}
    %t = gpu.mma(%c, %y, %s) {{instruction = (1, 1, 1)}} : f32[16,16]{SUM}{next_buffer("r", "nr")}{next_buffer("v", "nv")}
    continue([%t, %nr, %nv])
  }}
  gpu.async_wait()"""


def test_one_iteration_ahead() -> None:
    before = f"{HEAD}{LOOP}{TAIL}"
    after = f"{HEAD}{PIPELINED}{TAIL}".replace("num_warps = 1", "num_warps = 1, pipeline_stages = 2")
    check(PipelineLoads(2), before, after, names=False)
    check(PipelineLoads(3, budget=2048), before, after, names=False)  # no room for a third


@pytest.mark.parametrize(("tile", "stages"), [(32, 6), (128, 3)])
def test_small_steps_run_further_ahead(tile: int, stages: int) -> None:
    @ct.kernel
    def product(a: ct.Array, b: ct.Array, c: ct.Array) -> None:
        total = ct.zeros((tile, tile), ct.float32)
        for k in range(ct.num_tiles(a, 1, (tile, 32))):
            total = ct.mma(ct.load(a, (0, k), (tile, 32)), ct.load(b, (k, 0), (32, tile)), total)
        ct.store(c, (0, 0), total)

    a, b = np.ones((tile, 64), np.float16), np.ones((64, tile), np.float16)
    function = specialization(product, (a, b, np.ones((tile, tile), np.float32)), "reference").function
    assert lower_to_gpu(optimize(function), None).hints[NUM_STAGES] == stages


@pytest.mark.parametrize(
    ("stages", "budget", "old", "new"),
    [
        pytest.param(1, 2048, "", "", id="one stage"),
        pytest.param(3, 1024, "", "", id="room for one buffer"),
        pytest.param(2, 2048, "    %c =", "    gpu.store(%q_k, %l, _)\n    %c =", id="a loop that stores"),
        pytest.param(2, 2048, "    %c =", "    print([%l]) {parts = (none), formats = (\"\")}\n    %c =", id="another use"),
        pytest.param(2, 2048, "vector = 4", "vector = 4, memory_order = MemoryOrder.ACQUIRE, memory_scope = MemoryScope.DEVICE",
                     id="an ordered load"),
    ],
)  # fmt: skip
def test_what_stays(stages: int, budget: int, old: str, new: str) -> None:
    assert old in LOOP
    before = f"{HEAD}{LOOP.replace(old, new) if old else LOOP}{TAIL}"
    check(PipelineLoads(stages, budget), before, before)
