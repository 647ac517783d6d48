"""The warps that multiply fetch for themselves: the first iterations' tiles before a loop, and in each iteration, when its
MMA ops have ended, those of the one that gets the same slot; text in and text out."""

from __future__ import annotations

from support.passes import check
from transforms.gpu.test_specialize_warps import BARRIER, MAP, SUM, TILE, constants, copy, following, ring
from transforms.gpu.test_specialize_warps import BEFORE as PRODUCT
from transforms.gpu.test_specialize_warps import HEAD as ONE_CTA

from tilewright.transforms.gpu.inline_fetches import InlineFetches

HEAD = ONE_CTA.replace("num_warps = 4", "num_warps = 4, ctas_of_sm = 2")
BEFORE = PRODUCT.replace(ONE_CTA, HEAD).replace(
    f"%u = gpu.wgmma(%x, %y, %t) : f32[64,64]{SUM}",
    f"%v = gpu.wgmma(%x, %y, %z) : f32[64,64]{SUM}\n    %u = add(%v, %t) : f32[64,64]{SUM}",
)


def fetched(index: str, slot: str, k: str) -> str:
    """What the iteration ``index`` multiplies, to ``slot``, unless the loop ends before."""
    return f"""
  %l{k} = cmp(%{index}, %n) {{predicate = CmpPredicate.LT}} : i1
  if(%l{k}) {{types = ()}} {{{copy("b" + k, "full", slot, BARRIER)}
    gpu.mbarrier_expect(%b{k}) {{bytes = 16384}}{copy("x" + k, "xs", slot, TILE)}
    gpu.tma_load(%x{k}, %b{k}, %map, [%o, %{index}], _){copy("y" + k, "ys", slot, TILE)}
    gpu.tma_load(%y{k}, %b{k}, %map, [%{index}, %o], _)
    yield([])
  }} {{
    yield([])
  }}"""


def after(index: str, k: str) -> str:
    return f"\n  %{k} = add(%{index}, %one) : i32"


RINGS = ring("xs", TILE, ", alignment = 1024") + ring("ys", TILE, ", alignment = 1024")
AFTER = f"""{HEAD.replace("ctas_of_sm = 2", "ctas_of_sm = 2, occupancy = 2")}{MAP}{RINGS}{ring("full", BARRIER)}{ring("empty", BARRIER)}
  gpu.mbarrier_init(%full) {{count = 1}}
  gpu.mbarrier_init(%empty) {{count = 1}}
  gpu.barrier()
  %first = constant() {{value = 0, type = !i32}} : i32{constants("")}{fetched("o", "first", "1")}{after("o", "n1")}\
{following("first", "first", "1")}{fetched("n1", "slot1", "2")}{after("n1", "n2")}{following("slot1", "parity1", "2")}
  %w, %s8, %s9 = for(%o, %n, %one, [%z, %first, %first]) : f32[64,64]{SUM}, i32, i32 {{
    ^(%k: i32, %t: f32[64,64]{SUM}, %slot: i32, %parity: i32){copy("b", "full", "slot", BARRIER)}
    gpu.mbarrier_wait(%b, %parity){copy("x", "xs", "slot", TILE)}{copy("y", "ys", "slot", TILE)}
    %v = gpu.wgmma(%x, %y, %z) {{pending = none}} : f32[64,64]{SUM}{following("slot", "parity", "3")}
    %sum = gpu.wgmma_wait([%v], [], []) : f32[64,64]{SUM}{after("k", "k1")}{after("k1", "k2")}{fetched("k2", "slot", "4")}
    %u = add(%sum, %t) : f32[64,64]{SUM}
    continue([%u, %slot3, %parity3])
  }}
  print([%w]) {{parts = (none), formats = ("")}}
  return()
}}"""


def test_a_slot_is_fetched_to_when_what_reads_it_has_ended() -> None:
    check(InlineFetches(), BEFORE, AFTER, settles=False, names=False)  # the hint stays
