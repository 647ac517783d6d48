"""Products of warp groups run beside arithmetic: loops that are rotated, and sums that are needed late; text in and out.

That kernels compute the same, and that no sum is used too early, is tested in ``backends/gpu/test_attention.py``.
"""

from __future__ import annotations

import pytest

from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.overlap_mma import DeferAccumulators, RotateMma

ROWS = "shared<f16[64,64]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]]>>"
COLUMNS = ROWS.replace("[[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]]",
                       "[[1,0],[2,0],[4,0],[8,0],[16,0],[32,0],[8,1],[16,2],[32,4],[0,8],[0,16],[0,32]]")  # fmt: skip
MAP = """gpu.tensor_map() {base = 0, shape = (("p", 1, 1), ("p", 2, 1)), strides = (("p", 3, 1), ("c", 1, 1)), \
axes = (0, 1), box = (64, 64), element = "f16", dtype = f16} : ptr<f16>"""
FUNCTION = f"""
func @attend(%q: ptr<f16> = "q".base, %rows: i32 = "q".shape.0, %columns: i32 = "q".shape.1, %step: i32 = "q".stride.0,
             %n: i32 = "n".scalar, %scale: f32 = "scale".scalar) {{
  %map = {MAP}
  %zero = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %none = constant() {{value = 0.0, type = !f32[64,64]}} : f32[64,64]
  %half = constant() {{value = 0.5, type = !f32[64,64]}} : f32[64,64]
  %x = gpu.fetch(%map, [%zero, %zero], _) {{type = !{ROWS}}} : {ROWS}
LOOP
  return()
}}
"""


def fetched(name: str, at: str, kind: str) -> str:
    return f"%{name} = gpu.fetch(%map, [%{at}, %zero], _) {{type = !{kind}}} : {kind}"


BEFORE = f"""
  %sum = for(%zero, %n, %one, [%none]) : f32[64,64] {{ ^(%j: i32, %total: f32[64,64])
    {fetched("y", "j", COLUMNS)}
    %s = gpu.wgmma(%x, %y, %none) : f32[64,64]
    %p = exp(%s) : f32[64,64]
    %w = cast(%p) {{dtype = f16}} : f16[64,64]
    {fetched("z", "j", ROWS)}
    %scaled = mul(%total, %half) : f32[64,64]
    %t = gpu.wgmma(%w, %z, %scaled) : f32[64,64]
    continue([%t])
  }}"""
ROTATED = f"""
  %runs = cmp(%zero, %n) {{predicate = CmpPredicate.LT}} : i1
  %sum = if(%runs) {{types = (!f32[64,64])}} : f32[64,64] {{
    {fetched("y0", "zero", COLUMNS)}
    %s0 = gpu.wgmma(%x, %y0, %none) : f32[64,64]
    %p0 = exp(%s0) : f32[64,64]
    %w0 = cast(%p0) {{dtype = f16}} : f16[64,64]
    %scaled0 = mul(%none, %half) : f32[64,64]
    %second = add(%zero, %one) : i32
    %most, %left = for(%second, %n, %one, [%scaled0, %w0]) : f32[64,64], f16[64,64] {{
      ^(%j: i32, %total: f32[64,64], %w: f16[64,64])
      {fetched("y", "j", COLUMNS)}
      %s = gpu.wgmma(%x, %y, %none) : f32[64,64]
      %before = sub(%j, %one) : i32
      {fetched("z", "before", ROWS)}
      %t = gpu.wgmma(%w, %z, %total) : f32[64,64]
      %p = exp(%s) : f32[64,64]
      %next = cast(%p) {{dtype = f16}} : f16[64,64]
      %scaled = mul(%t, %half) : f32[64,64]
      continue([%scaled, %next])
    }}
    %last = sub(%n, %one) : i32
    {fetched("z1", "last", ROWS)}
    %t1 = gpu.wgmma(%left, %z1, %most) : f32[64,64]
    yield([%t1])
  }} {{
    yield([%none])
  }}"""


def plain(function: Function) -> str:
    """The text of ``function`` with numbers for the names of its values."""
    for op in function.walk():
        for value in (*op.results, *(a for r in op.regions for a in r.args)):
            value.name = ""
    return print_function(function)


def parsed(loop: str) -> Function:
    function = parse_function(FUNCTION.replace("LOOP", loop))
    verify(function)
    return function


def test_the_second_product_runs_beside_the_first_of_the_next_iteration() -> None:
    rotated = RotateMma(4).run(parsed(BEFORE))
    verify(rotated)
    assert plain(rotated) == plain(parsed(ROTATED))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gpu.wgmma(%w, %z, %scaled)", "gpu.wgmma(%x, %z, %scaled)"),  # it does not wait for the first one
        ("gpu.wgmma(%x, %y, %none)", "gpu.wgmma(%x, %y, %total)"),  # which waits for it
    ],
)
def test_other_loops_stay(old: str, new: str) -> None:
    assert BEFORE.count(old) == 1
    loop = BEFORE.replace(old, new)
    assert plain(RotateMma(4).run(parsed(loop))) == plain(parsed(loop))


def test_loops_whose_operands_fill_the_registers_stay() -> None:
    """Two sums and an operand of half the size: 80 registers of each of 128 threads, 320 of each of 32."""
    for warps, loops in ((4, 1), (1, 0)):
        rotated = RotateMma(warps).run(parsed(BEFORE))
        assert sum(isinstance(op, For) and len(op.inits) == 2 for op in rotated.walk()) == loops


ORDERED = """
      %next0 = cast(%p) {dtype = f16} : f16[64,64]
      %split = reshape(%next0) {shape = (64, 8, 8)} : f16[64,8,8]
      %other0 = permute(%split) {axes = (0, 2, 1)} : f16[64,8,8]
      %next = reshape(%other0) {shape = (64, 64)} : f16[64,64]"""


@pytest.mark.parametrize("leaves", ["\n      %next = cast(%p) {dtype = f16} : f16[64,64]", ORDERED])
def test_what_needs_the_last_product_comes_last(leaves: str) -> None:
    """And then what only leaves the iteration, also in another order; what else is computed stays beside the
    product."""
    scaled = "\n      %scaled = mul(%t, %half) : f32[64,64]"
    early, late = leaves + scaled, scaled + leaves
    other = """
      %other = sub(%p, %half) : f32[64,64]
      %again = mul(%other, %other) : f32[64,64]"""
    kept = "\n      %next = cast(%p) {dtype = f16} : f16[64,64]" + scaled
    assert ROTATED.count(kept) == 1
    function = parsed(ROTATED.replace(kept, early + other))
    assert plain(DeferAccumulators().run(function)) == plain(parsed(ROTATED.replace(kept, other + late)))
