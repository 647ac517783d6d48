"""CTAs that run a block together compute what it would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.ir.gpu_stage import CTAS_OF_BLOCK
from tilewright.transforms.gpu.split_blocks import SplitBlocks
from tilewright.transforms.instrumentation import observed_passes

VIEW = "view<f32,[?],[1],i32>"


def copies(length: int) -> str:
    """Blocks that copy ``length`` elements each."""
    part = f"partition<{VIEW},[{length}],[0],undetermined,[{length}]>"
    return f"""
func @f(%p: ptr<f32> = "x".base, %q: ptr<f32> = "y".base, %n: i32 = "x".shape.0) {{
  %i = bid() {{axis = 0}} : i32
  %a = assume_divisible(%p) {{divisor = 16}} : ptr<f32>
  %b = assume_divisible(%q) {{divisor = 16}} : ptr<f32>
  %v = make_tensor_view(%a, [%n], []) {{type = !{VIEW}}} : {VIEW}
  %w = make_tensor_view(%b, [%n], []) {{type = !{VIEW}}} : {VIEW}
  %s = make_partition_view(%v) {{type = !{part}}} : {part}
  %x = load_view(%s, [%i]) {{in_bounds = (false)}} : f32[{length}]
  %t = make_partition_view(%w) {{type = !{part}}} : {part}
  store_view(%t, %x, [%i]) {{in_bounds = (false)}}
  return()
}}
"""


def test_halves_of_lines() -> None:
    after = copies(1024).replace(") {\n", ") hints {ctas_of_block = 2} {\n", 1)
    bid = "  %i = bid() {axis = 0} : i32\n"
    half = """\
  %0 = bid() {axis = 0} : i32
  %1 = constant() {value = 1, type = !i32} : i32
  %2 = and(%0, %1) : i32
  %3 = shr(%0, %1) : i32
"""
    part = """\
  %9 = constant() {value = -1073741824, type = !i32} : i32
  %10 = max(%3, %9) : i32
  %11 = constant() {value = 1073741823, type = !i32} : i32
  %12 = min(%10, %11) : i32
  %13 = constant() {value = 2, type = !i32} : i32
  %14 = mul(%12, %13) : i32
  %i = add(%14, %2) : i32
"""
    wanted = after.replace(bid, half).replace("  %x = load", part + "  %x = load")
    check(SplitBlocks(), copies(2048), wanted, names=False)


HINTED = copies(2048).replace(") {\n", ") hints {occupancy = 2} {\n", 1)
ANYWHERE = copies(2048).replace("make_tensor_view(%a", "make_tensor_view(%p")  # it is not known where the array begins
IN_PLACE = copies(2048).replace("make_tensor_view(%b", "make_tensor_view(%a")


@pytest.mark.parametrize("text", [copies(1024), HINTED, ANYWHERE, IN_PLACE])
def test_blocks_that_stay(text: str) -> None:
    check(SplitBlocks(), text, text)


@ct.kernel
def gated(x, out, N: ct.Constant[int], T: ct.Constant[int]):
    """A row a block, with a tile that is larger than the row."""
    row, at = ct.bid(0), ct.arange(T, dtype=ct.int32)
    g, u = ct.gather(x, (row, at), padding_value=0.0), ct.gather(x, (row, at + N), padding_value=0.0)
    ct.scatter(out, (row, at), g * u + ct.num_blocks(0))


@ct.kernel
def layer_norm(x, w, out, M: ct.Constant[int], N: ct.Constant[int]):
    """Several rows a block."""
    v = ct.load(x, (ct.bid(0), 0), (M, N))
    v = v - ct.sum(v, axis=1, keepdims=True) / N
    scale = ct.rsqrt(ct.sum(v * v, axis=1, keepdims=True) / N + 1e-5)
    ct.store(out, (ct.bid(0), 0), v * scale * ct.load(w, (0,), (N,)))


@ct.kernel
def over_rows(x, out, M: ct.Constant[int], N: ct.Constant[int]):
    """Columns are normed, with N of them a block."""
    v = ct.load(x, (0, ct.bid(0)), (M, N))
    ct.store(out, (0, ct.bid(0)), v - ct.sum(v, axis=0, keepdims=True) / M)


@pytest.mark.parametrize(("columns", "ctas"), [(8, 0), (16, 2)])
def test_no_part_of_a_sector(columns: int, ctas: int) -> None:
    x = np.zeros((1024 * 32 // columns, 64), np.float32)
    with observed_passes(lambda name, f: found.append((name, f.hints.get(CTAS_OF_BLOCK, 0)))):
        found: list[tuple[str, int]] = []
        over_rows.compile_for("sm_90", (x, x.copy(), len(x), columns))
    assert dict(found)["split-blocks"] == ctas


@ct.kernel
def largest(x, out, M: ct.Constant[int], N: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.argmax(ct.load(x, (ct.bid(0), 0), (M, N)), axis=1))


def cases() -> list[tuple[Any, tuple[int, ...], tuple[Any, ...]]]:
    r = np.random.default_rng(0)
    x, y = r.random((7, 8192), np.float32), r.random((2048, 48), np.float32)
    return [
        (gated, (7,), (x, np.zeros((7, 3500), np.float32), 3500, 4096)),
        (layer_norm, (2,), (x, x[0], np.zeros_like(x), 4, 8192)),
        (over_rows, (3,), (y, np.zeros_like(y), 2048, 16)),
        (largest, (2,), (x, np.zeros(7, np.int32), 4, 8192)),
    ]


def test_same_as_one_cta() -> None:
    with interpreter_backend(None, 3, "sm_90") as interpreter, ptx_backend(None, "sm_90") as ptx:
        for i, (kernel, grid, arguments) in enumerate(cases()):
            wanted = cases()[i][2]
            ct.launch(None, grid, kernel, wanted, backend="reference")
            for backend in (interpreter, ptx):
                given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
                ct.launch(None, grid, kernel, tuple(given), backend=backend)
                for found, expected in zip(given, wanted):
                    np.testing.assert_allclose(
                        found, expected, rtol=1e-5, atol=1e-6, err_msg=f"{kernel.name} {backend}"
                    )
