"""MMA ops in flight with a left operand that threads load are divided in two: text in and text out.

That products are right, and that registers stay as they are, is tested in ``backends/gpu/test_left_operands.py``.
"""

from __future__ import annotations

from support.passes import check

from tilewright.transforms.gpu.load_left_operands import LoadLeftOperands

# Rows 4 and 16 change places, so that lanes load from different banks.
THREADS = "lane = [[0,{0}],[0,{1}],[1,0],[2,0],[16,0]], warp = [[4,0],[32,0]]>"
SUM = "f32[64,64]#layout<register = [[0,1],[8,0],[0,8],[0,16],[0,32]], " + THREADS.format(2, 4)
X = "tf32[64,32]#layout<register = [[8,0],[0,4],[0,8],[0,16]], " + THREADS.format(1, 2)
HALF = X.replace("[64,32]", "[64,16]").replace(",[0,16]", "")
LOADED = "tf32[32,64]#layout<register = [[0,8],[4,0],[8,0],[16,0]], lane = [[1,0],[2,0],[0,1],[0,2],[0,16]], \
warp = [[0,4],[0,32]]>"
PART = LOADED.replace("[32,64]", "[16,64]").replace(",[16,0]]", "]")
A = "shared<tf32[32,64]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[0,16],[1,4],[2,8],[4,16],[8,0],[16,0],[0,32]]>>"
B = "shared<tf32[32,64]#layout<offset = [[1,0],[2,0],[4,0],[8,0],[16,0],[4,1],[8,2],[16,4],[0,8],[0,16],[0,32]]>>"
HEAD = f"""
func @product(%n: i32 = "n".scalar) hints {{num_warps = 4}} {{
  %zero = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %none = constant() {{value = 0.0, type = !{SUM}}} : {SUM}
  %a = gpu.shared_alloc() {{type = !{A}, alignment = 1024}} : {A}
  %b = gpu.shared_alloc() {{type = !{B}, alignment = 1024}} : {B}"""
BEFORE = f"""
  %sum = for(%zero, %n, %one, [%none]) : {SUM} {{ ^(%k: i32, %total: {SUM})
    %x = gpu.shared_load(%a) {{type = !{LOADED}}} : {LOADED}
    %left = permute(%x) {{axes = (1, 0)}} : {X}
    %next = gpu.wgmma(%left, %b, %total) {{pending = 1}} : {SUM}
    continue([%next])
  }}
  %done = gpu.wgmma_wait([%sum], [], []) : {SUM}"""
TAIL = """
  print([%done]) {parts = (none), formats = ("")}
  return()
}
"""


def half(index: int, total: str, held: str) -> str:
    first = f", first = {16 * index}" if index else ""
    return f"""
    %k{index} = constant() {{value = {index}, type = !i32}} : i32
    %m{index} = constant() {{value = 0, type = !i32}} : i32
    %x{index} = gpu.shared_extract(%a, [%k{index}, %m{index}]) {{type = !{PART}}} : {PART}
    %left{index} = permute(%x{index}) {{axes = (1, 0)}} : {HALF}
    %next{index} = gpu.wgmma(%left{index}, %b, %{total}) {{pending = none{first}}} : {SUM}
    gpu.wgmma_wait([], [%{held}], []) {{pending = 1}}"""


AFTER = f"""
  %first = constant() {{value = 0.0, type = !{HALF}}} : {HALF}
  %sum, %last = for(%zero, %n, %one, [%none, %first]) : {SUM}, {HALF} {{ ^(%k: i32, %total: {SUM}, %reading: {HALF})\
{half(0, "total", "reading")}{half(1, "next0", "left0")}
    continue([%next1, %left1])
  }}
  %done = gpu.wgmma_wait([%sum], [%last], []) : {SUM}"""


def test_a_half_is_loaded_while_the_other_one_is_multiplied() -> None:
    check(LoadLeftOperands(), HEAD + BEFORE + TAIL, HEAD + AFTER + TAIL, names=False)


THREADS = "lane = [[0,2],[0,4],[1,0],[2,0],[4,0]], warp = [[16,0],[32,0]]>"
SUM16 = "f32[64,64]#layout<register = [[0,1],[8,0],[0,8],[0,16],[0,32]], " + THREADS
X16 = SUM16.replace("f32", "bf16")
HALF16 = X16.replace("[64,64]", "[64,32]").replace(",[0,32]", "")
ROWS = "shared<bf16[64,64]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]]>>"
HEAD16 = HEAD.replace(SUM, SUM16).replace(A, ROWS).replace(B, ROWS).replace(
    "\n  %a =", f"\n  %none_left = constant() {{value = 0.0, type = !{X16}}} : {X16}\n  %a ="
)  # fmt: skip
COMPUTED = f"""
  %sum = for(%zero, %n, %one, [%none]) : {SUM16} {{ ^(%k: i32, %total: {SUM16})
    %x = gpu.shared_load(%a) {{type = !{X16}, vector = 2}} : {X16}
    %left = max(%x, %none_left) : {X16}
    %next = gpu.wgmma(%left, %b, %total) {{pending = 1}} : {SUM16}
    continue([%next])
  }}
  %done = gpu.wgmma_wait([%sum], [], []) : {SUM16}"""


def computed_half(index: int, total: str, held: str) -> str:
    first = f", first = {32 * index}" if index else ""
    return f"""
    %m{index} = constant() {{value = 0, type = !i32}} : i32
    %k{index} = constant() {{value = {index}, type = !i32}} : i32
    %x{index} = gpu.shared_extract(%a, [%m{index}, %k{index}]) {{type = !{HALF16}}} : {HALF16}
    %p{index} = gpu.part(%none_left) {{axis = 1, size = 32, index = {index}}} : {HALF16}
    %left{index} = max(%x{index}, %p{index}) : {HALF16}
    %next{index} = gpu.wgmma(%left{index}, %b, %{total}) {{pending = none{first}}} : {SUM16}
    gpu.wgmma_wait([], [%{held}], []) {{pending = 1}}"""


COMPUTED_AFTER = f"""
  %first = constant() {{value = 0.0, type = !{HALF16}}} : {HALF16}
  %sum, %last = for(%zero, %n, %one, [%none, %first]) : {SUM16}, {HALF16} {{
    ^(%k: i32, %total: {SUM16}, %reading: {HALF16})\
{computed_half(0, "total", "reading")}{computed_half(1, "next0", "left0")}
    continue([%next1, %left1])
  }}
  %done = gpu.wgmma_wait([%sum], [%last], []) : {SUM16}"""


def test_a_half_is_computed_while_the_other_one_is_multiplied() -> None:
    check(LoadLeftOperands(), HEAD16 + COMPUTED + TAIL, HEAD16 + COMPUTED_AFTER + TAIL, names=False)


def test_what_something_else_sees_stays_whole() -> None:
    text = (
        HEAD16
        + COMPUTED.replace("    continue", '    print([%left]) {parts = (none), formats = ("")}\n    continue')
        + TAIL
    )
    check(LoadLeftOperands(), text, text)


def test_what_is_waited_for_at_once_stays_whole() -> None:
    text = HEAD + BEFORE.replace("pending = 1", "pending = 0") + TAIL
    check(LoadLeftOperands(), text, text)
