"""Half of the weights of a step are computed behind the wait for the MMA op beside them: text in and out.

That kernels compute the same is tested in ``backends/gpu/test_attention.py``.
"""

from __future__ import annotations

import pytest

from tilewright.ir.core import Function
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.delay_exponentials import DelayExponentials

THREADS = "lane = [[0,2],[0,4],[1,0],[2,0],[4,0]], warp = [[16,0],[32,0]]>"
HALF = f"[64,64]#layout<register = [[0,1],[8,0],[0,8],[0,16],[0,32]], {THREADS}"
WHOLE = HALF.replace("[64,64]", "[64,128]").replace("[0,32]]", "[0,32],[0,64]]")
SUMS = "f32[64,4]#layout<register = [[8,0]], lane = [[0,1],[0,2],[1,0],[2,0],[4,0]], warp = [[16,0],[32,0]]>"
ADDED = f"""{{axis = 1}} : {SUMS} {{ ^(%l: f32, %r: f32)
    %o = add(%l, %r) : f32
    yield([%o])
  }}"""
HEAD = f"""
func @step(%a: f32 = "a".scalar) hints {{num_warps = 4}} {{
  %x = gpu.splat(%a) {{type = !f32{WHOLE}}} : f32{WHOLE}
  %t = gpu.splat(%a) {{type = !f32{WHOLE}}} : f32{WHOLE}"""
SCALED = f"%scaled = mul(%done, %t) : f32{WHOLE}"
BEFORE = f"""{HEAD}
  %w = exp2(%x) {{flush_to_zero = true}} : f32{WHOLE}
  %s = gpu.thread_reduce([%w]) {ADDED}
  %done = gpu.wgmma_wait([%t], [], [%s]) : f32{WHOLE}
  {SCALED}
  %more = add(%s, %s) : {SUMS}
  %n = cast(%w) {{dtype = bf16}} : bf16{WHOLE}
  return()
}}
"""


def halved(name: str, index: int) -> str:
    return f"""
  %x{name} = gpu.part(%x) {{axis = 1, size = 64, index = {index}}} : f32{HALF}
  %w{name} = exp2(%x{name}) {{flush_to_zero = true}} : f32{HALF}
  %s{name} = gpu.thread_reduce([%w{name}]) {ADDED}"""


AFTER = f"""{HEAD}{halved("0", 0)}
  %done = gpu.wgmma_wait([%t], [], [%s0]) : f32{WHOLE}
  {SCALED}{halved("1", 1)}
  %s = add(%s0, %s1) : {SUMS}
  %more = add(%s, %s) : {SUMS}
  %n0 = cast(%w0) {{dtype = bf16}} : bf16{HALF}
  %n1 = cast(%w1) {{dtype = bf16}} : bf16{HALF}
  %n = gpu.join(%n0, %n1) {{axis = 1, type = !bf16{WHOLE}}} : bf16{WHOLE}
  return()
}}
"""


def plain(function: Function) -> str:
    """Its text, with numbers for names."""
    for block in function.blocks():
        for value in (*block.args, *(v for op in block.ops for v in op.results)):
            value.name = ""
    return print_function(function)


def parsed(text: str) -> Function:
    function = parse_function(text)
    verify(function)
    return function


def test_half_of_the_weights_follow_what_is_scaled() -> None:
    found = DelayExponentials().run(parsed(BEFORE))
    verify(found)
    assert plain(found) == plain(parsed(AFTER))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[%t], [], [%s]", "[%t], [], []"),  # nothing stays before the wait
        ("%n = cast(%w) {dtype = bf16} : bf16", "%n = cast(%w) {dtype = f8e4m3fn} : f8e4m3fn"),
        ("%n = cast(%w)", "%again = add(%w, %w) : f32" + WHOLE + "\n  %n = cast(%w)"),  # others need them
        ("%o = add(%l, %r)", "%o = max(%l, %r)"),
        ("%w = exp2(", f"%capped = tanh(%x) {{rounding = RoundingMode.APPROX}} : f32{WHOLE}\n  %w = exp2("),
    ],
)
def test_others_stay(old: str, new: str) -> None:
    text = BEFORE.replace(old, new)
    assert text != BEFORE and plain(DelayExponentials().run(parsed(text))) == plain(parsed(text))
