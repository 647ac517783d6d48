"""Fetches that the CTAs of a cluster make together, text in and text out."""

from __future__ import annotations

import pytest
from support.passes import check

from tilewright.ir.ops.gpu.tma import Fetch
from tilewright.ir.parser import parse_function
from tilewright.transforms.gpu.multicast_fetches import MulticastFetches

TILE = (
    "shared<f16[64,64]#layout<offset = "
    "[[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]]>>"
)
MAP = (
    'gpu.tensor_map() {base = 0, shape = (("p", 1, 1), ("p", 1, 1)), strides = (("p", 1, 1), ("c", 1, 1)), '
    'axes = (0, 1), box = (%s), element = "f16", dtype = f16%s} : ptr<f16>'
)
HEAD = 'func @f(%p: ptr<f16> = "x".base, %n: i32 = "x".shape.0) hints {num_ctas = 2}'
TOTAL = "%z = constant() {value = 0.0, type = !f32[64,64]} : f32[64,64]"


GRID = f"""
{HEAD} {{
  %m = {MAP % ("64, 64", "")}
  {TOTAL}
  %o = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %i = bid() {{axis = 0}} : i32
  %j = bid() {{axis = 1}} : i32
"""


def fetch(name: str, starts: str, both: str = "_", of: str = "%m") -> str:
    return f"%{name} = gpu.fetch({of}, [{starts}], {both}) {{type = !{TILE}}} : {TILE}"


def loop(*lines: str) -> str:
    """The steps of a product of %x and %y, which ``lines`` fetch."""
    body = "\n".join(f"    {text}" for text in lines)
    return f"""  %s = for(%o, %n, %one, [%z]) : f32[64,64] {{ ^(%k: i32, %t: f32[64,64])
{body}
    %w = gpu.wgmma(%x, %y, %t) : f32[64,64]
    continue([%w])
  }}
"""


@pytest.mark.parametrize("hint", ["num_ctas = 2", "multicast_pays = true"])
def test_a_block_of_the_grid(hint: str) -> None:
    """The right operand depends on the second axis of the grid alone: always both; the left one is compared."""
    before = f"""{GRID}{loop(fetch("x", "%i, %k"), fetch("y", "%k, %j"))}  %v = cast(%s) {{dtype = f16}} : f16[64,64]
  gpu.put(%m, %v, [%i, %j]) {{inner = 1}}
  return()
}}
"""
    after = f"""
{HEAD} {{
  %0 = {MAP % ("32, 64", ", pairs = true")}
  %m = {MAP % ("64, 64", "")}
  %1 = gpu.cluster_size() : i32
  %2 = constant() {{value = 2, type = !i32}} : i32
  %3 = cmp(%1, %2) {{predicate = CmpPredicate.EQ}} : i1
  {TOTAL}
  %o = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %i = bid() {{axis = 0}} : i32
  %j = bid() {{axis = 1}} : i32
{
        loop(
            "%4 = constant() {value = 1, type = !i32} : i32",
            "%5 = xor(%i, %4) : i32",
            "%6 = cmp(%i, %5) {predicate = CmpPredicate.EQ} : i1",
            "%7 = and(%3, %6) : i1",
            fetch("x", "%i, %k", "%7", "%0"),
            fetch("y", "%k, %j", "%3", "%0"),
        )
    }  %v = cast(%s) {{dtype = f16}} : f16[64,64]
  gpu.put(%m, %v, [%i, %j]) {{inner = 1}}
  return()
}}
"""
    before, after = (text.replace("num_ctas = 2", hint) for text in (before, after))
    check(MulticastFetches(), before, after)


def test_loops_that_follow_each_other_are_left_alone_unless_asked() -> None:
    """Only a persistent loop comes before others in pairs that nobody asked for."""
    again = loop(fetch("x", "%j, %k"), fetch("y", "%k, %i")).replace("%s =", "%r =")
    text = f"""{GRID}{loop(fetch("x", "%i, %k"), fetch("y", "%k, %j"))}{again}  %u = add(%s, %r) : f32[64,64]
  %v = cast(%u) {{dtype = f16}} : f16[64,64]
  gpu.put(%m, %v, [%i, %j]) {{inner = 1}}
  return()
}}
"""
    assert not MulticastFetches().apply(parse_function(text.replace("num_ctas = 2", "multicast_pays = true")))
    assert MulticastFetches().apply(parse_function(text))


def test_a_persistent_loop() -> None:
    """Both CTAs go through whole pairs of tiles; one that is none is the last tile once more, and is not stored."""
    before = f"""
{HEAD} {{
  %m = {MAP % ("32, 64", "")}
  {TOTAL}
  %o = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %b = bid() {{axis = 0}} : i32
  %g = num_blocks() {{axis = 0}} : i32
  for(%b, %n, %g, []) {{ ^(%tile: i32)
    {fetch("x", "%tile, %o")}
    {fetch("y", "%o, %o")}
    %w = gpu.wgmma(%x, %y, %z) : f32[64,64]
    %v = cast(%w) {{dtype = f16}} : f16[64,64]
    gpu.put(%m, %v, [%tile, %o]) {{inner = 1}}
    continue([])
  }}
  return()
}}
"""
    after = f"""
{HEAD} {{
  %0 = {MAP % ("32, 64", ", pairs = true")}
  %m = {MAP % ("32, 64", "")}
  %1 = gpu.cluster_size() : i32
  %2 = constant() {{value = 2, type = !i32}} : i32
  %3 = cmp(%1, %2) {{predicate = CmpPredicate.EQ}} : i1
  {TOTAL}
  %o = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %b = bid() {{axis = 0}} : i32
  %g = num_blocks() {{axis = 0}} : i32
  %4 = constant() {{value = 1, type = !i32}} : i32
  %5 = and(%n, %4) : i32
  %6 = add(%n, %5) : i32
  %7 = select(%3, %6, %n) : i32
  for(%b, %7, %g, []) {{ ^(%tile: i32)
    %8 = constant() {{value = 1, type = !i32}} : i32
    %9 = sub(%n, %8) : i32
    %10 = min(%tile, %9) : i32
    %11 = constant() {{value = 1, type = !i32}} : i32
    %12 = xor(%tile, %11) : i32
    %13 = min(%12, %9) : i32
    %14 = cmp(%tile, %9) {{predicate = CmpPredicate.LE}} : i1
    %15 = cmp(%10, %13) {{predicate = CmpPredicate.EQ}} : i1
    %16 = and(%3, %15) : i1
    {fetch("x", "%10, %o", "%16", "%0")}
    {fetch("y", "%o, %o", "%3", "%0")}
    %w = gpu.wgmma(%x, %y, %z) : f32[64,64]
    %v = cast(%w) {{dtype = f16}} : f16[64,64]
    %17 = constant() {{value = 1073741824, type = !i32}} : i32
    %18 = select(%14, %o, %17) : i32
    gpu.put(%m, %v, [%10, %18]) {{inner = 1}}
    continue([])
  }}
  return()
}}
"""
    check(MulticastFetches(), before, after)


ALONE = {
    "the bounds of the loop differ": ("for(%o, %n", "for(%i, %n"),
    "the place is read from memory": ("%k, %j", "%k, %read"),
    "a block may end": ("%i = bid", 'assert(%yes, []) {message = "x"}\n  %i = bid'),
    "nobody asks for pairs": ("hints {num_ctas = 2}", ""),
    "another block may be waited for": (
        "%i = bid",
        "%q = load(%r, _, _) {memory_order = MemoryOrder.ACQUIRE, memory_scope = MemoryScope.DEVICE} : i32\n  %i = bid",
    ),
}


@pytest.mark.parametrize("why", ["nothing", *ALONE])
def test_ctas_that_are_alone(why: str) -> None:
    text = f"""
{HEAD} {{
  %m = {MAP % ("32, 64", "")}
  %r = constant() {{value = 0, type = !ptr<i32>}} : ptr<i32>
  %read = load(%r, _, _) : i32
  %yes = constant() {{value = true, type = !i1}} : i1
  {TOTAL}
  %o = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %i = bid() {{axis = 0}} : i32
  %j = bid() {{axis = 1}} : i32
{loop(fetch("x", "%k, %j"), fetch("y", "%k, %j"))}  %v = cast(%s) {{dtype = f16}} : f16[64,64]
  gpu.put(%m, %v, [%i, %j]) {{inner = 1}}
  return()
}}
"""
    old, new = ALONE.get(why, ("", ""))
    function = MulticastFetches().run(parse_function(text.replace(old, new) if old else text))
    both = [op.both is not None for op in function.walk() if isinstance(op, Fetch)]
    assert both == [why == "nothing"] * 2
