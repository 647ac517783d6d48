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
from tilewright.transforms.gpu.persistent_flattening import FlattenPersistentLoops
from tilewright.transforms.gpu.rotated_loops import rotated

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
    return rotated(function, [op for op in function.walk() if isinstance(op, For)])


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


PERSISTENT = (
    """
func @matmul(%a: ptr<f16> = "a".base noalias, %b: ptr<f16> = "b".base noalias, %c: ptr<f32> = "c".base noalias,
             %n: i32 = "n".scalar) {"""
    + view_of("a", "f16", 256, 256, "64,64")
    + view_of("b", "f16", 256, 256, "64,64")
    + view_of("c", "f32", 256, 256, "64,64")
    + """
  %zero = constant() {value = 0, type = !i32} : i32
  %one = constant() {value = 1, type = !i32} : i32
  %four = constant() {value = 4, type = !i32} : i32
  %none = constant() {value = 0.0, type = !f32[64,64]} : f32[64,64]
  %first = bid() {axis = 0} : i32
  %blocks = num_blocks() {axis = 0} : i32
LOOP
  return()
}
"""
)
NEST = """
  for(%first, %four, %blocks, []) { ^(%row: i32)
    %rest = sub(%four, %row) : i32
    %sum = for(%zero, %n, %one, [%none]) : f32[64,64] { ^(%k: i32, %total: f32[64,64])
      %x = load_view(%a_tiles, [%row, %k]) {in_bounds = (true, false)} : f16[64,64]
      %y = load_view(%b_tiles, [%k, %zero]) {in_bounds = (false, true)} : f16[64,64]
      %t = mma(%x, %y, %total) : f32[64,64]
      continue([%t])
    }
    %column = sub(%rest, %one) : i32
    store_view(%c_tiles, %sum, [%row, %column]) {in_bounds = (true, true)}
    continue([])
  }"""
# One loop over all steps, which carries the tile, the step, what is computed per tile, and the sum. It starts as after
# the last step of a tile before the first. Without steps, the tiles are stored as they begin.
FLAT = """
  %first_64 = cast(%first) {dtype = i64} : i64
  %four_64 = cast(%four) {dtype = i64} : i64
  %blocks_64 = cast(%blocks) {dtype = i64} : i64
  %d = sub(%four_64, %first_64) : i64
  %e = div(%d, %blocks_64) {rounding = RoundingMode.RP} : i64
  %f = constant() {value = 0, type = !i64} : i64
  %tiles = max(%e, %f) : i64
  %zero_64 = cast(%zero) {dtype = i64} : i64
  %n_64 = cast(%n) {dtype = i64} : i64
  %one_64 = cast(%one) {dtype = i64} : i64
  %g = sub(%n_64, %zero_64) : i64
  %h = div(%g, %one_64) {rounding = RoundingMode.RP} : i64
  %i = constant() {value = 0, type = !i64} : i64
  %steps = max(%h, %i) : i64
  %j = constant() {value = 0, type = !i64} : i64
  %runs = cmp(%steps, %j) {predicate = CmpPredicate.GT} : i1
  if(%runs) {types = ()} {
    %l = constant() {value = 1, type = !i64} : i64
    %m = sub(%steps, %l) : i64
    %o = cast(%m) {dtype = i32} : i32
    %p = mul(%o, %one) : i32
    %last_k = add(%zero, %p) : i32
    %no_rest = constant() {value = 0, type = !i32} : i32
    %before_first = sub(%first, %blocks) : i32
    %q = constant() {value = 0, type = !i64} : i64
    %r = constant() {value = 1, type = !i64} : i64
    %all = mul(%tiles, %steps) : i64
    %s, %u, %v, %w = for(%q, %all, %r, [%before_first, %last_k, %no_rest, %none]) : i32, i32, i32, f32[64,64] {
      ^(%at: i64, %row: i32, %k: i32, %rest: i32, %total: f32[64,64])
      %starts = cmp(%k, %last_k) {predicate = CmpPredicate.EQ} : i1
      %next = add(%k, %one) : i32
      %this_k = select(%starts, %zero, %next) : i32
      %this_row, %this_rest = if(%starts) {types = (!i32, !i32)} : i32, i32 {
        %next_row = add(%row, %blocks) : i32
        %next_rest = sub(%four, %next_row) : i32
        yield([%next_row, %next_rest])
      } {
        yield([%row, %rest])
      }
      %x = load_view(%a_tiles, [%this_row, %this_k]) {in_bounds = (true, false)} : f16[64,64]
      %y = load_view(%b_tiles, [%this_k, %zero]) {in_bounds = (false, true)} : f16[64,64]
      %t = mma(%x, %y, %total) : f32[64,64]
      %ends = cmp(%this_k, %last_k) {predicate = CmpPredicate.EQ} : i1
      %sum = if(%ends) {types = (!f32[64,64])} : f32[64,64] {
        %column = sub(%this_rest, %one) : i32
        store_view(%c_tiles, %t, [%this_row, %column]) {in_bounds = (true, true)}
        yield([%none])
      } {
        yield([%t])
      }
      continue([%this_row, %this_k, %this_rest, %sum])
    }
    yield([])
  } {
    for(%first, %four, %blocks, []) { ^(%empty_row: i32)
      %empty_rest = sub(%four, %empty_row) : i32
      %empty_column = sub(%empty_rest, %one) : i32
      store_view(%c_tiles, %none, [%empty_row, %empty_column]) {in_bounds = (true, true)}
      continue([])
    }
    yield([])
  }"""


def test_a_persistent_loop_around_an_mma_loop_becomes_one_loop() -> None:
    before = parse_function(PERSISTENT.replace("LOOP", NEST))
    after = FlattenPersistentLoops(HOPPER, realign=True).run(before)
    check_loops(before, after, PERSISTENT.replace("LOOP", FLAT))
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, (256, 256)).astype(np.float16) for _ in "ab")
    for n, blocks in ((0, 2), (1, 3), (4, 1), (4, 3), (5, 8)):
        out = np.full((2, 256, 256), np.nan, np.float32)
        for function, result in zip((before, after), out):
            run(REFERENCE, function, (blocks,), a=a, b=b, c=result, n=n)
        np.testing.assert_array_equal(out[0], out[1])
        assert np.isfinite(out[0]).sum() == 4 * 64 * 64


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%a_16 = assume_divisible(%a) {divisor = 16}", "%a_16 = assume_divisible(%a) {divisor = 2}"),  # no TMA loads
        ("%c_16 = assume_divisible(%c) {divisor = 16}", "%c_16 = assume_divisible(%c) {divisor = 4}"),  # no TMA stores
        ("for(%zero, %n", "for(%rest, %n"),  # each tile has its own number of steps
        ("    store_view(%c_tiles, %sum, [%row, %column]) {in_bounds = (true, true)}\n", ""),  # nothing to overlap
    ],
)
def test_other_nests_stay(old: str, new: str) -> None:
    text = PERSISTENT.replace("LOOP", NEST)
    assert text.count(old) == 1
    function = parse_function(text.replace(old, new))
    verify(function)
    assert FlattenPersistentLoops(HOPPER, realign=False).run(function) is function
