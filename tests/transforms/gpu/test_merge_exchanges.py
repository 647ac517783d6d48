"""Small tiles that warps exchange are stored before one barrier, unless what is stored follows from another one."""

from __future__ import annotations

from support.gpu_text import layout, line
from support.passes import check

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
