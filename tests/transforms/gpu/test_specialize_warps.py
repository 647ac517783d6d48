"""One thread fetches tiles into a ring of buffers, and warp groups multiply what has arrived; text in and text out.

That schedules are free of races and deadlocks is tested in ``backends/gpu`` by the interpreter.
"""

from __future__ import annotations

import pytest
from support.gpu_text import layout
from support.passes import check

from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.transforms.gpu.allocate_shared import OutOfSharedMemory
from tilewright.transforms.gpu.specialize_warps import SpecializeWarps

OFFSET = "[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]"
TILE = f"f16[64,64]#layout<offset = [{OFFSET}]>"
BARRIER = "u64[1]#layout<offset = []>"
SUM = layout([[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], [[16, 0], [32, 0]])
HEAD = 'func @f(%p: ptr<f16> = "x".base, %n: i32 = "x".shape.0, %m: i32 = "x".shape.1, %s: i32 = "x".stride.0) hints {num_warps = 4} {'
MAP = """
  %map = gpu.tensor_map() {base = 0, shape = (("p", 1, 1), ("p", 2, 1)), strides = (("p", 3, 1), ("c", 1, 1)), \
axes = (0, 1), box = (64, 64), element = "f16", dtype = f16} : ptr<f16>"""


def constants(k: str) -> str:
    return f"""
  %o{k} = constant() {{value = 0, type = !i32}} : i32
  %one{k} = constant() {{value = 1, type = !i32}} : i32
  %z{k} = constant() {{value = 0.0, type = !f32[64,64]{SUM}}} : f32[64,64]{SUM}"""


BEFORE = f"""{HEAD}{MAP}{constants("")}
  %w = for(%o, %n, %one, [%z]) : f32[64,64]{SUM} {{ ^(%k: i32, %t: f32[64,64]{SUM})
    %x = gpu.fetch(%map, [%o, %k], _) {{type = !shared<{TILE}>}} : shared<{TILE}>
    %y = gpu.fetch(%map, [%k, %o], _) {{type = !shared<{TILE}>}} : shared<{TILE}>
    %u = gpu.wgmma(%x, %y, %t) : f32[64,64]{SUM}
    continue([%u])
  }}
  print([%w]) {{parts = (none), formats = ("")}}
  return()
}}"""


def ring(name: str, of: str, alignment: str = "") -> str:
    return f"\n  %{name} = gpu.shared_alloc() {{type = !shared<{of},2>{alignment}}} : shared<{of},2>"


def copy(name: str, of: str, slot: str, kind: str) -> str:
    return f"\n    %{name} = gpu.shared_copy(%{of}, %{slot}) : shared<{kind}>"


def following(slot: str, parity: str, k: str) -> str:
    """The next slot, and its parity, which flips where the ring begins again."""
    return f"""
    %i{k} = constant() {{value = 1, type = !i32}} : i32
    %a{k} = add(%{slot}, %i{k}) : i32
    %c{k} = constant() {{value = 2, type = !i32}} : i32
    %e{k} = cmp(%a{k}, %c{k}) {{predicate = CmpPredicate.EQ}} : i1
    %f{k} = constant() {{value = 0, type = !i32}} : i32
    %slot{k} = select(%e{k}, %f{k}, %a{k}) : i32
    %j{k} = constant() {{value = 1, type = !i32}} : i32
    %g{k} = xor(%{parity}, %j{k}) : i32
    %parity{k} = select(%e{k}, %g{k}, %{parity}) : i32"""


def given_back(slot: str, k: str) -> str:
    """What the product before has read is empty, unless there is none: its slot is -1 then."""
    return f"""
    %l{k} = constant() {{value = 0, type = !i32}} : i32
    %h{k} = cmp(%{slot}, %l{k}) {{predicate = CmpPredicate.GE}} : i1
    %m{k} = constant() {{value = 0, type = !i32}} : i32
    %q{k} = select(%h{k}, %{slot}, %m{k}) : i32{copy("b" + k, "empty", "q" + k, BARRIER)}
    gpu.mbarrier_arrive(%b{k}, %h{k})"""


AFTER = f"""{HEAD}{MAP}{ring("xs", TILE, ", alignment = 1024")}{ring("ys", TILE, ", alignment = 1024")}{ring("full", BARRIER)}{ring("empty", BARRIER)}
  gpu.mbarrier_init(%full) {{count = 1}}
  gpu.mbarrier_init(%empty) {{count = 1}}
  gpu.barrier()
  gpu.warp_specialize() {{
    %first = constant() {{value = 0, type = !i32}} : i32{constants("0")}
    %none = constant() {{value = -1, type = !i32}} : i32
    %w, %s1, %s2, %last = for(%o0, %n, %one0, [%z0, %first, %first, %none]) : f32[64,64]{SUM}, i32, i32, i32 {{
      ^(%k: i32, %t: f32[64,64]{SUM}, %slot: i32, %parity: i32, %before: i32){copy("b", "full", "slot", BARRIER)}
    gpu.mbarrier_wait(%b, %parity){copy("x", "xs", "slot", TILE)}{copy("y", "ys", "slot", TILE)}
    %u = gpu.wgmma(%x, %y, %t) {{pending = 1}} : f32[64,64]{SUM}{given_back("before", "1")}{following("slot", "parity", "1")}
    continue([%u, %slot1, %parity1, %slot])
    }}
    %sum = gpu.wgmma_wait([%w], [], []) : f32[64,64]{SUM}{given_back("last", "2")}
    print([%sum]) {{parts = (none), formats = ("")}}
    yield([])
  }} {{
    %begin = constant() {{value = 0, type = !i32}} : i32{constants("9")}
    %w9, %s8, %s9 = for(%o9, %n, %one9, [%z9, %begin, %begin]) : f32[64,64]{SUM}, i32, i32 {{
      ^(%k9: i32, %t9: f32[64,64]{SUM}, %slot8: i32, %parity8: i32){copy("fill", "full", "slot8", BARRIER)}
    %v = constant() {{value = 1, type = !i32}} : i32
    %phase = xor(%parity8, %v) : i32{copy("free", "empty", "slot8", BARRIER)}
    gpu.mbarrier_wait(%free, %phase)
    gpu.mbarrier_expect(%fill, _) {{bytes = 16384}}{copy("x9", "xs", "slot8", TILE)}
    gpu.tma_load(%x9, %fill, %map, [%o9, %k9], _, _){copy("fills", "full", "slot8", BARRIER)}{copy("y9", "ys", "slot8", TILE)}
    gpu.tma_load(%y9, %fills, %map, [%k9, %o9], _, _){following("slot8", "parity8", "9")}
    continue([%t9, %slot9, %parity9])
    }}
    yield([])
  }}
  return()
}}"""


def test_a_product_stays_in_flight_while_the_next_tiles_arrive() -> None:
    check(SpecializeWarps(2), BEFORE, AFTER, names=False)


def test_products_that_add_to_each_other_stay_in_flight_together() -> None:
    """The loop carries the sum of the last one to the first one."""
    first = "%u0 = gpu.wgmma(%x, %y, %t)"
    before = BEFORE.replace("%u = gpu.wgmma(%x, %y, %t)", f"{first} : f32[64,64]{SUM}\n    %u = gpu.wgmma(%x, %y, %u0)")
    both = f"{first} {{pending = none}} : f32[64,64]{SUM}\n    %u = gpu.wgmma(%x, %y, %u0) {{pending = 2}}"
    check(SpecializeWarps(2), before, AFTER.replace("%u = gpu.wgmma(%x, %y, %t) {pending = 1}", both), names=False)


def test_operands_put_back_where_they_were_fetched_to_stay_in_flight() -> None:
    """They leave the ring with the product that reads them; the thread that fetches knows nothing of them."""
    put_back = f"""
    %in = gpu.shared_load(%y) {{type = !f16[64,64]{SUM}, vector = 2}} : f16[64,64]{SUM}
    %back = gpu.stage_operand(%in, %y) {{type = !shared<{TILE}>}} : shared<{TILE}>
    %u = gpu.wgmma(%x, %back, %t)"""
    texts = (text.replace("\n    %u = gpu.wgmma(%x, %y, %t)", put_back) for text in (BEFORE, AFTER))
    check(SpecializeWarps(2), *texts, names=False)


@pytest.mark.parametrize(("kib", "stages"), [(66, 4), (50, 3), (34, 2)])
def test_as_many_stages_as_there_is_room_for(kib: int, stages: int) -> None:
    made = print_function(SpecializeWarps(limit=kib << 10, blocks=1).run(parse_function(BEFORE)))
    assert f"shared<{TILE},{stages}>" in made


@pytest.mark.parametrize(
    ("kib", "blocks", "stages", "depths", "occupancy"),
    [
        (227, 0, 3, (8, 7, 4, 0), 4),
        (227, 1, 8, None, None),
        (227, 2, 7, None, 2),
        (150, 0, 3, (8, 4, 0, 4), 3),
        (150, 3, 3, None, 3),
    ],
)
def test_ctas_with_a_tile_each_share_an_sm(
    kib: int, blocks: int, stages: int, depths: tuple[int, ...] | None, occupancy: int | None
) -> None:
    """Four where they fit with three stages each, fewer where the grid has no more; launched with as many threads."""
    made = SpecializeWarps(limit=kib << 10, blocks=blocks).run(parse_function(BEFORE))
    text = print_function(made)
    assert f"shared<{TILE},{stages}>" in text and ("producer_warps = 1" in text)
    assert (made.hints.get("deeper_stages"), made.hints.get("occupancy")) == (depths, occupancy)


def test_no_room() -> None:
    with pytest.raises(OutOfSharedMemory, match="need 16384 bytes of shared memory, and there are 7168 for them"):
        SpecializeWarps(limit=8 << 10).run(parse_function(BEFORE))
