"""Stores of the TMA unit go through shared memory, text in and text out."""

from __future__ import annotations

from support.gpu_text import layout
from support.passes import check

from tilewright.transforms.gpu.stage_stores import StageStores

OFFSET = "[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]"
BUFFER = f"shared<f16[64,64]#layout<offset = [{OFFSET}]>>"
RESULT = layout(
    [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], [[16, 0], [32, 0]]
)
WIDE = RESULT.replace("[0,32]]", "[0,32],[0,64]]")
HEAD = 'func @f(%p: ptr<f16> = "x".base, %n: i32 = "x".shape.0, %m: i32 = "x".shape.1, %s: i32 = "x".stride.0) hints {num_warps = 4} {'
MAP = """
  %map = gpu.tensor_map() {base = 0, shape = (("p", 1, 1), ("p", 2, 1)), strides = (("p", 3, 1), ("c", 1, 1)), \
axes = (0, 1), box = (64, 64), element = "f16", dtype = f16} : ptr<f16>"""
END = "\n  gpu.tma_store_wait()\n  return()\n}"


def tile(columns: int, where: str) -> str:
    return f"\n  %x = constant() {{value = 1.0, type = !f16[64,{columns}]{where}}} : f16[64,{columns}]{where}"


def buffer(name: str) -> str:
    return f"\n  %{name} = gpu.shared_alloc() {{type = !{BUFFER}, alignment = 1024}} : {BUFFER}"


def stored(buffer: str, value: str, start: str, pending: str, buffers: str = "") -> str:
    """Waits until ``buffer`` may be filled again, fills it, and has it stored; before the first use of ``buffers``."""
    return f"""
  gpu.tma_store_wait(){pending}{buffers}
  gpu.shared_store(%{buffer}, %{value}) {{vector = 2}}
  gpu.async_fence()START
  gpu.tma_store(%{buffer}, %map, [%n, %{start}])"""


PUT = "\n  gpu.put(%map, %x, [%n, %m]) {inner = 1}"


def test_a_tile_of_one_box() -> None:
    after = stored("a", "x", "m", "", buffer("a")).replace("START", "")
    before = HEAD + MAP + tile(64, RESULT)
    check(StageStores(), before + PUT + END, before + after + END, names=False)


def test_tiles_with_buffers_of_their_own_wait_for_these() -> None:
    """The one before may still be read."""
    first = stored("a", "x", "m", " {pending = 1}", buffer("a") + buffer("b"))
    after = (first + stored("b", "x", "m", " {pending = 1}")).replace("START", "")
    before = HEAD + MAP + tile(64, RESULT)
    check(StageStores(), before + PUT + PUT + END, before + after + END, names=False)


def test_two_buffers_take_turns() -> None:
    """One is filled while the other one is stored."""
    second = "\n  %c = constant() {value = 64, type = !i32} : i32\n  %m2 = add(%m, %c) : i32"
    both = buffer("a") + buffer("b")
    parts = "".join(
        f"\n  %{name} = gpu.part(%x) {{axis = 1, size = 64, index = {k}}} : f16[64,64]{RESULT}"
        + stored("ab"[k], name, start, " {pending = 1}", both if k == 0 else "").replace("START", second if k else "")
        for k, (name, start) in enumerate((("left", "m"), ("right", "m2")))
    )
    before = HEAD + MAP + tile(128, WIDE)
    check(StageStores(), before + PUT + END, before + parts + END, names=False)


def test_what_may_reach_the_same_tile_again_waits_for_memory() -> None:
    after = stored("a", "x", "m", " {written = true}", buffer("a")).replace("START", "")
    before = HEAD + MAP + tile(64, RESULT)
    put = PUT.replace("inner = 1", "inner = 1, after_stores = true")
    check(StageStores(), before + put + END, before + after + END, names=False)


def test_operands_of_products_have_a_buffer_of_their_own() -> None:
    staged = f"\n  %y = gpu.stage_operand(%x, _) {{type = !{BUFFER}}} : {BUFFER}"
    used = f"\n  %l = gpu.shared_load(%y) {{type = !f16[64,64]{RESULT}}} : f16[64,64]{RESULT}"
    after = "\n  gpu.shared_store(%y, %x) {vector = 2}\n  gpu.async_fence()"
    check(StageStores(), HEAD + tile(64, RESULT) + staged + used + END, HEAD + tile(64, RESULT) + buffer("y") + after + used + END, names=False)  # fmt: skip


def test_operands_may_be_outside_of_the_branch_that_stores() -> None:
    staged = f"\n  %y = gpu.stage_operand(%x, _) {{type = !{BUFFER}}} : {BUFFER}"
    used = f"\n  %l = gpu.shared_load(%y) {{type = !f16[64,64]{RESULT}}} : f16[64,64]{RESULT}"
    condition = "\n  %b = cmp(%n, %m) {predicate = CmpPredicate.LT} : i1\n  if(%b) {types = ()} {"
    end = "\n  yield([])\n } {\n  yield([])\n }"
    copied = stored("a", "x", "m", "", buffer("a")).replace("START", "")
    before = HEAD + MAP + tile(64, RESULT) + condition + PUT + end + staged + used + END
    put_there = "\n  gpu.shared_store(%y, %x) {vector = 2}\n  gpu.async_fence()"
    after = HEAD + MAP + tile(64, RESULT) + condition + copied + end + buffer("y") + put_there + used + END
    check(StageStores(), before, after, names=False)


def test_operands_lie_where_they_were_fetched_to() -> None:
    staged = f"\n  %y = gpu.stage_operand(%x, %f) {{type = !{BUFFER}}} : {BUFFER}"
    after = (
        f"\n  %z = constant() {{value = 0, type = !i32}} : i32\n  %y = gpu.shared_copy(%f, %z) {{type = !{BUFFER}}} : {BUFFER}"
        "\n  gpu.shared_store(%y, %x) {vector = 2}\n  gpu.async_fence()"
    )
    before = HEAD + buffer("f") + tile(64, RESULT)
    check(StageStores(), before + staged + END, before + after + END, names=False)


def test_results_may_lie_where_operands_were() -> None:
    """Their buffers begin with the first store, not with the first operand."""
    staged = f"\n  %y = gpu.stage_operand(%x, _) {{type = !{BUFFER}}} : {BUFFER}"
    used = f"\n  %l = gpu.shared_load(%y) {{type = !f16[64,64]{RESULT}}} : f16[64,64]{RESULT}"
    operand = buffer("y") + "\n  gpu.shared_store(%y, %x) {vector = 2}\n  gpu.async_fence()"
    result = stored("a", "x", "m", "", buffer("a")).replace("START", "")
    before = HEAD + MAP + tile(64, RESULT)
    check(StageStores(), before + staged + used + PUT + END, before + operand + used + result + END, names=False)


def test_what_is_added_has_a_buffer_of_its_own() -> None:
    added, stored_before = PUT.replace("{inner = 1}", "{inner = 1, adds = true}"), HEAD + MAP + tile(64, RESULT)
    first = stored("a", "x", "m", "", buffer("a")).replace("START", "").replace("[%n, %m])", "[%n, %m]) {adds = true}")
    second = stored("b", "x", "m", "", buffer("b")).replace("START", "")
    check(StageStores(), stored_before + added + PUT + END, stored_before + first + second + END, names=False)
