"""Rows that need more registers than an SM has are reduced and stored in parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from support.gpu_products import aligned
from support.kernel_runs import seeds
from support.passes import check
from support.ptx.backend import PtxBackend
from support.row_kernels import gathered, marked, persistent, random_rows, replaced, scanned, softmax, twice

import tilewright as ct
from tilewright.backends import registry
from tilewright.backends.gpu import compiler
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.backends.reference.backend import ReferenceBackend, ReferenceExecutable
from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.ops.linear import Reduce
from tilewright.ir.verifier import verify
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.split_rows import SplitRows
from tilewright.transforms.pipelines import optimize

SMALL = SplitRows(part=64, large=256)


def rows_of(x, out, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    values = ct.load(x, (0, 0), (2, T // 2))
    ct.store(out, (0, 0), values / ct.sum(values, axis=1, keepdims=True))


def function_of(kernel: Any, columns: int = 512) -> Function:
    arrays = tuple(aligned((4, columns), np.float32) for _ in range(2))
    return specialization(ct.kernel(kernel), (*arrays, columns), "reference").function


def test_each_reduction_loads_the_row_again() -> None:
    view = "view<f32,[?],[1],i32>"
    whole, parts = (f"partition<{view},[{n}],[0],zero,[{n}]>" for n in (256, 64))
    head = f"""
func @f(%x: ptr<f32> = "x".base, %n: i32 = "x".shape.0, %out: ptr<f32> = "out".base) {{
  %i = bid() {{axis = 0}} : i32
  %v = make_tensor_view(%x, [%n], []) {{type = !{view}}} : {view}
  %w = make_tensor_view(%out, [%n], []) {{type = !{view}}} : {view}"""
    total = """{axis = 0, identities = (0.0), commutative = true} : f32 { ^(%l: f32, %r: f32)
    %t = add(%l, %r) : f32
    yield([%t])
  }"""
    check(
        SplitRows(part=64, large=128),
        f"""{head}
  %p = make_partition_view(%v) {{type = !{whole}}} : {whole}
  %q = make_partition_view(%w) {{type = !{whole}}} : {whole}
  %a = load_view(%p, [%i]) {{in_bounds = (true)}} : f32[256]
  %s = reduce([%a]) {total}
  %o = reshape(%s) {{shape = (1)}} : f32[1]
  %b = broadcast(%o) {{shape = (256)}} : f32[256]
  %d = div(%a, %b) : f32[256]
  store_view(%q, %d, [%i]) {{in_bounds = (true)}}
  return()
}}
""",
        f"""{head.replace(") {", ") hints {row_part = 64} {", 1)}
  %0 = constant() {{value = 0, type = !i32}} : i32
  %1 = make_partition_view(%v) {{type = !{parts}}} : {parts}
  %2 = constant() {{value = 4, type = !i32}} : i32
  %3 = mul(%i, %2) : i32
  %4 = load_view(%1, [%3]) {{in_bounds = (true)}} : f32[64]
  %5 = constant() {{value = 1, type = !i32}} : i32
  %6 = for(%5, %2, %5, [%4]) : f32[64] {{ ^(%7: i32, %8: f32[64])
    %9 = add(%3, %7) : i32
    %10 = load_view(%1, [%9]) {{in_bounds = (true)}} : f32[64]
    %11 = add(%8, %10) : f32[64]
    continue([%11])
  }}
  %12 = reduce([%6]) {total}
  %o = reshape(%12) {{shape = (1)}} : f32[1]
  %13 = broadcast(%o) {{shape = (64)}} : f32[64]
  %14 = make_partition_view(%w) {{type = !{parts}}} : {parts}
  for(%0, %2, %5, []) {{ ^(%15: i32)
    %16 = add(%3, %15) : i32
    %17 = load_view(%1, [%16]) {{in_bounds = (true)}} : f32[64]
    %18 = div(%17, %13) : f32[64]
    store_view(%14, %18, [%16]) {{in_bounds = (true)}}
    continue([])
  }}
  return()
}}
""",
    )


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a backend that interprets PTX of kernels whose rows of more than 256 elements are divided."""
    backend = PtxBackend(None, "sm_90")
    monkeypatch.setattr(compiler, "SplitRows", lambda: SMALL)
    monkeypatch.setitem(registry._loaders, "rows-in-parts", lambda: backend)
    yield "rows-in-parts"


@pytest.mark.parametrize("columns", [512, 450])
@pytest.mark.parametrize("kernel", [softmax, persistent, gathered, marked])
def test_same_as_the_reference(kernel: Any, columns: int, in_parts: str) -> None:
    assert SMALL.run(function := function_of(kernel)) is not function
    x = np.random.default_rng(columns).standard_normal((3, columns)).astype(np.float32)
    x[:, [7, 300]] = x.max() + 1  # argmax: the first of both
    found = [np.zeros_like(x) for _ in range(2)]
    for out, backend in zip(found, (in_parts, "reference")):
        ct.launch(None, (3,), ct.kernel(kernel), (x, out, 512), backend=backend)
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", [scanned, replaced, twice, rows_of])
def test_others_stay_whole(kernel: Any) -> None:
    assert SMALL.run(function := function_of(kernel)) is function


def test_rows_that_fit_stay_whole() -> None:
    assert SplitRows().run(function := function_of(softmax, 32768)) is function


@pytest.mark.parametrize("kernel", [softmax, persistent, gathered])
def test_large_rows_are_divided_and_a_thread_holds_few_elements(kernel: Any) -> None:
    made = compile_to_ptx(function_of(kernel, 131072), "sm_80", None)
    sizes = {op.values[0].tile.size // made.threads for op in made.optimized.walk() if isinstance(op, Reduce)}
    assert max(sizes) <= 32 and any(isinstance(op, For) for op in made.optimized.walk())
    function = function_of(kernel, 65536)
    assert SplitRows().run(function) is function  # 16 warps have registers for it
    assert "rows, which registers do not hold whole: in parts of 8192 elements\n" in made.schedule


class Parts(ReferenceBackend):
    """Interprets what ``SplitRows`` makes, of kernels that it divides."""

    name = "reference-in-parts"

    def compile(self, function: Function, options: Mapping[str, Any], variant: Any = None) -> ReferenceExecutable:
        whole = optimize(function)
        made = SMALL.run(whole)
        assert made is not whole
        verify(made)
        return super().compile(made, options, variant)


@pytest.mark.parametrize("seed", seeds(8))
def test_random_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._loaders, Parts.name, Parts)
    random = np.random.default_rng(seed)
    columns = int(random.choice((512, 511, 300)))
    x, w = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((4, columns), columns))
    found = []
    for backend in (Parts.name, "reference"):
        outs = np.zeros_like(x), np.zeros(4, np.float32)
        ct.launch(None, (2 + 2 * (seed % 2),), random_rows(seed), (x, w, *outs, 512), backend=backend)
        found.append(outs)
    for a, b in zip(*found):
        np.testing.assert_array_equal(a, b)
