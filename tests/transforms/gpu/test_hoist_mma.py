"""MMA ops of warp groups that wait for no other one begin beside the first: text in and text out.

That kernels compute the same, and that no sum is used too early, is tested in ``backends/gpu/test_attention_backward.py``.
"""

from __future__ import annotations

import pytest
from support.passes import check

from tilewright.transforms.gpu.hoist_mma import HoistMma

TILE = "f32[64,64]#layout<register = [[0,1],[8,0],[0,8],[0,16],[0,32]], lane = [[0,2],[0,4],[1,0],[2,0],[4,0]], \
warp = [[16,0],[32,0]]>"
HALF = TILE.replace("f32", "f16")
ROWS = "shared<f16[64,64]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]]>>"
COLUMNS = ROWS.replace("[[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]]",
                       "[[1,0],[2,0],[4,0],[8,0],[16,0],[32,0],[8,1],[16,2],[32,4],[0,8],[0,16],[0,32]]")  # fmt: skip
MAP = """gpu.tensor_map() {base = 0, shape = (("p", 1, 1), ("p", 2, 1)), strides = (("p", 3, 1), ("c", 1, 1)), \
axes = (0, 1), box = (64, 64), element = "f16", dtype = f16} : ptr<f16>"""


def fetched(name: str, at: str, kind: str) -> str:
    return f"""
    %{name} = gpu.fetch(%map, [%{at}, %zero], _) {{type = !{kind}}} : {kind}"""


HEAD = f"""
func @gradient(%q: ptr<f16> = "q".base, %rows: i32 = "q".shape.0, %columns: i32 = "q".shape.1, %step: i32 = "q".stride.0,
               %n: i32 = "n".scalar) hints {{num_warps = WARPS}} {{
  %map = {MAP}
  %zero = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %none = constant() {{value = 0.0, type = !{TILE}}} : {TILE}
  %x = gpu.fetch(%map, [%zero, %zero], _) {{type = !{ROWS}}} : {ROWS}
  %sums, %others = for(%zero, %n, %one, [%none, %none]) : {TILE}, {TILE} {{ ^(%j: i32, %sum: {TILE}, %other: {TILE})"""
FIRST = f"""{fetched("y", "j", COLUMNS)}
    %scores = gpu.wgmma(%x, %y, %none) : {TILE}"""
WEIGHTS = f"""
    %weights = exp(%scores) : {TILE}
    %left = cast(%weights) {{dtype = f16}} : {HALF}{fetched("z", "j", ROWS)}
    %next = gpu.wgmma(%left, %z, %sum) : {TILE}"""
CHANGE = f"""
    %at = add(%j, %one) : i32{fetched("u", "at", COLUMNS)}
    %change = gpu.wgmma(%x, %u, %none) : {TILE}"""
REST = f"""
    %product = mul(%weights, %change) : {TILE}
    %right = cast(%product) {{dtype = f16}} : {HALF}{fetched("v", "j", ROWS)}
    %last = gpu.wgmma(%right, %v, %other) : {TILE}
    continue([%next, %last])
  }}
  return()
}}
"""
BEFORE = HEAD + FIRST + WEIGHTS + CHANGE + REST


def kernel(text: str, warps: int = 4) -> str:
    return text.replace("WARPS", str(warps))


def test_what_waits_for_nothing_begins_beside_the_first() -> None:
    check(HoistMma(), kernel(BEFORE), kernel(HEAD + FIRST + CHANGE + WEIGHTS + REST))


def test_a_sum_is_seen_before_it_is_added_to() -> None:
    """An MMA op behind what takes its accumulators needs them as they were."""
    seen = f"""
    %old = cast(%other) {{dtype = f16}} : {HALF}{fetched("w", "one", ROWS)}
    %state = gpu.wgmma(%old, %w, %none) : {TILE}{fetched("v", "zero", ROWS)}
    %last = gpu.wgmma(%x, %v, %other) : {TILE}"""
    end = REST[REST.index("\n    continue") :]
    check(HoistMma(), kernel(HEAD + FIRST + WEIGHTS + seen + end), kernel(HEAD + FIRST + seen + WEIGHTS + end))


def test_fetches_of_a_tile_stay_together() -> None:
    """Such as of what MMA ops read in both directions, which is fetched once."""
    both = CHANGE.replace(fetched("u", "at", COLUMNS), fetched("u", "at", COLUMNS) + fetched("t", "at", ROWS))
    between = WEIGHTS.replace(fetched("z", "j", ROWS), "").replace("%z", "%t")
    before = HEAD + FIRST + "\n    %at = add(%j, %one) : i32" + fetched("t", "at", ROWS) + between
    before += CHANGE.replace("\n    %at = add(%j, %one) : i32", "") + REST
    after = HEAD + FIRST + "\n    %at = add(%j, %one) : i32" + fetched("t", "at", ROWS)
    after += both[both.index("\n    %u =") :].replace(fetched("t", "at", ROWS), "") + between + REST
    check(HoistMma(), kernel(before), kernel(after))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gpu.wgmma(%x, %u, %none)", "gpu.wgmma(%left, %u, %none)"),  # what follows from the first one
        ("gpu.wgmma(%x, %u, %none)", "gpu.wgmma(%x, %u, %next)"),  # added to what waits for it
    ],
)
def test_others_stay(old: str, new: str) -> None:
    assert BEFORE.count(old) == 1
    before = kernel(BEFORE.replace(old, new))
    check(HoistMma(), before, before)


NUMBER = 'i32 = "n".scalar'
FIND = "\n    %at = gpu.load(%numbers, _, _) : i32"
ADD = """
    %old = atomic_rmw(%numbers, %one, _) {kind = AtomicKind.ADD, memory_order = MemoryOrder.RELAXED, \
memory_scope = MemoryScope.DEVICE} : i32"""
STORE = """
    if(%wanted) {types = ()} {
      gpu.store(%numbers, %one, _)
      yield([])
    } {
      yield([])
    }"""


@pytest.mark.parametrize(("between", "moves"), [("", True), (ADD, False), (STORE, False)])
def test_loads_stay_behind_what_may_write(between: str, moves: bool) -> None:
    """Where an MMA op needs a number that an atomic or a branch in front of it may have changed, it stays as well."""
    found = CHANGE.replace("\n    %at = add(%j, %one) : i32", FIND)
    given = f'{NUMBER}, %numbers: ptr<i32> = "numbers".base, %wanted: i1 = "wanted".scalar'
    before, after = (
        kernel(HEAD + FIRST + text + REST).replace(NUMBER, given)
        for text in (WEIGHTS + between + found, found + WEIGHTS + between)
    )
    check(HoistMma(), before, after if moves else before)


def test_blocks_whose_sums_fill_the_registers_stay() -> None:
    """Eight sums of 32 registers of each thread, and an operand."""
    more = "".join(f"\n    %more{k} = gpu.wgmma(%x, %y, %none) : {TILE}" for k in range(4))
    seen = "".join(f"\n    %seen{k} = exp(%more{k}) : {TILE}" for k in range(4))
    before = kernel(HEAD + FIRST + more + WEIGHTS + CHANGE + seen + REST)
    check(HoistMma(), before, before)
    last = f"\n    %seen = exp(%more3) : {TILE}"  # while that is waited for, registers suffice for no other one
    before = kernel(HEAD + FIRST + WEIGHTS + more + last + CHANGE + REST)
    check(HoistMma(), before, before)
    rest = REST.replace("%v, %other", "%v, %none")  # but where one sum less is carried
    before = kernel(HEAD + FIRST + WEIGHTS + more + last + CHANGE + rest)
    check(HoistMma(), before, kernel(HEAD + FIRST + WEIGHTS + more + CHANGE + last + rest))


def test_the_last_sum_has_the_registers_of_those_before() -> None:
    """Seven sums and an operand, of which the last one begins when others have ended, if it adds to nothing."""
    more = "".join(f"\n    %more{k} = gpu.wgmma(%x, %y, %none) : {TILE}" for k in range(3))
    seen = "".join(f"\n    %seen{k} = exp(%more{k}) : {TILE}" for k in range(3))
    before = kernel(HEAD + FIRST + more + WEIGHTS + CHANGE + seen + REST)
    check(HoistMma(), before, before)
    rest = REST.replace("%v, %other", "%v, %none")
    before = kernel(HEAD + FIRST + more + WEIGHTS + CHANGE + seen + rest)
    check(HoistMma(), before, kernel(HEAD + FIRST + more + CHANGE + WEIGHTS + seen + rest))


def test_what_is_carried_begins_before_what_is_stored_is_waited_for() -> None:
    put = f"\n    %seen = cast(%change) {{dtype = f16}} : {HALF}\n    gpu.put(%map, %seen, [%j, %zero]) {{inner = 1}}"
    end = f"""{fetched("v", "j", ROWS)}
    %last = gpu.wgmma(%left, %v, %other) : {TILE}""" + REST[REST.index("\n    continue") :]
    late = CHANGE.replace("%x, %u", "%left, %u")  # which follows from the first one
    next_ = WEIGHTS[WEIGHTS.index("\n    %next") :]  # begins behind what is stored
    before, after = HEAD + FIRST + WEIGHTS + late, HEAD + FIRST + WEIGHTS.replace(next_, "") + late + next_
    check(HoistMma(), kernel(before + put + end), kernel(after + end.replace("\n    continue", put + "\n    continue")))


def test_what_leaves_the_block_runs_beside_what_is_stored() -> None:
    """It would be in the way of the MMA op whose result is stored."""
    put = "\n    gpu.put(%map, %left, [%j, %zero]) {inner = 1}"
    end = REST[REST.index("\n    continue") :].replace("%last", "%change")
    before = HEAD + FIRST + WEIGHTS + CHANGE.replace("%none", "%other") + put + end
    check(HoistMma(), kernel(before), kernel(before))
    moved = HEAD + FIRST + CHANGE.replace("%none", "%other") + WEIGHTS + end
    check(HoistMma(), kernel(before.replace(put, "")), kernel(moved))


@pytest.mark.parametrize("again", [False, True])
def test_what_is_exchanged_through_memory_of_its_own_goes_along(again: bool) -> None:
    """Where something else is stored there, too, the load would see that."""
    memory = ROWS.replace("f16", "f32")
    exchange = f"""
    %memory = gpu.shared_alloc() {{type = !{memory}}} : {memory}
    gpu.shared_store(%memory, %none) {{vector = 2}}
    %found = gpu.shared_load(%memory) {{type = !{TILE}, vector = 2}} : {TILE}
    %scaled = add(%other, %found) : {TILE}"""
    after = "\n    gpu.shared_store(%memory, %other) {vector = 2}" if again else ""
    change = CHANGE.replace("%none", "%scaled")
    moved = exchange + change + WEIGHTS + REST
    stays = WEIGHTS + exchange + change + after + REST
    check(HoistMma(), kernel(HEAD + FIRST + stays), kernel(HEAD + FIRST + (stays if again else moved)))
