"""Rows that several loops go through in steps become one tile: the same results, and fewer loads."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.runtime.launch import specialization
from tilewright.transforms.base import Pass
from tilewright.transforms.gpu.join_steps import JoinSteps, StepRows, rows_in_steps
from tilewright.transforms.pipelines import optimize, run_passes

T = 128


@ct.kernel
def softmax(x, out):
    """Twice the same tiles, padded with what is no zero."""
    row, steps = ct.bid(0), ct.cdiv(x.shape[1], T)
    top, total = ct.full((1, 1), -math.inf, ct.float32), ct.zeros((1, 1), ct.float32)
    for j in range(steps):
        v = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        new_top = ct.maximum(top, ct.max(v, axis=1, keepdims=True))
        total = total * ct.exp(top - new_top) + ct.sum(ct.exp(v - new_top), axis=1, keepdims=True)
        top = new_top
    for j in range(steps):
        v = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        ct.store(out, (row, j), (ct.exp(v - top) / total).astype(out.dtype))


@ct.kernel
def centered(x, out):
    """Three times, by gathers, and another row, which only one loop loads."""
    row, n = ct.bid(0), x.shape[1]
    at = ct.arange(T, dtype=ct.int32)
    total, square = ct.zeros((T,), ct.float32), ct.zeros((T,), ct.float32)
    for j in range(ct.cdiv(n, T)):
        total += ct.gather(x, (row, j * T + at), padding_value=0).astype(ct.float32)
    mean = ct.sum(total) / n
    for j in range(ct.cdiv(n, T)):
        d = ct.where(j * T + at < n, ct.gather(x, (row, j * T + at), padding_value=0).astype(ct.float32) - mean, 0.0)
        square += d * d
    scale = ct.rsqrt(ct.sum(square) / n + 1.0)
    for j in range(ct.cdiv(n, T)):
        v = ct.gather(x, (row, j * T + at), padding_value=0).astype(ct.float32) - mean
        w = ct.gather(x, (0, j * T + at), padding_value=0).astype(ct.float32)
        ct.scatter(out, (row, j * T + at), (v * scale * w).astype(out.dtype))


@ct.kernel
def replaced(x, out):
    """The second loop reads what the first one has stored."""
    row = ct.bid(0)
    for j in range(ct.cdiv(x.shape[1], T)):
        v = ct.load(x, (row, j), (1, T))
        ct.store(x, (row, j), (v.astype(ct.float32) * 2).astype(x.dtype))
    for j in range(ct.cdiv(x.shape[1], T)):
        ct.store(out, (row, j), ct.load(x, (row, j), (1, T)))


@ct.kernel
def shifted(x, out):
    """The second loop reads other tiles."""
    row, n = ct.bid(0), ct.cdiv(x.shape[1], T)
    total = ct.zeros((1, T), ct.float32)
    for j in range(n):
        total += ct.load(x, (row, j), (1, T)).astype(ct.float32)
    for j in range(n):
        v = ct.load(x, (row, n - 1 - j), (1, T)).astype(ct.float32)
        ct.store(out, (row, j), (v + total).astype(out.dtype))


@ct.kernel
def alternating(x, out):
    """What is carried is not the same in several steps at once."""
    row, n = ct.bid(0), ct.cdiv(x.shape[1], T)
    total = 0.0
    for j in range(n):
        total = ct.sum(ct.load(x, (row, j), (1, T)).astype(ct.float32)) - total
    for j in range(n):
        v = ct.load(x, (row, j), (1, T)).astype(ct.float32)
        ct.store(out, (row, j), (v + total).astype(out.dtype))


@ct.kernel
def scaled(x, out):
    """A step needs what those before it have summed up."""
    row, n = ct.bid(0), ct.cdiv(x.shape[1], T)
    total = 1.0
    for j in range(n):
        total += ct.sum(ct.load(x, (row, j), (1, T)).astype(ct.float32) / total)
    for j in range(n):
        v = ct.load(x, (row, j), (1, T)).astype(ct.float32)
        ct.store(out, (row, j), (v / total).astype(out.dtype))


@ct.kernel
def counted(x, out):
    """The number of a step counts."""
    row, n = ct.bid(0), ct.cdiv(x.shape[1], T)
    total = 0.0
    for j in range(n):
        total += ct.sum(ct.load(x, (row, j), (1, T)).astype(ct.float32))
    for j in range(n):
        v = ct.load(x, (row, j), (1, T)).astype(ct.float32)
        ct.store(out, (row, j), (v + total * j).astype(out.dtype))


@ct.kernel
def padded(x, out):
    """Exponentials of zeros behind the row count, as many as the last step has."""
    row, n = ct.bid(0), ct.cdiv(x.shape[1], T)
    top, total = -math.inf, 0.0
    for j in range(n):
        v = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        new = max(top, ct.max(v))
        total = total * ct.exp(top - new) + ct.sum(ct.exp(v - new))
        top = new
    for j in range(n):
        v = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        ct.store(out, (row, j), (ct.exp(v - top) / total).astype(out.dtype))


@ct.kernel
def largest(x, out):
    """The largest and smallest number, places in the row, and numbers of it that are loaded between the loops."""
    row, n = ct.bid(0), ct.cdiv(x.shape[1], T)
    top, low = -math.inf, math.inf
    for j in range(n):
        v = ct.load(x, (row, j), (1, T)).astype(ct.float32)
        at = (j * T + ct.arange(T, dtype=ct.int32))[None, :]
        top = max(top, ct.max(ct.where(at < x.shape[1], v, -math.inf)))
        low = min(low, ct.min(ct.where(at < x.shape[1], v, math.inf)))
    first = ct.gather(x, (row, 0)).astype(ct.float32)
    second = ct.gather(x, (row, (first * 0).astype(ct.int32) + 1)).astype(ct.float32)
    third = ct.gather(x, (row, (top * 0).astype(ct.int32) + 2)).astype(ct.float32)
    for j in range(n):
        at = (j * T + ct.arange(T, dtype=ct.int32))[None, :]
        v = ct.load(x, (row, j), (1, T)).astype(ct.float32) + third
        ct.store(out, (row, j), ct.where(at % 3 == 0, v - low + first, v / (top + 9) - second).astype(out.dtype))


@ct.kernel
def in_bands(x, out):
    """Tiles of two rows."""
    n = ct.cdiv(x.shape[1], T)
    total = ct.zeros((2, 1), ct.float32)
    for j in range(n):
        total += ct.sum(ct.load(x, (ct.bid(0), j), (2, T)).astype(ct.float32), axis=1, keepdims=True)
    for j in range(n):
        v = ct.load(x, (ct.bid(0), j), (2, T)).astype(ct.float32)
        ct.store(out, (ct.bid(0), j), (v - total / x.shape[1]).astype(out.dtype))


JOINED = [softmax, centered, largest, in_bands]
OTHERS = [replaced, shifted, alternating, scaled, counted, padded]


def arrays(columns: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.random.default_rng(columns).standard_normal((3, columns)).astype(np.float16)
    return x, np.zeros_like(x)


@pytest.mark.parametrize(
    ("kernel", "columns"),
    [*itertools.product(JOINED, [8, 128, 400, 520, 1296]), *itertools.product(OTHERS, [128, 400])],
)
@pytest.mark.parametrize(("warps", "target"), [(2, "sm_80"), (2, "sm_90"), (None, "sm_90")])
def test_as_the_reference(kernel: ct.Kernel, columns: int, warps: int | None, target: str) -> None:
    found = []
    with ptx_backend(warps, target) as ptx:
        for backend in (ptx, "reference"):
            x, out = arrays(columns)
            ct.launch(None, (len(x),), kernel, (x, out), backend=backend)
            found.append(out.astype(np.float32))
    np.testing.assert_allclose(*found, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("columns", [128, 300])
def test_none_of_the_first_numbers_is_finite(columns: int) -> None:
    """NaN, as the exponentials that the loop scales are; of one step it is what the row is."""
    found = []
    with ptx_backend(2, "sm_90") as ptx:
        for backend in (ptx, "reference"):
            x, out = arrays(columns)
            x[0, :T], x[1, 3], x[2, -1] = -math.inf, math.inf, -math.inf
            with np.errstate(invalid="ignore"):
                ct.launch(None, (len(x),), softmax, (x, out), backend=backend)
            found.append(out.astype(np.float32))
    assert np.isnan(found[1][:2]).all() and not np.isnan(found[1][2]).any()
    np.testing.assert_allclose(*found, rtol=2e-3, atol=2e-3)


def test_nothing_is_stored_behind_the_last_step() -> None:
    """Also where there is room for it."""
    found = []
    with ptx_backend(None, "sm_90") as ptx:
        for backend in (ptx, "reference"):
            x, _ = arrays(300)
            out = np.ones((3, 600), np.float16)
            ct.launch(None, (3,), softmax, (x, out), backend=backend)
            found.append(out)
    assert (found[1][:, 384:] == 1).all()
    np.testing.assert_allclose(*found, rtol=2e-3, atol=2e-3)


def rows_of(kernel: ct.Kernel, columns: int = 512) -> StepRows | None:
    return rows_in_steps(optimize(specialization(kernel, arrays(columns), "reference").function))


@pytest.mark.parametrize("kernel", [softmax, centered])
def test_which_rows_are_joined(kernel: ct.Kernel) -> None:
    """It says which parameter is their length, and the elements and bytes of a step."""
    rows = rows_of(kernel)
    assert rows is not None and rows.function.body.args[rows.parameter].name == "x_shape1"
    assert (rows.elements, rows.bytes) == (T, 2 * T)


@pytest.mark.parametrize("kernel", [softmax, centered])
@pytest.mark.parametrize("steps", [1, 3, 4])
def test_rows_are_one_tile_that_is_loaded_once(kernel: ct.Kernel, steps: int) -> None:
    rows = rows_of(kernel)
    assert rows is not None
    joined, length = optimize(run_passes(rows.function, (JoinSteps(steps),))), T << (steps - 1).bit_length()
    assert not joined.ops_of(For)
    sizes = [op.result.tile.size for op in joined.ops_of(LoadView)]
    assert sizes.count(length) == (2 if kernel is centered else 1)  # the other row, too
    assert kernel is centered or sizes == ([length] if steps == 1 else [1, length, T])  # what would make NaN


@pytest.mark.parametrize("kernel", OTHERS)
def test_others_stay_loops(kernel: ct.Kernel) -> None:
    assert rows_of(kernel) is None


@dataclass(frozen=True)
class _Optimized:
    """A pass, and what follows it."""

    of: Pass
    name = "optimized"

    def run(self, function: Function) -> Function:
        return optimize(run_passes(function, (self.of,)))


VIEW = "view<f32,[?,?],[?,1],i32>"


def view(length: int, name: str) -> str:
    t = f"partition<{VIEW},[1,{length}],[0,1],zero,[1,{length}]>"
    return f"%{name} = make_partition_view(%v{name}) {{type = !{t}}} : {t}\n  "


def text(body: str) -> str:
    arrays = (f"%v{n} = make_tensor_view(%{n}p, [%k, %k], [%k]) {{type = !{VIEW}}} : {VIEW}\n  " for n in "xy")
    return f"""
func @f(%xp: ptr<f32> = "x".base, %yp: ptr<f32> = "y".base, %k: i32 = "k".scalar) {{
  %row = bid() {{axis = 0}} : i32
  %zero = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %t = constant() {{value = 64, type = !i32}} : i32
  %steps = div(%k, %t) {{rounding = RoundingMode.RP}} : i32
  %z = constant() {{value = 0.0, type = !f32[1]}} : f32[1]
  {"".join(arrays)}{body}
  return()
}}
"""


def summed(n: int, index: str) -> str:
    return f"""%a = load_view(%x, [%row, {index}]) {{in_bounds = (true, false)}} : f32[1,{n}]
    %b = reduce([%a]) {{axis = 1, identities = (0.0), commutative = true}} : f32[1] {{ ^(%p: f32, %q: f32)
      %r = add(%p, %q) : f32
      yield([%r])
    }}
    """


def stored(n: int, index: str, value: str) -> str:
    return f"""%s2 = reshape(%s) {{shape = (1, 1)}} : f32[1,1]
    %s3 = broadcast(%s2) {{shape = (1, {n})}} : f32[1,{n}]
    %d = mul({value}, %s3) : f32[1,{n}]
    store_view(%y, %d, [%row, {index}]) {{in_bounds = (true, false)}}
    """


def test_two_loops_are_one_tile() -> None:
    before = text(
        view(64, "x") + view(64, "y") + "%s = for(%zero, %steps, %one, [%z]) : f32[1] { ^(%i: i32, %c: f32[1])\n    "
        f"{summed(64, '%i')}%e = add(%c, %b) : f32[1]\n    continue([%e])\n  }}\n  "
        "for(%zero, %steps, %one, []) { ^(%j: i32)\n    %g = load_view(%x, [%row, %j]) {in_bounds = (true, false)} : "
        f"f32[1,64]\n    {stored(64, '%j', '%g')}continue([])\n  }}"
    )
    rest = stored(128, "%zero", "%a").replace("store_view", f"{view(128, 'y')}store_view")
    after = text(view(128, "x") + summed(128, "%zero") + "%s = add(%z, %b) : f32[1]\n  " + rest)
    cleaned = print_function(optimize(parse_function(after)))
    check(_Optimized(JoinSteps(2)), before, cleaned, settles=False, names=False)
