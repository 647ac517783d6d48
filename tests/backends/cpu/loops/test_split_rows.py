"""Tiles whose rows are taken one by one: as text, and what comes of it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.passes import check

import tilewright as ct
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.backends.cpu.loops.split_rows import SplitRows
from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.parser import parse_function
from tilewright.runtime.launch import specialization

VIEW = "view<f32,[?,?],[?,1],i32>"


def head(shape: str) -> str:
    partition = f"partition<{VIEW},{shape},[0,1],zero,{shape}>"
    return f"""
      %u = make_tensor_view(%a, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %v = make_partition_view(%u) {{type = !{partition}}} : {partition}
      %w = make_tensor_view(%b, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %out = make_partition_view(%w) {{type = !{partition}}} : {partition}
      %z = constant() {{value = 0, type = !i32}} : i32"""


PARAMS = '%a: ptr<f32> = "a".base, %b: ptr<f32> = "b".base, %m: i32 = "a".shape.0, %n: i32 = "a".shape.1'
MEANS = """
      %x = load_view(%v, [%m, %z]) {in_bounds = (false, false)} : f32[R,1024]
      %s = reduce([%x]) {axis = 1, identities = (0.0), commutative = true} : f32[R] { ^(%l: f32, %r: f32)
        %c = add(%l, %r) : f32
        yield([%c])
      }
      %t = reshape(%s) {shape = (R, 1)} : f32[R,1]
      %d = broadcast(%t) {shape = (R, 1024)} : f32[R,1024]
      %y = sub(%x, %d) : f32[R,1024]
      store_view(%out, %y, [%m, %z]) {in_bounds = (false, false)}"""


def test_a_loop_over_rows() -> None:
    one = f"partition<{VIEW},[1,1024],[0,1],zero,[1,1024]>"
    before = f"func @k({PARAMS}) {{{head('[4,1024]')}{MEANS.replace('R', '4')}\n return()\n}}"
    row = MEANS.replace("R", "1").replace("%v,", "%5,").replace("%out,", "%6,").replace("[%m, %z]", "[%row, %z]")
    loop = f"""
      %0 = cast(%m) {{dtype = i64}} : i64
      %1 = constant() {{value = 4, type = !i64}} : i64
      %2 = mul(%0, %1) : i64
      %3 = constant() {{value = 4, type = !i64}} : i64
      %4 = add(%2, %3) : i64
      %5 = make_partition_view(%u) {{type = !{one}}} : {one}
      %6 = make_partition_view(%w) {{type = !{one}}} : {one}
      %7 = constant() {{value = 1, type = !i64}} : i64
      for(%2, %4, %7, []) {{ ^(%row: i64){row}
        continue([])
      }}"""
    check(SplitRows(), before, f"func @k({PARAMS}) {{{head('[4,1024]')}{loop}\n return()\n}}")


SUMS = """
      %x = load_view(%v, [%m, %z]) {in_bounds = (false, false)} : f32[R,4096]
      %s = scan([%x]) {axis = 1, identities = (0.0)} : f32[R,4096] { ^(%l: f32, %r: f32)
        %c = add(%l, %r) : f32
        yield([%c])
      }
      store_view(%out, %s, [%m, %z]) {in_bounds = (false, false)}"""


def test_a_loop_over_rows_that_are_scanned_together() -> None:
    some = f"partition<{VIEW},[8,4096],[0,1],zero,[1,4096]>"
    row = SUMS.replace("R", "8").replace("%v,", "%5,").replace("%out,", "%6,").replace("[%m, %z]", "[%row, %z]")
    loop = f"""
      %0 = cast(%m) {{dtype = i64}} : i64
      %1 = constant() {{value = 16, type = !i64}} : i64
      %2 = mul(%0, %1) : i64
      %3 = constant() {{value = 16, type = !i64}} : i64
      %4 = add(%2, %3) : i64
      %5 = make_partition_view(%u) {{type = !{some}}} : {some}
      %6 = make_partition_view(%w) {{type = !{some}}} : {some}
      %7 = constant() {{value = 8, type = !i64}} : i64
      for(%2, %4, %7, []) {{ ^(%row: i64){row}
        continue([])
      }}"""
    check(SplitRows(), scans(16), f"func @k({PARAMS}) {{{head('[16,4096]')}{loop}\n return()\n}}")


def scans(rows: int, columns: int = 4096) -> str:
    text = f"func @k({PARAMS}) {{{head(f'[{rows},4096]')}{SUMS.replace('R', str(rows))}\n return()\n}}"
    return text.replace("4096", str(columns))


def test_few_or_long_rows_are_scanned_as_they_are() -> None:
    assert splits(scans(8, 1 << 13))
    assert not splits(scans(8))
    assert not splits(scans(8, 1 << 14))
    assert not splits(scans(16).replace("axis = 1", "axis = 0"))


def splits(text: str) -> bool:
    return _has_loop(SplitRows().run(parse_function(text)))


def _has_loop(function: Function) -> bool:
    return any(isinstance(op, For) for op in function.walk())


@ct.kernel
def running_sums(x, out, R: ct.Constant[int], C: ct.Constant[int]):
    tile = ct.load(x, (ct.bid(0), 0), (R, C), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (ct.bid(0), 0), ct.cumsum(2 * tile, axis=1) + tile)


@pytest.mark.parametrize("shape", [(40, 4096), (37, 4000), (3, 100)])
def test_running_sums_are_those_of_the_reference(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    found, wanted = np.zeros_like(x), np.zeros_like(x)
    for out, backend in ((found, "cpu"), (wanted, "reference")):
        ct.launch(None, (-(-shape[0] // 16),), running_sums, (x, out, 16, 4096), backend=backend)
    np.testing.assert_array_equal(found, wanted)


def program(old: str = "", new: str = "", rows: int = 4, rest: str = "") -> str:
    body = MEANS.replace("R", str(rows))
    assert old in body
    return f"func @k({PARAMS}) {{{head(f'[{rows},1024]')}{body.replace(old, new) if old else body}{rest}\n return()\n}}"


@pytest.mark.parametrize("rows", [2, 16])
def test_any_number_of_rows(rows: int) -> None:
    assert splits(program(rows=rows))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(program(rows=1), id="one row"),
        pytest.param(program().replace("1024", "512"), id="short rows"),
        pytest.param(program().replace("1024", "4096"), id="long rows"),
        pytest.param(program("store_view(%out", "store_view(%v"), id="the array that is loaded"),
        pytest.param(program("%y, [%m", "%y, [%n"), id="other rows"),
        pytest.param(program("%y = sub(%x, %d)", "%y = neg(%x)"), id="no reduction on the way"),
        pytest.param(
            program(rest="\n store_view(%out, %x, [%n, %z]) {in_bounds = (false, false)}"), id="rows used twice"
        ),
        pytest.param(
            program("%s = reduce", "store_view(%out, %x, [%n, %z]) {in_bounds = (false, false)}\n %s = reduce"),
            id="a store between",
        ),
    ],
)
def test_what_is_left_alone(text: str) -> None:
    assert not splits(text)


def test_pointers_of_cpp_that_may_be_equal() -> None:
    function = parse_function(program())
    function.may_alias = True
    assert not _has_loop(SplitRows().run(function))


@ct.kernel
def softmax(x, out, R: ct.Constant[int], C: ct.Constant[int]):
    tile = ct.load(x, (ct.bid(0), 0), (R, C), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
    weights = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
    ct.store(out, (ct.bid(0), 0), (weights / ct.sum(weights, axis=1, keepdims=True)).astype(out.dtype))


@ct.kernel
def scaled(x, weight, out, R: ct.Constant[int], C: ct.Constant[int]):
    tile = ct.load(x, (ct.bid(0), 0), (R, C), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    length = ct.sum(tile * tile, axis=1, keepdims=True)
    weights = ct.load(weight, (0,), (C,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    ct.store(out, (ct.bid(0), 0), (tile / length * weights).astype(out.dtype))


@pytest.mark.parametrize("shape", [(8, 1024), (7, 1024), (5, 1000), (8, 2048)])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_results_are_those_of_the_reference(shape: tuple[int, int], dtype: Any) -> None:
    """Also where tiles stick out of the arrays."""
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal(shape, np.float32).astype(dtype), rng.standard_normal(shape[1]).astype(dtype)
    columns = 1 << (shape[1] - 1).bit_length()
    for kernel, arguments in ((softmax, (x,)), (scaled, (x, weight))):
        found, wanted = np.zeros_like(x), np.zeros_like(x)
        ct.launch(None, (2,), kernel, (*arguments, found, 4, columns), backend="cpu")
        ct.launch(None, (2,), kernel, (*arguments, wanted, 4, columns), backend="reference")
        if kernel is softmax:
            np.testing.assert_allclose(
                found.astype(float), wanted.astype(float), rtol=1e-2 if dtype != np.float32 else 3e-6
            )
        else:
            np.testing.assert_array_equal(found, wanted)
        if columns * x.itemsize >= 4096:
            function = optimize(specialization(kernel, (*arguments, found, 4, columns), "cpu").function)
            assert _has_loop(SplitRows().run(function))


@pytest.mark.parametrize("in_place", [True, False])
def test_in_place(in_place: bool) -> None:
    x = np.random.default_rng(0).standard_normal((8, 1024), np.float32)
    wanted = np.zeros_like(x)
    ct.launch(None, (2,), softmax, (x, wanted, 4, 1024), backend="cpu")
    out = x if in_place else np.zeros_like(x)
    ct.launch(None, (2,), softmax, (x, out, 4, 1024), backend="cpu")
    np.testing.assert_array_equal(out, wanted)
