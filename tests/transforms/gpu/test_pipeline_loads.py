"""Operands of products are copied to shared memory some iterations ahead, text in and text out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import aligned
from support.gpu_text import layout, line
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.gpu_stage import DEEPER, NUM_STAGES
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import AsyncCopy, Barrier, GlobalLoad, PaddedLoad
from tilewright.ir.ops.gpu.tiles import ConvertLayout
from tilewright.ir.parser import parse_function
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.gpu.pipeline_loads import PipelineLoads
from tilewright.transforms.instrumentation import observed_passes
from tilewright.transforms.pipelines import optimize

SUM = layout([[0, 1], [0, 2], [1, 0], [2, 0]], [[0, 4], [4, 0], [0, 8], [8, 0], [0, 0]])
X = layout([[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0]], [[0, 0], [4, 0], [0, 0], [8, 0], [0, 0]])
Y = layout([[1, 0], [2, 0], [4, 0], [8, 0], [0, 1], [0, 2]], [[0, 4], [0, 0], [0, 8], [0, 0], [0, 0]])
LOADED = layout([[0, 1], [0, 2], [8, 0]], [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]])
SHARED = "f32[16,16]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[1,0],[2,0],[8,0],[4,4]]>"
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


PRINTED = '    print([%l]) {parts = (none), formats = ("")}'
BRANCH = f"""    %begins = cmp(%k, %zero) {{predicate = CmpPredicate.EQ}} : i1
    if(%begins) {{types = ()}} {{
      %d = gpu.convert_layout(%l) {{type = !f32[16,16]{X}}} : f32[16,16]{X}
      print([%d]) {{parts = (none), formats = ("")}}
      yield([])
    }} {{
      yield([])
    }}"""


@pytest.mark.parametrize("printed", [PRINTED, BRANCH], ids=["printed", "an operand in a branch"])
def test_what_is_not_only_an_operand_is_read_as_it_was_loaded(printed: str) -> None:
    convert = f"    %c = gpu.convert_layout(%l) {{type = !f32[16,16]{X}}} : f32[16,16]{X}"
    load = f"    %l = gpu.shared_load(%h) {{type = !f32[16,16]{LOADED}, vector = 4}} : f32[16,16]{LOADED}"
    operand = f"    %c = gpu.shared_load(%h) {{type = !f32[16,16]{X}}} : f32[16,16]{X}"
    assert convert in LOOP and operand in PIPELINED
    before = HEAD + LOOP.replace(convert, "\n".join((printed, convert))) + TAIL
    after = HEAD + PIPELINED.replace(operand, "\n".join((load, printed, convert))) + TAIL
    after = after.replace("num_warps = 1", "num_warps = 1, pipeline_stages = 2")
    check(PipelineLoads(2), before, after.replace("[8,0],[4,4]]>", "[4,0],[8,0]]>"), names=False)


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
        pytest.param(2, 2048, "vector = 4", "vector = 4, memory_order = MemoryOrder.ACQUIRE, memory_scope = MemoryScope.DEVICE",
                     id="an ordered load"),
    ],
)  # fmt: skip
def test_what_stays(stages: int, budget: int, old: str, new: str) -> None:
    assert old in LOOP
    before = f"{HEAD}{LOOP.replace(old, new) if old else LOOP}{TAIL}"
    check(PipelineLoads(stages, budget), before, before)


LANES = layout(line(), line(1, 2, 4, 8, 16))  # 32 elements in one warp
ROWS_HEAD = f"""
func @f(%p: ptr<f32> = "x".base, %n: i32 = "n".scalar) hints {{num_warps = 1}} {{
  %o = constant() {{value = 0, type = !i32}} : i32
  %l = constant() {{value = 1, type = !i32}} : i32
  %i = iota() {{type = !i32[32]{LANES}}} : i32[32]{LANES}
  %a = gpu.splat(%p) {{type = !ptr<f32>[32]{LANES}}} : ptr<f32>[32]{LANES}
  %b = ptr_offset(%a, %i) : ptr<f32>[32]{LANES}
  %z = constant() {{value = 0.0, type = !f32[32]{LANES}}} : f32[32]{LANES}"""
ROWS = f"""
  %r = for(%o, %n, %l, [%z]) : f32[32]{LANES} {{ ^(%k: i32, %s: f32[32]{LANES})
    %m = gpu.splat(%k) {{type = !i32[32]{LANES}}} : i32[32]{LANES}
    %d = ptr_offset(%b, %m) : ptr<f32>[32]{LANES}
    %x = gpu.load(%d, _, _) {{vector = 1}} : f32[32]{LANES}
    %t = add(%s, %x) : f32[32]{LANES}
    continue([%t])
  }}
  gpu.store(%b, %r, _) {{vector = 1}}
  return()
}}
"""


def row_copied(at: str, slot: str, runs: str) -> str:
    """The copy of one iteration."""
    return f"""
    %m_{at} = gpu.splat(%{at}) {{type = !i32[32]{LANES}}} : i32[32]{LANES}
    %d_{at} = ptr_offset(%b, %m_{at}) : ptr<f32>[32]{LANES}
    %e_{at} = gpu.splat(%{runs}) {{type = !i1[32]{LANES}}} : i1[32]{LANES}
    %s_{at} = gpu.shared_copy(%ring, %{slot}) : shared<{ROW}>
    gpu.async_copy(%s_{at}, %d_{at}, %e_{at}) {{vector = 1}}
    gpu.async_commit()"""


def later(name: str, of: str, iterations: int) -> str:
    return f"""
    %n_{name} = constant() {{value = {iterations}, type = !i32}} : i32
    %f_{name} = mul(%l, %n_{name}) : i32
    %{name} = add(%{of}, %f_{name}) : i32"""


def next_of_three(of: str) -> str:
    return next_buffer(of, f"n{of}").replace("value = 2,", "value = 3,")


ROW = "f32[32]#layout<offset = [[1],[2],[4],[8],[16]]>"


def test_where_few_blocks_run_rows_are_copied_ahead() -> None:
    """As many as keep the memory busy: with so many blocks on an SM two. Threads read what they have copied."""
    after = f"""{ROWS_HEAD}
  %ring = gpu.shared_alloc() {{type = !shared<{ROW},3>}} : shared<{ROW},3>
  %zero = constant() {{value = 0, type = !i32}} : i32
  %any = cmp(%o, %n) {{predicate = CmpPredicate.LT}} : i1{row_copied("o", "zero", "any")}{later("next", "o", 1)}
  %one = constant() {{value = 1, type = !i32}} : i32
  %more = cmp(%next, %n) {{predicate = CmpPredicate.LT}} : i1{row_copied("next", "one", "more")}
  %r0 = constant() {{value = 0, type = !i32}} : i32
  %w0 = constant() {{value = 2, type = !i32}} : i32
  %r, %y1, %y2 = for(%o, %n, %l, [%z, %r0, %w0]) : f32[32]{LANES}, i32, i32 {{
    ^(%k: i32, %s: f32[32]{LANES}, %from: i32, %to: i32)
    gpu.async_wait() {{pending = 1}}{later("ahead", "k", 2)}
    %exists = cmp(%ahead, %n) {{predicate = CmpPredicate.LT}} : i1{row_copied("ahead", "to", "exists")}
    %m = gpu.splat(%k) {{type = !i32[32]{LANES}}} : i32[32]{LANES}
    %d = ptr_offset(%b, %m) : ptr<f32>[32]{LANES}
    %slot = gpu.shared_copy(%ring, %from) : shared<{ROW}>
    %x = gpu.shared_load(%slot) {{type = !f32[32]{LANES}}} : f32[32]{LANES}
    %t = add(%s, %x) : f32[32]{LANES}{next_of_three("from")}{next_of_three("to")}
    continue([%t, %nfrom, %nto])
  }}
  gpu.async_wait()
  gpu.store(%b, %r, _) {{vector = 1}}
  return()
}}
""".replace("num_warps = 1", "num_warps = 1, pipeline_stages = 3")
    check(PipelineLoads(blocks=250), ROWS_HEAD + ROWS, after, names=False)


def test_how_far_ahead_rows_would_be_copied_is_known() -> None:
    """Three stages, and 16 where few blocks run; none where that is not wanted."""
    found = PipelineLoads().run(parse_function(ROWS_HEAD + ROWS))
    assert (found.hints[NUM_STAGES], found.hints[DEEPER]) == (3, (16,) * 8)
    check(PipelineLoads(1), ROWS_HEAD + ROWS, ROWS_HEAD + ROWS)


@pytest.mark.parametrize(("columns", "stages"), [(4096, 3), (8192, 2), (16384, 3), (32768, None)])
def test_stages_of_large_rows(columns: int, stages: int | None) -> None:
    """As many as an SM has memory for, with so many CTAs as it has registers for."""

    @ct.kernel
    def sums(x: ct.Array, out: ct.Array) -> None:
        total = ct.zeros((1, columns), ct.float32)
        for i in range(x.shape[0]):
            total += ct.load(x, (i, 0), (1, columns))
        ct.store(out, (0, 0), total)

    x = np.ones((2, columns), np.float32)
    function = optimize(specialization(sums, (x, x), "reference").function)
    assert lower_to_gpu(function, 4).hints.get(NUM_STAGES) == stages


@ct.kernel
def row_products(x: ct.Array, v: ct.Array, out: ct.Array) -> None:
    i = ct.bid(0)
    total = ct.zeros((16, 32), ct.float32)
    for j in range(ct.num_tiles(x, 1, (16, 32))):
        total += ct.load(x, (i, j), (16, 32)) * ct.load(v, (j,), (32,))[None, :]
    ct.store(out, (i,), ct.sum(total, axis=1))


@pytest.mark.parametrize("columns", [32, 100, 640])
@pytest.mark.parametrize("warps", [1, 4])
def test_products_with_rows(columns: int, warps: int) -> None:
    """The vector is loaded as threads use it: they wait for each other where they read what others have copied."""
    rng = np.random.default_rng(columns)
    x, v, out = rng.random((16, columns), np.float32), rng.random(columns, np.float32), np.ones(16, np.float32)
    with interpreter_backend(warps, None, "sm_90", blocks=1) as backend:
        ct.launch(None, (1,), row_products, (x, v, out), backend=backend)
    np.testing.assert_allclose(out, x @ v, rtol=1e-5)
    lowered = lower_to_gpu(optimize(specialization(row_products, (x, v, out), "reference").function), warps, blocks=1)
    loop = next(op for op in lowered.walk() if isinstance(op, For))
    kinds = [type(op) for op in loop.walk() if isinstance(op, (AsyncCopy, Barrier, ConvertLayout))]
    assert kinds.count(AsyncCopy) == 2
    assert Barrier in kinds
    assert ConvertLayout not in kinds


@pytest.mark.parametrize("columns", [1, 8, 100, 128])
def test_rows_that_are_padded_are_where_they_are_read(columns: int) -> None:
    """Copied ahead where few blocks run; an SM with more of them has no need to."""

    @ct.kernel
    def maxima(x: ct.Array, out: ct.Array) -> None:
        for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
            tile = ct.load(x, (row, 0), (1, 128), padding_mode=ct.PaddingMode.NEG_INF)
            ct.store(out, (row, 0), ct.max(tile, axis=1, keepdims=True))

    x = np.random.default_rng(columns).random((7, columns), np.float32) - 2
    for backend in (interpreter_backend(1, None, "sm_90", blocks=1), ptx_backend(1, "sm_90", blocks=1)):
        out = np.zeros((7, 1), np.float32)
        with backend as name:
            ct.launch(None, (2,), maxima, (x, out), backend=name)
        np.testing.assert_array_equal(out, x.max(1, keepdims=True))
    function = optimize(specialization(maxima, (x, out), "reference").function)
    ways = [lower_to_gpu(function, 1, blocks=blocks).ops_of((PaddedLoad, AsyncCopy)) for blocks in (1, 4)]
    assert [bool(copies) for copies in ways] == [True, False]


def test_threads_wait_for_nobody_where_each_reads_what_it_copied() -> None:
    @ct.kernel
    def sums(x: ct.Array, out: ct.Array) -> None:
        total = ct.zeros((1, 256), ct.float32)
        for i in range(x.shape[0]):
            total += ct.load(x, (i, 0), (1, 256))
        ct.store(out, (0, 0), total)

    x, out = np.ones((21, 256), np.float32), np.zeros((1, 256), np.float32)
    with interpreter_backend(2, None, "sm_90", blocks=1) as backend:
        ct.launch(None, (1,), sums, (x, out), backend=backend)
    assert (out == 21).all()
    lowered = lower_to_gpu(optimize(specialization(sums, (x, out), "reference").function), 2, blocks=1)
    kinds = [type(op) for op in lowered.walk() if isinstance(op, (AsyncCopy, Barrier))]
    assert AsyncCopy in kinds
    assert Barrier not in kinds


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("make", [interpreter_backend, ptx_backend])
def test_operands_of_products_under_conditions(make: Any, target: str) -> None:
    """Loaded before the branch, one of them also for a product behind it."""

    @ct.kernel
    def products(a: ct.Array, b: ct.Array, flags: ct.Array, out: ct.Array) -> None:
        first, second = ct.zeros((16, 16), ct.float32), ct.zeros((16, 16), ct.float32)
        for k in range(4):
            x, y = ct.load(a, (0, k), (16, 16)), ct.load(b, (k, 0), (16, 16))
            other = ct.load(b, (k, 1), (16, 16))
            if ct.load(flags, (k,), ()) > 0:
                first = ct.mma(x, other, first)
            second = ct.mma(x, y, second)
        ct.store(out, (0, 0), first)
        ct.store(out, (0, 1), second)

    rng = np.random.default_rng(3)
    a, b = (aligned(shape, np.float16) for shape in ((16, 64), (64, 32)))
    for operand in (a, b):
        operand[...] = rng.integers(-2, 3, operand.shape)
    out, flags = np.zeros((16, 32), np.float32), np.array([0, 1, 0, 1], np.int32)
    with make(None, target=target) as backend:
        ct.launch(None, (1,), products, (a, b, flags, out), backend=backend)
    x, y = a.astype(np.float32), b.astype(np.float32)
    np.testing.assert_array_equal(out, np.hstack([(x * flags.repeat(16)) @ y[:, 16:], x @ y[:, :16]]))


def of_pages(
    q: ct.Array, k: ct.Array, v: ct.Array, table: ct.Array, o: ct.Array, P: ct.Constant[int], N: ct.Constant[int],
    D: ct.Constant[int], FIRST: ct.Constant[bool],
) -> None:  # fmt: skip
    """Attention of eight queries over keys in pages of ``P``, of which ``table`` has the numbers; with ``FIRST`` scores
    have a row for each key."""
    x = ct.load(q, (0, 0), (8, D))
    total = ct.zeros((8, D), ct.float32)
    most, size = ct.full((8, 1), -1e30, ct.float32), ct.zeros((8, 1), ct.float32)
    for j in range(ct.cdiv(table.shape[0] * P, N)):
        tokens = j * N + ct.arange(N, dtype=ct.int32)
        rows = ct.gather(table, (tokens // P,)) * P + tokens % P
        keys = ct.gather(k, (rows[:, None], ct.arange(D, dtype=ct.int32)[None, :]))
        if FIRST:
            scores = ct.transpose(ct.mma(keys, ct.transpose(x), ct.zeros((N, 8), ct.float32)))
        else:
            scores = ct.mma(x, ct.transpose(keys), ct.zeros((8, N), ct.float32))
        now = ct.maximum(most, ct.max(scores, axis=1, keepdims=True))
        weights, old = ct.exp(scores - now), ct.exp(most - now)
        size = size * old + ct.sum(weights, axis=1, keepdims=True)
        values = ct.gather(v, (rows[:, None], ct.arange(D, dtype=ct.int32)[None, :]))
        total = ct.mma(weights.astype(q.dtype), values, total * old)
        most = now
    ct.store(o, (0, 0), (total / size).astype(o.dtype))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("make", [interpreter_backend, ptx_backend])
@pytest.mark.parametrize("first", [False, True])
def test_rows_of_pages_are_copied_ahead(first: bool, make: Any, target: str) -> None:
    """Those whose numbers the loop loads, and also past the last page, where there are none."""
    rng, (P, N, D, pages) = np.random.default_rng(7), (16, 64, 64, 12)
    table = rng.permutation(2 * pages)[:pages].astype(np.int32)
    q, o = aligned((8, D), np.float16), aligned((8, D), np.float16)
    k, v = (aligned((2 * pages * P, D), np.float16) for _ in range(2))
    for x in (q, k, v):
        x[...] = rng.standard_normal(x.shape) / 4
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == InsertBarriers.name:
            found.append(function)

    with observed_passes(see), make(None, target=target) as backend:
        ct.launch(None, (1,), ct.kernel(of_pages), (q, k, v, table, o, P, N, D, first), backend=backend)
    rows = (table[:, None] * P + np.arange(P)).ravel()
    weights = np.exp(q.astype(np.float64) @ k[rows].astype(np.float64).T)
    wanted = weights @ v[rows].astype(np.float64) / weights.sum(1, keepdims=True)
    assert np.abs(o.astype(np.float64) - wanted).max() < 2e-3
    (loop,) = found[-1].ops_of(For)
    assert len([op for op in loop.body.ops if isinstance(op, AsyncCopy)]) == 2
    assert len([op for op in loop.body.ops if isinstance(op, GlobalLoad)]) == 1
