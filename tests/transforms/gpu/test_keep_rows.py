"""Rows that several loops read are kept in registers: the same results, and fewer loads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.gpu_text import layout
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.gpu_stage import KEPT_ROWS
from tilewright.ir.ops.floats import Exp
from tilewright.ir.ops.gpu.memory import GlobalLoad
from tilewright.runtime.launch import specialization
from tilewright.transforms.base import Pass
from tilewright.transforms.dce import DeadCodeElimination
from tilewright.transforms.gpu.keep_rows import KeepRows
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.pipelines import optimize, run_passes

T, STEPS = 128, 4


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


def arrays(columns: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.random.default_rng(columns).standard_normal((3, columns)).astype(np.float16)
    return x, np.zeros_like(x)


@pytest.mark.parametrize("columns", [8, 128, 400, 512, 520, 1296])
@pytest.mark.parametrize("kernel", [softmax, centered, replaced, shifted])
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


def lowered(kernel: ct.Kernel, steps: int) -> Function:
    return lower_to_gpu(optimize(specialization(kernel, arrays(512), "reference").function), 2, steps=steps)


@pytest.mark.parametrize("kernel", [softmax, centered])
def test_which_rows_are_kept(kernel: ct.Kernel) -> None:
    """The hint names the parameter, and the elements and bytes of a step."""
    whole = lowered(kernel, 0)
    number, *step = whole.hints[KEPT_ROWS]
    assert whole.body.args[number].name == "x_shape1" and step == [T, 2 * T]
    assert KEPT_ROWS not in lowered(kernel, STEPS).hints


def test_each_exponential_is_computed_once() -> None:
    """Of what is the largest number in the end."""
    assert len(lowered(softmax, STEPS).ops_of(Exp)) == STEPS


@pytest.mark.parametrize("kernel", [replaced, shifted])
def test_others_are_loaded_again(kernel: ct.Kernel) -> None:
    assert KEPT_ROWS not in lowered(kernel, 0).hints
    assert len(lowered(kernel, STEPS).ops_of(GlobalLoad)) == len(lowered(kernel, 0).ops_of(GlobalLoad))


LAYOUT = layout([[1]], [[2], [4], [8], [16], [32]])
TILE, PTRS, INDEX = (f"{t}[64]{LAYOUT}" for t in ("f32", "ptr<f32>", "i32"))


def text(*steps: str) -> str:
    return f"""
func @f(%x: ptr<f32> = "x".base, %k: i32 = "x".shape.0, %out: ptr<f32> = "out".base) hints {{num_warps = 1}} {{
  %t = constant() {{value = 64, type = !i32}} : i32
  %n = iota() {{type = !{INDEX}}} : {INDEX}
  %base = gpu.splat(%x) {{type = !{PTRS}}} : {PTRS}
  %to = gpu.splat(%out) {{type = !{PTRS}}} : {PTRS}
  %z = constant() {{value = 0.0, type = !{TILE}}} : {TILE}
  {"".join(steps)}
  return()
}}
"""


def place(at: str, n: str = "") -> str:
    return f"""%a{n} = mul({at}, %t) : i32
    %b{n} = gpu.splat(%a{n}) {{type = !{INDEX}}} : {INDEX}
    %c{n} = add(%b{n}, %n) : {INDEX}
    """


def loaded(at: str, n: str = "") -> str:
    return f"""{place(at, n)}%p{n} = ptr_offset(%base, %c{n}) : {PTRS}
    %v{n} = gpu.load(%p{n}, _, _) {{vector = 2}} : {TILE}
    """


def stored(value: str, n: str = "") -> str:
    return f"""%w{n} = add(%s, {value}) : {TILE}
    %q{n} = ptr_offset(%to, %c{n}) : {PTRS}
    gpu.store(%q{n}, %w{n}, _) {{vector = 2}}
    """


@dataclass(frozen=True)
class _Cleaned:
    """A pass, without what it leaves that nobody needs."""

    of: Pass
    name = "cleaned"

    def run(self, function: Function) -> Function:
        return run_passes(function, (self.of, DeadCodeElimination()))


def test_steps_are_written_out_and_tiles_loaded_once() -> None:
    before = text(
        "%o = constant() {value = 0, type = !i32} : i32\n  %one = constant() {value = 1, type = !i32} : i32\n  ",
        "%steps = div(%k, %t) {rounding = RoundingMode.RP} : i32\n  ",
        f"%s = for(%o, %steps, %one, [%z]) : {TILE} {{ ^(%i: i32, %sum: {TILE})\n    ",
        loaded("%i"),
        f"%u = add(%sum, %v) : {TILE}\n    continue([%u])\n  }}\n  ",
        "for(%o, %steps, %one, []) { ^(%i: i32)\n    ",
        loaded("%i"),
        stored("%v"),
        "continue([])\n  }",
    )
    numbers = [f"%{name}{i} = constant() {{value = {i}, type = !i32}} : i32\n  " for name in "fg" for i in (0, 1)]
    after = text(
        *numbers[:2],
        *(loaded(f"%f{i}", f"{i}") for i in (0, 1)),
        f"%u0 = add(%z, %v0) : {TILE}\n    %s = add(%u0, %v1) : {TILE}\n    ",
        *numbers[2:],
        *(place(f"%g{i}", f"x{i}") + stored(f"%v{i}", f"x{i}") for i in (0, 1)),
    )
    check(_Cleaned(KeepRows(2)), before, after, settles=False, names=False)
