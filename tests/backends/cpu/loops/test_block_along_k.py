"""Loops of products that take several steps along K at a time: as text, and the same bits as step by step."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.passes import check

import tilewright as ct
from tilewright.backends.cpu.loops.block_along_k import BlockAlongK
from tilewright.backends.cpu.target import Processor, host
from tilewright.ir.ops.control import For
from tilewright.ir.parser import parse_function

AVX512 = host()._replace(vector_bytes=64, vector_registers=32)
VIEW = "view<f32,[?,?],[?,1],i32>"


def partition(m: int, n: int, padding: str = "zero", steps: str = "") -> str:
    return f"partition<{VIEW},[{m},{n}],[0,1],{padding},{steps or f'[{m},{n}]'}>"


PARAMS = '%a: ptr<f32> = "a".base, %b: ptr<f32> = "b".base, %m: i32 = "a".shape.0, %n: i32 = "a".shape.1'


def views(x: str, y: str) -> str:
    return f"""
      %u = make_tensor_view(%a, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %w = make_tensor_view(%b, [%n, %m], [%m]) {{type = !{VIEW}}} : {VIEW}
      %x = make_partition_view(%u) {{type = !{x}}} : {x}
      %y = make_partition_view(%w) {{type = !{y}}} : {y}
      %zero = constant() {{value = 0, type = !i32}} : i32
      %one = constant() {{value = 1, type = !i32}} : i32"""


def loop(lower: str, upper: str, start: str, x: str = "%x", y: str = "%y", k: int = 64) -> str:
    return f"""for({lower}, {upper}, %one, [{start}]) : f32[32,32] {{ ^(%k: i32, %acc: f32[32,32])
        %p = load_view({x}, [%m, %k]) {{in_bounds = (false, true)}} : f32[32,{k}]
        %q = load_view({y}, [%k, %m]) {{in_bounds = (false, false)}} : f32[{k},32]
        %s = mma(%p, %q, %acc) {{fast_acc = false}} : f32[32,32]
        continue([%s])
      }}"""


def program(upper: str = "%n", x: str = partition(32, 64), y: str = partition(64, 32), **old: str) -> str:
    made = loop("%zero", upper, "%init")
    for before, after in old.values():
        assert before in made
        made = made.replace(before, after)
    return f"""func @f({PARAMS}) {{{views(x, y)}
      %seven = constant() {{value = 7, type = !i32}} : i32
      %eight = constant() {{value = 8, type = !i32}} : i32
      %init = constant() {{value = 0.0, type = !f32[32,32]}} : f32[32,32]
      %r = {made}
      return()
    }}"""


def test_the_steps_that_are_left_over_follow() -> None:
    """First several at a time of these, too."""
    x, y = partition(32, 512), partition(512, 32)
    narrower = [partition(32, 256), partition(256, 32)]
    wide = f"""%0 = constant() {{value = 8, type = !i32}} : i32
      %1 = div(%n, %0) {{rounding = RoundingMode.RZ}} : i32
      %2 = make_partition_view(%u) {{type = !{x}}} : {x}
      %3 = make_partition_view(%w) {{type = !{y}}} : {y}
      %4 = {loop("%zero", "%1", "%init", "%2", "%3", 512)}
      %5 = mul(%1, %0) : i32
      %6 = constant() {{value = 4, type = !i32}} : i32
      %7 = div(%5, %6) {{rounding = RoundingMode.RZ}} : i32
      %8 = div(%n, %6) {{rounding = RoundingMode.RZ}} : i32
      %9 = make_partition_view(%u) {{type = !{narrower[0]}}} : {narrower[0]}
      %10 = make_partition_view(%w) {{type = !{narrower[1]}}} : {narrower[1]}
      %11 = {loop("%7", "%8", "%4", "%9", "%10", 256)}
      %12 = mul(%8, %6) : i32
      %r = """
    after = program().replace("%r = ", wide).replace("for(%zero, %n, %one, [%init])", "for(%12, %n, %one, [%11])")
    check(BlockAlongK(AVX512), program(), after)


def loops(text: str, processor: Processor = AVX512) -> list[tuple[int, ...]]:
    """The shape of the left operand in each loop."""
    made = BlockAlongK(processor).run(parse_function(text))
    return [op.body.ops[0].result.tile.shape for op in made.walk() if isinstance(op, For)]


def test_a_known_number_of_steps() -> None:
    assert loops(program("%eight")) == [(32, 512)]
    assert loops(program("%seven")) == [(32, 256), (32, 128), (32, 64)]
    assert loops(program("%one")) == [(32, 64)]


@pytest.mark.parametrize(("dot", "depth"), [(False, 512), (True, 256)])
def test_products_by_dot_instructions_take_shorter_steps(dot: bool, depth: int) -> None:
    text = program("%eight").replace("view<f32", "view<bf16").replace("ptr<f32>", "ptr<bf16>")
    text = text.replace("f32[32,64]", "bf16[32,64]").replace("f32[64,32]", "bf16[64,32]")
    processor = AVX512._replace(features=AVX512.features._replace(dot_bfloat=dot, dot_bfloat_tiles=False))
    assert loops(text, processor)[0] == (32, depth)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(program(x=partition(32, 64, "neg_inf")), id="padding that is not zero"),
        pytest.param(program(x=partition(32, 64, steps="[32,32]")), id="tiles that overlap"),
        pytest.param(program(old=("[%m, %k]", "[%k, %k]")), id="rows that depend on the step"),
        pytest.param(program(old=("[%m, %k]", "[%k, %m]")), id="steps along another axis"),
        pytest.param(program(old=("for(%zero", "for(%one")), id="another first step"),
        pytest.param(program(old=("%one, [", "%seven, [")), id="another distance of steps"),
        pytest.param(program(x=partition(32, 512), y=partition(512, 32), a=("[32,64]", "[32,512]"), b=("[64,32]", "[512,32]")), id="wide enough"),
        pytest.param(program(old=("continue([%s])", "%t = add(%s, %acc) : f32[32,32]\n continue([%t])")), id="more than a product"),
    ],
)  # fmt: skip
def test_what_stays_as_it_is(text: str) -> None:
    before = parse_function(text)
    assert BlockAlongK(AVX512).run(before) is before


def product(a: Any, b: Any, c: Any, steps: int, K: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((16, 32), c.dtype)
    for k in range(steps):
        x = ct.load(a, (i, k), (16, K), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(x, ct.load(b, (k, j), (K, 32), padding_mode=ct.PaddingMode.ZERO), acc)
    ct.store(c, (i, j), acc)


def transposed(a: Any, b: Any, c: Any, steps: int, K: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((16, 32), c.dtype)
    for k in range(steps):
        y = ct.load(b, (j, k), (32, K), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(ct.load(a, (i, k), (16, K), padding_mode=ct.PaddingMode.ZERO), ct.transpose(y), acc)
    ct.store(c, (i, j), acc)


def few_rows(a: Any, b: Any, c: Any, steps: int, K: ct.Constant[int]) -> None:
    """The right operand is read line by line where it is."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((4, 32), c.dtype)
    for k in range(steps):
        y = ct.load(b, (j, k), (32, K), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(ct.load(a, (i, k), (4, K), padding_mode=ct.PaddingMode.ZERO), ct.transpose(y), acc)
    ct.store(c, (i, j), acc)


def batched(a: Any, b: Any, c: Any, steps: int, K: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((16, 32), c.dtype)
    for k in range(steps):
        x = ct.load(a, (0, i, k), (1, 16, K), padding_mode=ct.PaddingMode.ZERO).reshape((16, K))
        y = ct.load(b, (0, k, j), (1, K, 32), padding_mode=ct.PaddingMode.ZERO).reshape((K, 32))
        acc = ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), acc)
    ct.store(c, (i, j), acc)


def values(dtype: Any, *shape: int) -> np.ndarray:
    draw = np.random.default_rng(shape)
    if np.dtype(dtype).kind == "i":
        return draw.integers(-128, 128, shape).astype(dtype)
    found = draw.standard_normal(shape).astype(dtype)
    found[..., -1, -1] = np.inf  # in the last tile along K, where padding must not meet it
    return found


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        *((product, np.float32), (product, np.float64), (transposed, np.float16), (product, np.int8)),
        *((batched, np.float32), (few_rows, np.float32), (few_rows, np.float64)),
    ],
)
def test_the_same_bits(kernel: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the loop stops before the end of the arrays, or goes on behind it."""
    accumulator = {np.int8: np.int32, np.float64: np.float64}.get(dtype, np.float32)
    found: list[list[np.ndarray]] = [[], []]
    for change, results in zip((BlockAlongK.change, lambda self, function: False), found):
        monkeypatch.setattr(BlockAlongK, "change", change)
        compiled = ct.kernel(kernel)
        for extent, off in itertools.product((1, 40, 127, 128, 500, 513), (0, -1, 3)):
            a, b = values(dtype, 20, extent), values(dtype, extent, 40)
            b = np.ascontiguousarray(b.T) if kernel in (transposed, few_rows) else b
            if kernel is batched:
                a, b = a[None], b[None]
            c = np.zeros((20, 40), accumulator)
            with ct.use_backend("cpu"):
                blocks = 6 if kernel is few_rows else 2
                ct.launch(None, (blocks, 2), compiled, (a, b, c, -(-extent // 32) + off, 32))
            results.append(c.view(np.uint8))
    np.testing.assert_array_equal(*found)
