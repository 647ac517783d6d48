"""The passes that rebuild MMA loops for GPUs, text in and text out: the shape of the loops that they make.

That kernels of the language compute the same before and after is tested in ``backends/triton``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support.irbuild import run

from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.ir.core import Block, Function, Value
from tilewright.ir.ops.control import For
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.rewrite import clone_function
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.rotated_loops import rotate

HOPPER = parse_target("sm_90")


def view_of(name: str, dtype: str, rows: int, columns: int, tile: str) -> str:
    """Ops that make ``%name_tiles``, a partition into tiles of the array whose aligned pointer is ``%name``."""
    view = f"view<{dtype},[{rows},{columns}],[{columns},1],i32>"
    tiles = f"partition<{view},[{tile}],[0,1],zero,[{tile}]>"
    return f"""
  %{name}_16 = assume_divisible(%{name}) {{divisor = 16}} : ptr<{dtype}>
  %{name}_view = make_tensor_view(%{name}_16, [], []) {{type = !{view}}} : {view}
  %{name}_tiles = make_partition_view(%{name}_view) {{type = !{tiles}}} : {tiles}"""


def anonymous(function: Function) -> str:
    """The text of ``function`` with numbers for the names of its values."""
    copied = clone_function(function)
    for value in values_of(copied.body):
        value.name = ""
    return print_function(copied)


def values_of(block: Block) -> Iterator[Value]:
    """The arguments and results of ``block`` and of all that is nested in it."""
    yield from block.args
    for op in block.walk():
        yield from op.results
        for region in op.regions:
            yield from region.args


def check_loops(before: Function, after: Function, expected: str) -> None:
    """``after``, made of ``before``, is ``expected``, up to names."""
    verify(before)
    verify(after)
    assert anonymous(after) == anonymous(parse_function(expected))


ATTENTION = (
    """
func @attend(%q: ptr<f16> = "q".base noalias, %k: ptr<f16> = "k".base noalias, %v: ptr<f16> = "v".base noalias,
             %o: ptr<f32> = "o".base noalias, %n: i32 = "n".scalar) {"""
    + view_of("q", "f16", 64, 128, "64,128")
    + view_of("k", "f16", 512, 128, "128,128")
    + view_of("v", "f16", 512, 128, "128,128")
    + view_of("o", "f32", 64, 128, "64,128")
    + """
  %zero = constant() {value = 0, type = !i32} : i32
  %one = constant() {value = 1, type = !i32} : i32
  %none = constant() {value = 0.0, type = !f32[64,128]} : f32[64,128]
  %x = load_view(%q_tiles, [%zero, %zero]) {in_bounds = (true, true)} : f16[64,128]
LOOP
  store_view(%o_tiles, %sum, [%zero, %zero]) {in_bounds = (true, true)}
  return()
}
"""
)
DEPENDENT = """
  %sum = for(%zero, %n, %one, [%none]) : f32[64,128] { ^(%j: i32, %total: f32[64,128])
    %y = load_view(%k_tiles, [%j, %zero]) {in_bounds = (false, true)} : f16[128,128]
    %s = mma(%x, %y, %none) : f32[64,128]
    %p = exp2(%s) : f32[64,128]
    %w = cast(%p) {dtype = f16} : f16[64,128]
    %z = load_view(%v_tiles, [%j, %zero]) {in_bounds = (false, true)} : f16[128,128]
    %t = mma(%w, %z, %total) : f32[64,128]
    continue([%t])
  }"""
# The first iteration up to its exponentials; then each one's first MMA op with the second of the one before; the last.
PIPELINED = """
  %runs = cmp(%zero, %n) {predicate = CmpPredicate.LT} : i1
  %sum = if(%runs) {types = (!f32[64,128])} : f32[64,128] {
    %y0 = load_view(%k_tiles, [%zero, %zero]) {in_bounds = (false, true)} : f16[128,128]
    %s0 = mma(%x, %y0, %none) : f32[64,128]
    %p0 = exp2(%s0) : f32[64,128]
    %w0 = cast(%p0) {dtype = f16} : f16[64,128]
    %second = add(%zero, %one) : i32
    %most, %left = for(%second, %n, %one, [%none, %w0]) : f32[64,128], f16[64,128] {
      ^(%j: i32, %total: f32[64,128], %w: f16[64,128])
      %y = load_view(%k_tiles, [%j, %zero]) {in_bounds = (false, true)} : f16[128,128]
      %s = mma(%x, %y, %none) : f32[64,128]
      %before = sub(%j, %one) : i32
      %z = load_view(%v_tiles, [%before, %zero]) {in_bounds = (false, true)} : f16[128,128]
      %t = mma(%w, %z, %total) : f32[64,128]
      %p = exp2(%s) : f32[64,128]
      %next_w = cast(%p) {dtype = f16} : f16[64,128]
      continue([%t, %next_w])
    }
    %last = sub(%n, %one) : i32
    %z1 = load_view(%v_tiles, [%last, %zero]) {in_bounds = (false, true)} : f16[128,128]
    %t1 = mma(%left, %z1, %most) : f32[64,128]
    yield([%t1])
  } {
    yield([%none])
  }"""


def pipelined(function: Function) -> Function:
    made = clone_function(function)
    return made if rotate(made, [op for op in made.walk() if isinstance(op, For)]) else function


def test_the_second_mma_op_of_attention_runs_one_iteration_late() -> None:
    before = parse_function(ATTENTION.replace("LOOP", DEPENDENT))
    after = pipelined(before)
    check_loops(before, after, ATTENTION.replace("LOOP", PIPELINED))
    rng = np.random.default_rng(1)
    q, k, v = (rng.integers(-1, 2, (rows, 128)).astype(np.float16) for rows in (64, 512, 512))
    for n in range(5):
        out = np.full((2, 64, 128), np.nan, np.float32)
        for function, result in zip((before, after), out):
            run(REFERENCE, function, q=q / 8, k=k, v=v, o=result, n=n)
        np.testing.assert_array_equal(out[0], out[1])
        assert np.isfinite(out).all() and out.any() == (n > 0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%n, %one, [%none]", "%n, %two, [%none]"),  # the iteration before is not that of the number before
        ("mma(%x, %y, %none)", "mma(%x, %y, %total)"),  # the first MMA op waits for the second one
        ("mma(%w, %z", "mma(%w, %y"),  # the tile of a late operand would be loaded twice
    ],
)
def test_other_mma_loops_stay(old: str, new: str) -> None:
    assert DEPENDENT.count(old) == 1
    two = "\n  %two = constant() {value = 2, type = !i32} : i32"
    function = parse_function(ATTENTION.replace("LOOP", two + DEPENDENT.replace(old, new)))
    verify(function)
    assert pipelined(function) is function
