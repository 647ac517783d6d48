"""Short steps along k that are done at once: what stays of the loop, and its results in both interpreters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.gpu_products import BF16, E4M3, Product, matmul, persistent
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.linear import Mma
from tilewright.ir.parser import parse_function
from tilewright.transforms.gpu.widen_steps import WidenSteps
from tilewright.transforms.instrumentation import observed_passes
from tilewright.transforms.pipelines import run_passes

PRODUCTS = [
    Product((64, 64, 96), (64, 64, 32)),  # one of two, and one
    Product((64, 64, 32), (64, 64, 32)),  # none
    Product((72, 72, 104), (64, 64, 32), BF16, right=True),  # edges
    Product((64, 64, 112), (64, 64, 16)),  # of four, and three
    Product((64, 64, 224), (64, 64, 32), E4M3, right=True),
    Product((40, 128, 96), (16, 64, 32)),  # transposed
    Product((64, 64, 96), (64, 64, 32), left=True),  # no rows along k
    Product((64, 64, 48), (64, 64, 16), np.float32, right=True, rounded=True),
]


def depths(product: Product, kernel: Any) -> list[int]:
    """How much of k each MMA op adds, after the pass."""
    found: list[Function] = []

    def see(name: str, function: Function) -> None:
        if name == WidenSteps.name:
            found.append(function)

    with observed_passes(see), interpreter_backend(None, target="sm_90") as backend:
        product.run(backend, kernel)
    return [op.x.tile.shape[1] for op in found[-1].ops_of(Mma)]


@pytest.mark.parametrize("kernel", [matmul, persistent])
@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_steps_fill_a_line(product: Product, kernel: Any) -> None:
    wide, left = depths(product, kernel)
    assert left == product.tile[2]
    assert wide * np.dtype(product.dtype).itemsize == 128


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_as_instructions(product: Product) -> None:
    with ptx_backend(None, "sm_90") as backend:
        product.run(backend)


OTHERS = [
    Product((64, 64, 128), (64, 64, 64)),  # rows that are as long
    Product((64, 64, 64), (64, 64, 32), E4M3),  # of bytes that threads transpose
]


def test_bytes_that_threads_transpose_fill_an_instruction() -> None:
    product = Product((64, 64, 48), (64, 64, 16), E4M3)
    assert depths(product, matmul) == [32, 16]
    with ptx_backend(None, "sm_90") as backend:
        product.run(backend)


@pytest.mark.parametrize("product", OTHERS, ids=str)
def test_other_loops_stay(product: Product) -> None:
    assert depths(product, matmul) == [product.tile[2]]


def computed(a, factor, scales, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.maximum(ct.load(a, (0, k), (M, K)), 0) * factor
        total = ct.mma(x.astype(a.dtype), ct.load(b, (k, 0), (K, N)) * ct.load(scales, (k,), (K,))[:, None], total)
    ct.store(c, (0, 0), total)


def moved(a, factor, scales, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """What is added depends on the step."""
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (0, k), (M, K)) + ct.full((M, K), k, a.dtype)
        total = ct.mma(x, ct.load(b, (k, 0), (K, N)), total)
    ct.store(c, (0, 0), total)


def numbered(a, factor, scales, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """The number of the step is an operand."""
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (0, k), (M, K)).astype(ct.int32) + k
        total = ct.mma(x.astype(a.dtype), ct.load(b, (k, 0), (K, N)), total)
    ct.store(c, (0, 0), total)


def stored(a, factor, scales, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Each step stores as well."""
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        total = ct.mma(ct.load(a, (0, k), (M, K)), ct.load(b, (k, 0), (K, N)), total)
        ct.store(scales, (k,), ct.ones((K,), scales.dtype))
    ct.store(c, (0, 0), total)


@pytest.mark.parametrize("kernel, widened", [(computed, [64, 32]), (moved, [32]), (numbered, [32]), (stored, [32])])
@pytest.mark.parametrize("steps", [1, 3, 4])
def test_operands_that_are_computed(kernel: Any, widened: list[int], steps: int) -> None:
    rng = np.random.default_rng(steps)
    a, b = (rng.integers(-2, 3, shape).astype(BF16) for shape in ((64, 32 * steps), (32 * steps, 64)))
    scales, out = rng.integers(-1, 3, 32 * steps).astype(BF16), {}
    fresh, found = ct.kernel(kernel), list[Function]()

    def see(name: str, function: Function) -> None:
        if name == WidenSteps.name:
            found.append(function)

    with observed_passes(see), interpreter_backend(None, target="sm_90") as gpu, ptx_backend(None, "sm_90") as ptx:
        for backend in ("reference", gpu, ptx):
            out[backend] = np.zeros((64, 64), np.float32)
            ct.launch(None, (1,), fresh, (a, 2.0, scales, b, out[backend], 64, 64, 32), backend=backend)
            np.testing.assert_array_equal(out[backend], out["reference"])
    assert [op.x.tile.shape[1] for op in found[-1].ops_of(Mma)] == widened


ARRAY = "view<f16,[?,?],[?,1],i32>"


def part(tile: str, steps: str) -> str:
    return f"partition<{ARRAY},[{tile}],[0,1],undetermined,[{steps}]>"


def product(loops: str, views: str = "") -> str:
    x, y = part("64,32", "64,32"), part("32,64", "32,64")
    return f"""
func @f(%a: ptr<f16> = "a".base, %b: ptr<f16> = "b".base, %n: i32 = "n".scalar) {{
  %zero = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %none = constant() {{value = 0.0, type = !f32[64,64]}} : f32[64,64]
  %m = make_tensor_view(%a, [%n, %n], [%n]) {{type = !{ARRAY}}} : {ARRAY}
  %x = make_partition_view(%m) {{type = !{x}}} : {x}
  %k = make_tensor_view(%b, [%n, %n], [%n]) {{type = !{ARRAY}}} : {ARRAY}
  %y = make_partition_view(%k) {{type = !{y}}} : {y}
  {views}
  {loops}
  print([%sum]) {{parts = (none), formats = ("")}}
  return()
}}
"""


def loop(bounds: str, x: str, y: str, depth: int, init: str) -> str:
    return f"""for({bounds}, [{init}]) : f32[64,64] {{ ^(%i: i32, %t: f32[64,64])
    %u = load_view({x}, [%zero, %i]) {{in_bounds = (false, false)}} : f16[64,{depth}]
    %v = load_view({y}, [%i, %zero]) {{in_bounds = (false, false)}} : f16[{depth},64]
    %w = mma(%u, %v, %t) : f32[64,64]
    continue([%w])
  }}"""


def test_two_steps_at_once_and_the_one_that_is_left() -> None:
    x, y = part("64,64", "64,32"), part("64,64", "32,64")
    views = f"""%d = sub(%n, %zero) : i32
  %c = constant() {{value = 1, type = !i32}} : i32
  %l = and(%d, %c) : i32
  %h = sub(%n, %l) : i32
  %e = max(%h, %zero) : i32
  %x2 = make_partition_view(%m) {{type = !{x}}} : {x}
  %y2 = make_partition_view(%k) {{type = !{y}}} : {y}
  %two = constant() {{value = 2, type = !i32}} : i32"""
    wide = loop("%zero, %e, %two", "%x2", "%y2", 64, "%none")
    rest = loop("%e, %n, %one", "%x", "%y", 32, "%wide")
    before = product(f"%sum = {loop('%zero, %n, %one', '%x', '%y', 32, '%none')}")
    check(WidenSteps(), before, product(f"%wide = {wide}\n  %sum = {rest}", views), settles=False, names=False)


def test_steps_that_do_not_follow_each_other_stay() -> None:
    x = part("64,32", "64,48")
    view = f"%x3 = make_partition_view(%m) {{type = !{x}}} : {x}"
    text = product(f"%sum = {loop('%zero, %n, %one', '%x3', '%y', 32, '%none')}", view)
    function = parse_function(text)
    assert run_passes(function, (WidenSteps(),)) is function


def rows_of_steps(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Each step finds the rows of its right operand."""
    total, columns = ct.zeros((M, N), ct.float32), ct.arange(N, dtype=ct.int32)[None, :]
    for k in range(ct.cdiv(a.shape[1], K)):
        y = ct.gather(b, (ct.load(more, (k,), (K,))[:, None], columns))
        total = ct.mma(ct.load(a, (0, k), (M, K)), y.astype(a.dtype), total)
    ct.store(c, (0, 0), total)


def columns_of_rows(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """What is gathered goes on along the rows, whose numbers are known before, and is seen transposed."""
    total, rows = ct.zeros((M, N), ct.float32), ct.load(more, (0,), (N,))[:, None]
    for k in range(ct.cdiv(a.shape[1], K)):
        y = ct.gather(b, (rows, (k * K + ct.arange(K, dtype=ct.int32))[None, :]))
        total = ct.mma(ct.load(a, (0, k), (M, K)), ct.transpose(y.astype(a.dtype)), total)
    ct.store(c, (0, 0), total)


def by_one_number(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """A left operand by places in the array, some of which are none."""
    total, rows = ct.zeros((M, N), ct.float32), ct.load(more, (0,), (M,))[:, None] * a.shape[0]
    for k in range(ct.cdiv(a.shape[0], K)):
        x = ct.gather(b, rows + (ct.arange(K, dtype=ct.int32) + k * K)[None, :])
        total = ct.mma(x.astype(a.dtype), ct.load(a, (k, 0), (K, N)), total)
    ct.store(c, (0, 0), total)


def every_other(a, more, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    """Places that do not go on where those of the step before end."""
    total, columns = ct.zeros((M, N), ct.float32), ct.arange(N, dtype=ct.int32)[None, :]
    for k in range(ct.cdiv(a.shape[1], K)):
        y = ct.gather(b, ((k * (K // 2) + ct.arange(K, dtype=ct.int32))[:, None], columns))
        total = ct.mma(ct.load(a, (0, k), (M, K)), y.astype(a.dtype), total)
    ct.store(c, (0, 0), total)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32])
@pytest.mark.parametrize("kernel", [rows_of_steps, columns_of_rows, by_one_number, every_other])
@pytest.mark.parametrize("steps", [1, 4, 5])
def test_operands_that_are_gathered(kernel: Any, dtype: Any, steps: int) -> None:
    rng, depth = np.random.default_rng(steps), 32 * steps
    more = rng.permutation(np.arange(200)).astype(np.int32)[: max(depth, 64)]
    a = rng.integers(-2, 3, (depth, 64) if kernel is by_one_number else (64, depth)).astype(np.float16)
    shape = (190, depth) if kernel in (columns_of_rows, by_one_number) else (190, 64)
    b, out, found = rng.integers(-3, 4, shape).astype(dtype), {}, list[Function]()
    fresh, b = ct.kernel(kernel), b.ravel() if kernel is by_one_number else b

    def see(name: str, function: Function) -> None:
        if name == WidenSteps.name:
            found.append(function)

    with observed_passes(see), interpreter_backend(None, target="sm_90") as gpu, ptx_backend(None, "sm_90") as ptx:
        for backend in ("reference", gpu, ptx):
            out[backend] = np.zeros((64, 64), np.float32)
            ct.launch(None, (1,), fresh, (a, more, b, out[backend], 64, 64, 32), backend=backend)
            np.testing.assert_array_equal(out[backend], out["reference"])
    assert [op.x.tile.shape[1] for op in found[-1].ops_of(Mma)] == ([32] if kernel is every_other else [64, 32])
