"""Rows that are divided among the CTAs of a cluster: what becomes of kernels, and what they give in both interpreters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import gpu_stage
from support.gpu_products import aligned
from support.gpu_stage import Fault, InterpreterBackend
from support.kernel_runs import seeds
from support.passes import after, check, without
from support.ptx.backend import PtxBackend
from support.row_kernels import (
    DIVIDED,
    centered,
    largest,
    losses,
    of_squares,
    online,
    persistent,
    random_rows,
    replaced,
    scanned,
    several,
    softmax,
    twice,
)

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends import registry
from tilewright.backends.gpu import compiler
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.ir.core import Function
from tilewright.ir.ops.control import If
from tilewright.ir.ops.gpu.barriers import MbarrierWait
from tilewright.ir.ops.gpu.cluster import ClusterArrive, ClusterBarrier, ClusterGather, ClusterWait
from tilewright.ir.ops.gpu.memory import SharedLoad
from tilewright.ir.ops.linear import Reduce
from tilewright.ir.ops.memory import StoreView
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.divide_rows import DivideRows
from tilewright.transforms.gpu.insert_barriers import InsertBarriers
from tilewright.transforms.gpu.lower_gathers import LowerGathers, exchange_in_loops
from tilewright.transforms.gpu.tile_splitting import cluster_size
from tilewright.transforms.pipelines import optimize

H200 = parse_target("sm_90")


def function_of(kernel: Any, columns: int = 512, **options: int) -> Function:
    arrays = [aligned((4, columns), np.float32) for _ in range(2)]
    return optimize(specialization(ct.kernel(kernel, **options), (*arrays, columns), "reference").function)


def divided(ctas: int) -> Callable[..., DivideRows]:
    return lambda target, *_: DivideRows(target, ctas)


def test_each_cta_divides_by_the_sum_of_all() -> None:
    """The first one stores that sum."""
    view = "view<f32,[?],[1],i32>"
    whole, parts = (f"partition<{view},[{n}],[0],zero,[{n}]>" for n in (256, 64))
    head = """
func @f(%x: ptr<f32> = "x".base, %n: i32 = "x".shape.0, %out: ptr<f32> = "out".base, %all: ptr<f32> = "all".base) {"""
    views = f"""
  %v = make_tensor_view(%x, [%n], []) {{type = !{view}}} : {view}
  %w = make_tensor_view(%out, [%n], []) {{type = !{view}}} : {view}"""
    total = """{axis = 0, identities = (0.0), commutative = true} : f32 { ^(%l: f32, %r: f32)
    %t = add(%l, %r) : f32
    yield([%t])
  }"""
    check(
        DivideRows(H200, 4),
        f"""{head}
  %i = bid() {{axis = 0}} : i32{views}
  %p = make_partition_view(%v) {{type = !{whole}}} : {whole}
  %q = make_partition_view(%w) {{type = !{whole}}} : {whole}
  %a = load_view(%p, [%i]) {{in_bounds = (true)}} : f32[256]
  %s = reduce([%a]) {total}
  %o = reshape(%s) {{shape = (1)}} : f32[1]
  %b = broadcast(%o) {{shape = (256)}} : f32[256]
  %d = div(%a, %b) : f32[256]
  store_view(%q, %d, [%i]) {{in_bounds = (true)}}
  %z = ptr_offset(%all, %i) : ptr<f32>
  store(%z, %s, _)
  return()
}}
""",
        f"""{head}
  %0 = bid() {{axis = 0}} : i32
  %1 = constant() {{value = 3, type = !i32}} : i32
  %2 = and(%0, %1) : i32
  %3 = constant() {{value = 2, type = !i32}} : i32
  %4 = shr(%0, %3) : i32{views}
  %7 = make_partition_view(%v) {{type = !{parts}}} : {parts}
  %8 = constant() {{value = 4, type = !i32}} : i32
  %9 = mul(%4, %8) : i32
  %10 = add(%9, %2) : i32
  %11 = load_view(%7, [%10]) {{in_bounds = (true)}} : f32[64]
  %12 = reduce([%11]) {total}
  %13 = gpu.cluster_gather([%12]) {{ctas = 4}} : f32[4]
  %14 = reduce([%13]) {total}
  %15 = reshape(%14) {{shape = (1)}} : f32[1]
  %16 = broadcast(%15) {{shape = (64)}} : f32[64]
  %17 = div(%11, %16) : f32[64]
  %18 = make_partition_view(%w) {{type = !{parts}}} : {parts}
  store_view(%18, %17, [%10]) {{in_bounds = (true)}}
  %19 = ptr_offset(%all, %4) : ptr<f32>
  %20 = constant() {{value = 0, type = !i32}} : i32
  %21 = cmp(%2, %20) {{predicate = CmpPredicate.EQ}} : i1
  if(%21) {{types = ()}} {{
    store(%19, %14, _)
    yield([])
  }} {{
    yield([])
  }}
  return()
}}
""",
        names=False,
    )


def test_a_loop_writes_again_when_all_have_read() -> None:
    one, all_ = (f"lane = [{','.join([zero] * 5)}], warp = []>" for zero in ("[0]", "[0,0]"))
    scalar, four, sum_ = (
        f"f32[1]#layout<register = [], {one}",
        f"f32[4,1]#layout<register = [[1,0],[2,0]], {all_}",
        f"f32[1,1]#layout<register = [], {all_}",
    )
    buffer = "shared<f32[4,1]#layout<offset = [[1,0],[2,0]]>>"

    def loop(before: str, waits: str, gather: str) -> str:
        return f"""
func @f(%n: i32 = "x".shape.0) hints {{num_warps = 1}} {{{before}
  %z = constant() {{value = 0, type = !i32}} : i32
  %o = constant() {{value = 1, type = !i32}} : i32
  %s = constant() {{value = 1.0, type = !{scalar}}} : {scalar}{waits}
  %m = for(%z, %n, %o, [%s]) : {scalar} {{ ^(%i: i32, %c: {scalar}){gather}
    %t = gpu.thread_reduce([%g]) {{axis = 0}} : {sum_} {{ ^(%l: f32, %r: f32)
      %a = add(%l, %r) : f32
      yield([%a])
    }}
    %d = reshape(%t) {{shape = (1)}} : {scalar}
    continue([%d])
  }}
  return()
}}
"""

    alloc = f"""
  gpu.cluster_arrive()
  %b = gpu.shared_alloc() {{type = !{buffer}}} : {buffer}"""
    exchange = f"""
    gpu.cluster_store(%b, %c, _)
    gpu.cluster_barrier()
    %g = gpu.shared_load(%b) {{type = !{four}, vector = 4}} : {four}
    gpu.cluster_barrier()"""
    gather = f"""
    %g = gpu.cluster_gather([%c]) {{ctas = 4}} : {four}"""
    check(LowerGathers(), loop("", "", gather), loop(alloc, "\n  gpu.cluster_wait()", exchange), names=False)


@pytest.mark.parametrize("kernel", DIVIDED, ids=lambda k: k.__name__)
def test_each_cta_has_a_part(kernel: Any) -> None:
    made = DivideRows(H200, 4).run(function := function_of(kernel))
    assert AnalysisManager(made).get(cluster_size) == 4
    whole, parts = (list(f.ops_of(Reduce)) for f in (function, made))
    gathers = made.ops_of(ClusterGather)
    assert len(gathers) == len(whole) and len(parts) == 2 * len(whole)
    assert {op.values[0].tile.shape[op.axis] for op in parts} == {128, 4}
    assert bool(made.ops_of(If)) == (kernel is losses)


@pytest.mark.parametrize("kernel", [scanned, replaced, twice], ids=lambda k: k.__name__)
def test_others_stay_whole(kernel: Any) -> None:
    assert DivideRows(H200, 4).run(function := function_of(kernel)) is function


def scattered(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """Tiles that follow each other, as places."""
    row, at, total = ct.bid(0), ct.arange(T, dtype=ct.int32), 0.0
    for j in range(ct.cdiv(x.shape[1], T)):
        total += ct.sum(ct.gather(x, (row, j * T + at), padding_value=0))
    for j in range(ct.cdiv(x.shape[1], T)):
        ct.scatter(out, (row, j * T + at), ct.gather(x, (row, j * T + at), padding_value=0) / total)


def test_what_loops_gather_and_scatter_is_divided() -> None:
    made = DivideRows(H200, 4).run(function_of(scattered, 8192))
    assert AnalysisManager(made).get(cluster_size) == 4 and made.ops_of(StoreView)


def test_where_nothing_asks_for_it() -> None:
    """Rows of so many elements of 16 bits, or half of them of 32, stay whole."""
    assert DivideRows(H200, large=8192).run(function := function_of(softmax, 4096)) is function
    assert DivideRows(H200, large=8192).run(wide := function_of(softmax, 8192)) is not wide
    assert DivideRows(parse_target("sm_80"), 4).run(function) is function
    assert DivideRows(H200).run(large := function_of(softmax, 65536)) is not large


def shifted(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    """Two vectors, which all blocks load, beside each row."""
    v = ct.load(x, (ct.bid(0), 0), (1, T))
    first, second = ct.load(x, (2, 0), (1, T)), ct.load(x, (3, 0), (1, T))
    ct.store(out, (ct.bid(0), 0), v * ct.sum(v, axis=1, keepdims=True) * first + second)


def test_parts_are_larger_where_there_are_vectors() -> None:
    made = [DivideRows(H200).run(function_of(kernel, 32768)) for kernel in (softmax, shifted)]
    assert [AnalysisManager(function).get(cluster_size) for function in made] == [8, 2]


@pytest.fixture(params=["stage", "ptx"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], str]]:
    """The name of a backend that interprets kernels whose rows so many CTAs divide."""

    def of(ctas: int) -> str:
        monkeypatch.setattr(compiler, "DivideRows", divided(ctas))
        monkeypatch.setattr(gpu_stage.backend, "DivideRows", divided(ctas))
        kind, *target = request.param.split()
        made = PtxBackend(None, *(target or ["sm_90"])) if kind == "ptx" else InterpreterBackend(None, target=H200)
        monkeypatch.setitem(registry._loaders, "divided", lambda: made)
        return "divided"

    yield of


@pytest.mark.parametrize("kernel", DIVIDED, ids=lambda k: k.__name__)
def test_same_as_the_reference(kernel: Any, backend: Callable[[int], str], request: pytest.FixtureRequest) -> None:
    ctas = 2 if "stage" in request.node.name else 8
    x = np.random.default_rng(ctas).standard_normal((4, 450)).astype(np.float32)
    x[:, [7, 300]] = x.max() + 1  # argmax: the first of both
    found = [np.zeros_like(x) for _ in range(2)]
    grid = 2 if kernel in (several, persistent, centered) else 4
    for out, name in zip(found, (backend(ctas), "reference")):
        ct.launch(None, (grid,), ct.kernel(kernel), (x, out, 512), backend=name)
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", seeds(3))
def test_random_rows(seed: int, backend: Callable[[int], str]) -> None:
    random = np.random.default_rng(seed)
    columns, ctas = int(random.choice((512, 511, 300))), int(random.choice((2, 4, 8)))
    x, w = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((4, columns), columns))
    found = []
    for name in (backend(ctas), "reference"):
        outs = np.zeros_like(x), np.zeros(4, np.float32)
        ct.launch(None, (2 + 2 * (seed % 2),), random_rows(seed), (x, w, *outs, 512), backend=name)
        found.append(outs)
    for a, b in zip(*found):
        np.testing.assert_array_equal(a, b)


def interpreted(kernel: Any, backend: str) -> None:
    x = np.random.default_rng(0).standard_normal((6, 512)).astype(np.float32)
    ct.launch(None, (2,), ct.kernel(kernel), (x, x.copy(), 512), backend=backend)


@pytest.mark.parametrize(
    ("dropped", "kernel"),
    [
        (lambda op: isinstance(op, (ClusterArrive, ClusterWait)), softmax),  # others may not have begun
        (lambda op: isinstance(op, MbarrierWait), softmax),  # others may not have stored
        (lambda op: isinstance(op, ClusterBarrier), centered),
        (lambda op: isinstance(op, ClusterBarrier) and isinstance(op.block.ops[op.block.ops.index(op) - 1], SharedLoad), centered),
    ],
)  # fmt: skip
def test_missing_barriers_are_reported(
    dropped: Callable[[Any], bool], kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    after(InsertBarriers, partial(without, dropped), monkeypatch)
    monkeypatch.setattr(gpu_stage.backend, "DivideRows", divided(4))
    monkeypatch.setitem(registry._loaders, "divided", lambda: InterpreterBackend(None, target=H200))
    with pytest.raises(Fault):
        interpreted(kernel, "divided")


def test_a_grid_with_few_blocks_has_a_variant() -> None:
    whole = compile_to_ptx(function_of(softmax, 8192), "sm_90", None)
    assert (whole.num_ctas, whole.divisions) == (1, (4, 2))
    made = compile_to_ptx(function_of(softmax, 8192), "sm_90", None, how=Constraints(across=4, blocks=1))
    assert (made.num_ctas, made.divisions) == (4, ())
    assert "CTAs of a cluster, each with a part of a row: 4\n" in made.schedule


def test_the_hint_num_ctas_divides_rows() -> None:
    made = compile_to_ptx(function_of(softmax, num_ctas=2), "sm_90", None)
    assert made.num_ctas == 2 and not made.ignored_hints


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.uint64, np.float64])
def test_all_widths(dtype: Any, backend: Callable[[int], str]) -> None:
    x = np.random.default_rng(1).integers(0, 100, (2, 500)).astype(dtype)
    found = [np.zeros_like(x) for _ in range(2)]
    for out, name in zip(found, (backend(4), "reference")):
        ct.launch(None, (2,), ct.kernel(largest), (x, out, 512), backend=name)
    np.testing.assert_array_equal(*found)


@pytest.fixture
def in_steps(monkeypatch: pytest.MonkeyPatch) -> PtxBackend:
    """A backend of the name ``divided``, for few blocks."""
    made = PtxBackend(None, "sm_90", blocks=1)
    monkeypatch.setattr(compiler, "DivideRows", divided(4))
    monkeypatch.setitem(registry._loaders, "divided", lambda: made)
    return made


@pytest.mark.parametrize("kernel", [online, of_squares], ids=lambda k: k.__name__)
def test_loops_over_steps_exchange_at_their_end(kernel: Any, in_steps: PtxBackend) -> None:
    x = np.random.default_rng(0).standard_normal((3, 900)).astype(np.float32)
    x[1, :600] = x[2] = -np.inf
    found = [np.zeros_like(x) for _ in range(2)]
    for out, name in zip(found, ("divided", "reference")):
        ct.launch(None, (3,), ct.kernel(kernel), (x, out, 128), backend=name)
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)
    made = in_steps.made[0].compiled
    assert made.num_ctas == 4 and not exchange_in_loops(made.distributed)
