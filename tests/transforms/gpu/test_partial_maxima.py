"""The online softmax of a loop is that of each thread until the loop has ended; what it gives is the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.gpu_text import layout
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import Barrier
from tilewright.ir.ops.gpu.tiles import Shuffle
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.gpu.partial_maxima import PartialMaxima
from tilewright.transforms.pipelines import optimize

T = 128


@ct.kernel
def log_sums(x, out, first: ct.Constant[float]):
    row = ct.bid(0)
    top = ct.full((1, 1), first, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
        new_top = ct.maximum(top, ct.max(values, axis=1, keepdims=True))
        total = total * ct.exp(top - new_top) + ct.sum(ct.exp(values - new_top), axis=1, keepdims=True)
        top = new_top
    ct.store(out, (row, 0), top)
    ct.store(out, (row, 1), total)


@ct.kernel
def scalar_sums(x, out, first: ct.Constant[float]):
    """The loop carries scalars."""
    row = ct.bid(0)
    top, total = first, 0.0
    for j in range(ct.cdiv(x.shape[1], T)):
        values = ct.gather(x, (row, j * T + ct.arange(T, dtype=ct.int32)), padding_value=-math.inf)
        new_top = max(top, ct.max(values))
        total = total * ct.exp(top - new_top) + ct.sum(ct.exp(values - new_top))
        top = new_top
    ct.scatter(out, (row, 0), top)
    ct.scatter(out, (row, 1), total)


@ct.kernel
def seen_sums(x, out):
    """Each sum on the way is stored."""
    row = ct.bid(0)
    top = ct.full((1, 1), -math.inf, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
        new_top = ct.maximum(top, ct.max(values, axis=1, keepdims=True))
        total = total * ct.exp(top - new_top) + ct.sum(ct.exp(values - new_top), axis=1, keepdims=True)
        ct.store(out, (row, j), new_top)
        top = new_top
    ct.store(out, (row, 0), total)


@ct.kernel
def masked_sums(x, out):
    """The maximum is that of some of the numbers that are summed up."""
    row = ct.bid(0)
    top = ct.full((1, 1), -math.inf, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        values = ct.load(x, (row, j), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
        some = ct.where(ct.arange(T, dtype=ct.int32)[None, :] == 0, values, -math.inf)
        new_top = ct.maximum(top, ct.max(some, axis=1, keepdims=True))
        total = total * ct.exp(top - new_top) + ct.sum(ct.exp(values - new_top), axis=1, keepdims=True)
        top = new_top
    ct.store(out, (row, 0), top)
    ct.store(out, (row, 1), total)


def exchanges(kernel: ct.Kernel, *arguments: object) -> int:
    """How often threads exchange something in an iteration."""
    made = lower_to_gpu(optimize(specialization(kernel, arguments, "reference").function), 2)
    (loop,) = made.ops_of(For)
    return sum(isinstance(op, (Barrier, Shuffle)) for op in loop.walk())


def rows(columns: int) -> np.ndarray:
    """Also with the largest numbers in few threads, with -inf in all, in the first tile, or in a whole row, and NaN."""
    x = np.random.default_rng(columns).standard_normal((8, columns)).astype(np.float32) * 20
    x[1, :-1] = -np.inf
    x[2] = -np.inf
    x[3, :T] = -np.inf
    x[4, ::3] = -np.inf
    x[5, -1], x[6, 0] = np.nan, np.inf
    x[7] = np.finfo(np.float32).min
    return x


@pytest.mark.parametrize("columns", [1, 100, 128, 300, 640])
@pytest.mark.parametrize("first", [-math.inf, -3.0])
@pytest.mark.parametrize("kernel", [log_sums, scalar_sums])
def test_as_the_reference(kernel: ct.Kernel, columns: int, first: float) -> None:
    x = rows(columns)
    found = [np.zeros((len(x), 2), np.float32) for _ in range(2)]
    with ptx_backend(2, "sm_90") as ptx:
        for backend, out in zip((ptx, "reference"), found):
            ct.launch(None, (len(x),), kernel, (x, out, first), backend=backend)
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_without_columns() -> None:
    x, out = np.zeros((2, 0), np.float32), np.ones((2, 2), np.float32)
    with ptx_backend(1, "sm_90") as ptx:
        ct.launch(None, (2,), log_sums, (x, out, -math.inf), backend=ptx)
    assert (out == [-np.inf, 0]).all()


def test_threads_wait_for_nobody_in_the_loop() -> None:
    x, out = rows(640), np.zeros((8, 5), np.float32)
    assert exchanges(log_sums, x, out, -math.inf) == exchanges(scalar_sums, x, out, -math.inf) == 0
    assert exchanges(seen_sums, x, out) > 0
    assert exchanges(masked_sums, x, out) > 0


# Four threads have a row of 16: each has four of it in registers.
TILE = "f32[8,16]" + layout([[0, 1], [0, 2]], [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]])
PARTS = "f32[8,4]" + layout([], [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]])
ONE = "f32[8,1]" + layout([], [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]])
ROWS = "f32[8]" + layout([], [[0], [0], [1], [2], [4]])


def combined(op: str) -> str:
    return f"{{ ^(%p: f32, %q: f32)\n      %r = {op}(%p, %q) : f32\n      yield([%r])\n    }}"


def of_rows(value: str, op: str, identity: str, to: str) -> str:
    """A number for each row of a tile."""
    how = f"{{axis = 1, identities = ({identity}), commutative = true}}"
    return f"{to}_rows = reduce([{value}]) {how} : {ROWS} {combined(op)}\n    {to} = reshape({to}_rows) {{shape = (8, 1)}} : {ONE}"


def text(loop: str) -> str:
    return f"""
func @f(%n: i32 = "n".scalar) hints {{num_warps = 1}} {{
  %o = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %v = constant() {{value = 2.0, type = !{TILE}}} : {TILE}
  %low = constant() {{value = -inf, type = !{ONE}}} : {ONE}
  %zero = constant() {{value = 0.0, type = !{ONE}}} : {ONE}
  {loop}
  print([%top, %sum]) {{parts = (none, none), formats = ("", "")}}
  return()
}}
"""


SPLIT = "f32[8,4,1]" + layout([], [[0, 1, 0], [0, 2, 0], [1, 0, 0], [2, 0, 0], [4, 0, 0]])
WIDE = "f32[8,4,4]" + layout([[0, 0, 1], [0, 0, 2]], [[0, 1, 0], [0, 2, 0], [1, 0, 0], [2, 0, 0], [4, 0, 0]])


def test_what_the_loop_carries() -> None:
    """The largest number of each thread, its sum, and the least of its largest numbers: infinite for no iteration."""
    whole = f"""%top, %sum = for(%o, %n, %one, [%low, %zero]) : {ONE}, {ONE} {{ ^(%i: i32, %t: {ONE}, %s: {ONE})
    {of_rows("%v", "max", "-inf", "%m")}
    %next = max(%t, %m) : {ONE}
    %d = sub(%t, %next) : {ONE}
    %f = exp(%d) : {ONE}
    %g = mul(%s, %f) : {ONE}
    %wide = gpu.broadcast(%next) {{type = !{TILE}}} : {TILE}
    %x = sub(%v, %wide) : {TILE}
    %e = exp(%x) : {TILE}
    {of_rows("%e", "add", "0.0", "%a")}
    %h = add(%g, %a) : {ONE}
    continue([%next, %h])
  }}"""
    parts = f"""%finite = constant() {{value = -3.4028234663852886e+38, type = !{PARTS}}} : {PARTS}
  %lows = gpu.broadcast(%low) {{type = !{PARTS}}} : {PARTS}
  %zeros = constant() {{value = 0.0, type = !{PARTS}}} : {PARTS}
  %infinite = constant() {{value = inf, type = !{PARTS}}} : {PARTS}
  %tops, %sums, %least = for(%o, %n, %one, [%lows, %zeros, %infinite]) : {PARTS}, {PARTS}, {PARTS} {{
    ^(%i: i32, %t: {PARTS}, %s: {PARTS}, %l: {PARTS})
    %m = gpu.thread_reduce([%v]) {{axis = 1}} : {PARTS} {combined("max")}
    %next = max(%t, %m) : {PARTS}
    %l2 = min(%l, %next) : {PARTS}
    %safe = max(%next, %finite) : {PARTS}
    %split = reshape(%safe) {{shape = (8, 4, 1)}} : {SPLIT}
    %wide = gpu.broadcast(%split) {{type = !{WIDE}}} : {WIDE}
    %y = reshape(%wide) {{shape = (8, 16)}} : {TILE}
    %x = sub(%v, %y) : {TILE}
    %e = exp(%x) : {TILE}
    %d = sub(%t, %safe) : {PARTS}
    %f = exp(%d) : {PARTS}
    %g = mul(%s, %f) : {PARTS}
    %a = gpu.thread_reduce([%e]) {{axis = 1}} : {PARTS} {combined("add")}
    %h = add(%g, %a) : {PARTS}
    continue([%next, %h, %l2])
  }}
  {of_rows("%tops", "max", "-inf", "%top")}
  %all = gpu.broadcast(%top) {{type = !{PARTS}}} : {PARTS}
  %safe2 = max(%all, %finite) : {PARTS}
  %d2 = sub(%tops, %safe2) : {PARTS}
  %f2 = exp(%d2) : {PARTS}
  %g2 = mul(%sums, %f2) : {PARTS}
  {of_rows("%g2", "add", "0.0", "%seen")}
  {of_rows("%least", "max", "-inf", "%latest")}
  %none = constant() {{value = -inf, type = !{ONE}}} : {ONE}
  %nan = constant() {{value = nan, type = !{ONE}}} : {ONE}
  %empty = cmp(%latest, %none) {{predicate = CmpPredicate.EQ}} : {ONE.replace("f32", "i1")}
  %sum = select(%empty, %nan, %seen) : {ONE}"""
    check(PartialMaxima(), text(whole), text(parts), names=False)
