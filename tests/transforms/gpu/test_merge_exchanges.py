"""Small tiles that warps exchange are stored before one barrier, unless what is stored follows from another one."""

from __future__ import annotations

from support.gpu_text import layout, line
from support.passes import check

from tilewright.ir.ops.gpu.memory import SharedAlloc, SharedCopy, SharedExtract, SharedStore
from tilewright.ir.parser import parse_function
from tilewright.transforms.gpu.merge_exchanges import MergeExchanges

ROW = layout(line(), line(1, 2, 4, 8, 16), line(32))
BACK = layout(line(), line(2, 4, 8, 16, 32), line(1))
MEMORY = "#layout<offset = [[1],[2],[4],[8],[16],[32]]>"
HEAD = f"""
func @f(%p: ptr<f32> = "x".base) hints {{num_warps = 2}} {{
  %i = iota() {{type = !i32[64]{ROW}}} : i32[64]{ROW}
  %a = gpu.splat(%p) {{type = !ptr<f32>[64]{ROW}}} : ptr<f32>[64]{ROW}
  %b = ptr_offset(%a, %i) : ptr<f32>[64]{ROW}
  %x = gpu.load(%b, _, _) : f32[64]{ROW}"""


def alloc(name: str) -> str:
    return f"\n  %{name} = gpu.shared_alloc() {{type = !shared<f32[64]{MEMORY}>}} : shared<f32[64]{MEMORY}>"


def load(name: str, buffer: str) -> str:
    return f"\n  %{name} = gpu.shared_load(%{buffer}) {{type = !f32[64]{BACK}}} : f32[64]{BACK}"


def exp(name: str, x: str, where: str) -> str:
    return f"\n  %{name} = exp2(%{x}) : f32[64]{where}"


def test_stores_of_what_is_known_go_before_the_first_load() -> None:
    first, second = alloc("m") + "\n  gpu.shared_store(%m, %x)", alloc("n") + "\n  gpu.shared_store(%n, %y)"
    between, end = load("u", "m") + exp("w", "u", BACK), load("v", "n") + "\n  return()\n}\n"
    check(
        MergeExchanges(),
        HEAD + first + between + exp("y", "x", ROW) + second + end,
        HEAD + first + exp("y", "x", ROW) + second + between + end,
    )


def test_what_follows_from_a_load_stays_behind_it() -> None:
    first, second = alloc("m") + "\n  gpu.shared_store(%m, %x)", alloc("n") + "\n  gpu.shared_store(%n, %w)"
    text = HEAD + first + load("u", "m") + exp("w", "u", BACK) + second + load("v", "n") + "\n  return()\n}\n"
    check(MergeExchanges(), text, text)


def test_parts_of_what_was_copied_ahead_are_read_there() -> None:
    one = (
        layout(*[line()] * 3).replace("lane = []", "lane = [[0],[0],[0],[0],[0]]").replace("warp = []", "warp = [[0]]")
    )
    ring = f"shared<f32[64]{MEMORY},2>"
    start = (
        HEAD
        + f"""
  %n = constant() {{value = 0, type = !i32}} : i32
  %r = gpu.shared_alloc() {{type = !{ring}}} : {ring}
  %s = gpu.shared_copy(%r, %n) : shared<f32[64]{MEMORY}>
  gpu.async_copy(%s, %b, _) {{vector = 1}}
  %y = gpu.shared_load(%s) {{type = !f32[64]{ROW}}} : f32[64]{ROW}"""
    )
    text = (
        start
        + alloc("m")
        + f"""
  gpu.shared_store(%m, %y)
  %e = gpu.shared_extract(%m, [%n]) {{type = !f32[1]{one}}} : f32[1]{one}
  print([%e, %y]) {{parts = (none, none), formats = ("", "")}}
  return()
}}
"""
    )
    function = MergeExchanges().run(parse_function(text))
    assert not function.ops_of(SharedStore)
    (part,), (buffer,) = function.ops_of(SharedExtract), function.ops_of(SharedAlloc)
    assert isinstance(part.buffer.op, SharedCopy) and part.buffer.op.buffer is buffer.result
    text = text.replace("gpu.async_copy(%s, %b, _) {vector = 1}", "gpu.shared_store(%s, %x)")
    function = MergeExchanges().run(parse_function(text))
    assert len(function.ops_of(SharedStore)) == 2, "what is no copy may change"


def test_what_was_exchanged_to_be_stored_is_stored_behind_the_next_exchange() -> None:
    first, second = alloc("m") + "\n  gpu.shared_store(%m, %x)", alloc("n") + "\n  gpu.shared_store(%n, %y)"
    stored = load("u", "m") + "\n  gpu.store(%c, %u, _)"
    head = HEAD + f"\n  %d = gpu.splat(%p) {{type = !ptr<f32>[64]{BACK}}} : ptr<f32>[64]{BACK}" + exp("y", "x", ROW)
    head += f"\n  %j = iota() {{type = !i32[64]{BACK}}} : i32[64]{BACK}\n  %c = ptr_offset(%d, %j) : ptr<f32>[64]{BACK}"
    end = load("v", "n") + "\n  return()\n}\n"
    check(MergeExchanges(), head + first + stored + second + end, head + first + second + stored + end)
    reads = f"\n  %w = gpu.load(%c, _, _) : f32[64]{BACK}"
    names = [
        op.name for op in MergeExchanges().run(parse_function(head + first + stored + reads + second + end)).walk()
    ]
    assert names.index("gpu.store") < names.index("gpu.load", names.index("gpu.load") + 1), "of another load"
