"""Rows that several loops read are kept in shared memory, as far as it has room: the same results, and fewer loads."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from support.gpu_text import flat, layout
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.core import Function
from tilewright.ir.gpu_stage import KEPT_ROWS
from tilewright.ir.ops.gpu.memory import GlobalLoad
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.keep_rows import KeepRows
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.pipelines import optimize

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
def test_as_the_reference(kernel: ct.Kernel, columns: int) -> None:
    found = []
    with ptx_backend(2, "sm_90", steps=STEPS) as ptx:
        for backend in (ptx, "reference"):
            x, out = arrays(columns)
            ct.launch(None, (len(x),), kernel, (x, out), backend=backend)
            found.append(out.astype(np.float32))
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


@pytest.mark.parametrize("kernel", [replaced, shifted])
def test_others_are_loaded_again(kernel: ct.Kernel) -> None:
    assert KEPT_ROWS not in lowered(kernel, 0).hints
    assert len(lowered(kernel, STEPS).ops_of(GlobalLoad)) == len(lowered(kernel, 0).ops_of(GlobalLoad))


LAYOUT = layout([[1]], [[2], [4], [8], [16], [32]])
TILE, PTRS, INDEX, MASK = (f"{t}[64]{LAYOUT}" for t in ("f32", "ptr<f32>", "i32", "i1"))
SLOT, ROW = f"shared<f32[64]{flat(64)}>", f"shared<f32[64]{flat(64)}, 9>"


def text(*loops: str) -> str:
    return f"""
func @f(%x: ptr<f32> = "x".base, %k: i32 = "x".shape.0, %out: ptr<f32> = "out".base) hints {{num_warps = 1}} {{
  %o = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %t = constant() {{value = 64, type = !i32}} : i32
  %n = iota() {{type = !{INDEX}}} : {INDEX}
  %base = gpu.splat(%x) {{type = !{PTRS}}} : {PTRS}
  %to = gpu.splat(%out) {{type = !{PTRS}}} : {PTRS}
  %z = constant() {{value = 0.0, type = !{TILE}}} : {TILE}
  %steps = div(%k, %t) {{rounding = RoundingMode.RP}} : i32
  {"".join(loops)}
  return()
}}
"""


def pointers(at: str) -> str:
    return f"""%a = mul({at}, %t) : i32
    %b = gpu.splat(%a) {{type = !{INDEX}}} : {INDEX}
    %c = add(%b, %n) : {INDEX}
    %p = ptr_offset(%base, %c) : {PTRS}"""


def copied(at: str, number: str) -> str:
    """The copy of an iteration, to the last slot if it is not kept; ``number`` ends the names."""
    found = f"""%exists = cmp({at}, %end) {{predicate = CmpPredicate.LT}} : i1
    %last = constant() {{value = 8, type = !i32}} : i32
    %place = min({at}, %last) : i32
    {pointers(at)}
    %mask = gpu.splat(%exists) {{type = !{MASK}}} : {MASK}
    %to_slot = gpu.shared_copy(%row, %place) : {SLOT}
    gpu.async_copy(%to_slot, %p, %mask) {{vector = 2}}
    gpu.async_commit()
    """
    return re.sub(r"%(at|exists|last|place|a|b|c|p|mask|to_slot)\b", rf"%\g<1>{number}", found)


def summed(bounds: str, init: str, load: str, copy: str = "") -> str:
    return f"""%s{init} = for({bounds}, %one, [{init}]) : {TILE} {{ ^(%i: i32, %sum: {TILE})
    {copy}{pointers("%i")}
    {load}
    %w = add(%sum, %v) : {TILE}
    continue([%w])
  }}
  """.replace("%s%z", "%s").replace("%s%s", "%r")


def stored(bounds: str, total: str, load: str) -> str:
    return f"""for({bounds}, %one, []) {{ ^(%i: i32)
    {pointers("%i")}
    {load}
    %w = add({total}, %v) : {TILE}
    %q = ptr_offset(%to, %c) : {PTRS}
    gpu.store(%q, %w, _) {{vector = 2}}
    continue([])
  }}
  """


def test_the_first_loop_copies_and_the_second_one_reads_the_copies() -> None:
    load = f"%v = gpu.load(%p, _, _) {{vector = 2}} : {TILE}"
    read = f"""%slot = gpu.shared_copy(%row, %i) : {SLOT}
    %v = gpu.shared_load(%slot) {{type = !{TILE}, vector = 2}} : {TILE}"""
    least = "%eight = constant() {value = 8, type = !i32} : i32\n  %end = min(%steps, %eight) : i32\n  "
    first = "".join(
        f"%at{i} = constant() {{value = {i}, type = !i32}} : i32\n    {copied('%at', str(i))}" for i in range(4)
    )
    later = f"""gpu.async_wait() {{pending = 3}}
    %four = constant() {{value = 4, type = !i32}} : i32
    %ahead = add(%i, %four) : i32
    {copied("%ahead", "4")}"""
    before = text(summed("%o, %steps", "%z", load), stored("%o, %steps", "%s", load))
    after = text(
        f"{least}%row = gpu.shared_alloc() {{type = !{ROW}}} : {ROW}\n  {first}",
        summed("%o, %end", "%z", read, later),
        "gpu.async_wait()\n  ",
        summed("%end, %steps", "%s", load),
        least.replace("%end", "%end2").replace("%eight", "%eight2"),
        stored("%o, %end2", "%r", read),
        stored("%end2, %steps", "%r", load),
    )
    check(KeepRows(8), before, after, settles=False, names=False)
