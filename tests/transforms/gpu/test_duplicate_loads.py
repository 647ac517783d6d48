"""A row of numbers that scales rows of one tile and columns of another one is loaded twice, each time as it is used."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_products import BF16
from support.passes import check
from support.ptx.backend import PtxBackend

import tilewright as ct
from tilewright.backends import registry
from tilewright.ir.ops.gpu.memory import GlobalLoad
from tilewright.ir.ops.gpu.tiles import ConvertLayout
from tilewright.transforms.gpu.duplicate_loads import DuplicateLoads


def pointers(name: str, *shape: int) -> str:
    ones = ", ".join("1" for _ in shape) + "," * (len(shape) == 1)
    sizes = ", ".join(map(str, shape)) + "," * (len(shape) == 1)
    unit = ",".join("1" for _ in shape)
    return f"""
  %{name}1 = reshape(%{name}) {{shape = ({ones})}} : ptr<f32>[{unit}]
  %{name}s = broadcast(%{name}1) {{shape = ({sizes})}} : ptr<f32>[{",".join(map(str, shape))}]"""


def program(loads: str, columns: str, store: str = "") -> str:
    return f"""
func @f(%x: ptr<f32> = "x".base, %y: ptr<f32> = "y".base, %s: ptr<f32> = "s".base, %n: i32 = "n".scalar) {{
  %zero = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %sum = constant() {{value = 0.0, type = !f32[16,16]}} : f32[16,16]{pointers("x", 16, 32)}{pointers("y", 32, 16)}{pointers("s", 32)}
  %r = for(%zero, %n, %one, [%sum]) : f32[16,16] {{ ^(%i: i32, %acc: f32[16,16])
    {loads}
    %a = load(%xs, _, _) : f32[16,32]
    %row = reshape(%scales) {{shape = (1, 32)}} : f32[1,32]
    %rows = broadcast(%row) {{shape = (16, 32)}} : f32[16,32]
    %c = mul(%a, %rows) : f32[16,32]
    %b = load(%ys, _, _) : f32[32,16]
    {store}
    %column = reshape({columns}) {{shape = (32, 1)}} : f32[32,1]
    %wide = broadcast(%column) {{shape = (32, 16)}} : f32[32,16]
    %d = mul(%b, %wide) : f32[32,16]
    %t = mma(%c, %d, %acc) : f32[16,16]
    continue([%t])
  }}
  return()
}}"""


ONCE, TWICE = "%scales = load(%ss, _, _) : f32[32]", "%again = load(%ss, _, _) : f32[32]"


def test_once_for_each_use() -> None:
    check(DuplicateLoads(), program(ONCE, "%scales"), program(f"{TWICE}\n    {ONCE}", "%again"), names=False)


def test_not_where_something_else_uses_them() -> None:
    for others in ("%again = neg(%scales) : f32[32]", "store(%ss, %scales, _)"):
        text = program(ONCE, "%scales", others)
        check(DuplicateLoads(), text, text)
    text = program(ONCE, "%scales").replace("mma(%c, %d, %acc)", "add(%acc, %acc)")
    check(DuplicateLoads(), text, text)


@ct.kernel
def both_scaled(a, scales, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        s = ct.load(scales, (k,), (K,))
        y = ct.load(b, (k, ct.bid(1)), (K, N)) * s[:, None]
        total = ct.mma(ct.load(a, (ct.bid(0), k), (M, K)) * s[None, :], y, total)
    ct.store(c, (ct.bid(0), ct.bid(1)), total.astype(c.dtype))


@pytest.mark.parametrize("tile", [(128, 64, 32), (64, 64, 64)], ids=str)
def test_both_operands_are_scaled(tile: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    backend = PtxBackend(None, "sm_90", realign=True)
    monkeypatch.setitem(registry._loaders, backend.name, lambda: backend)
    rng = np.random.default_rng(5)
    m, n, k = tile
    a, b = (rng.integers(-2, 3, shape).astype(BF16) for shape in ((m, 4 * k), (4 * k, n)))
    scales, out = rng.integers(-1, 3, 4 * k).astype(BF16), np.zeros((m, n), np.float32)
    ct.launch(None, (1, 1), both_scaled, (a, scales, b, out, *tile), backend=backend.name)
    wide = scales.astype(np.float32)
    np.testing.assert_array_equal(out, (a.astype(np.float32) * wide) @ (b.astype(np.float32) * wide[:, None]))
    body = list(backend.made[-1].compiled.distributed.walk())
    assert sum(isinstance(op, GlobalLoad) and op.result.tile.shape == (k,) for op in body) >= 2
    assert not any(isinstance(op, ConvertLayout) for op in body)
