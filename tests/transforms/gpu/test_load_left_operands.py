"""MMA ops in flight with a left operand that threads load are divided in two: text in and text out.

That products are right, and that registers stay as they are, is tested in ``backends/gpu/test_left_operands.py``.
"""

from __future__ import annotations

from support.passes import check

from tilewright.transforms.gpu.load_left_operands import LoadLeftOperands

SUM = "f32[64,64]#layout<register = [[0,1],[8,0],[0,8],[0,16],[0,32]], lane = [[0,2],[0,4],[1,0],[2,0],[4,0]], \
warp = [[16,0],[32,0]]>"
X, HALF = (SUM.replace("f32[64,64]", f"bf16[64,{k}]").replace(f",[0,{k}]", "") for k in (64, 32))
ROWS = "shared<bf16[64,64]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]]>>"
HEAD = f"""
func @relu(%n: i32 = "n".scalar) hints {{num_warps = 4}} {{
  %zero = constant() {{value = 0, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %none = constant() {{value = 0.0, type = !{SUM}}} : {SUM}
  %zeros = constant() {{value = 0.0, type = !{X}}} : {X}
  %a = gpu.shared_alloc() {{type = !{ROWS}, alignment = 1024}} : {ROWS}
  %b = gpu.shared_alloc() {{type = !{ROWS}, alignment = 1024}} : {ROWS}"""
BEFORE = f"""
  %sum = for(%zero, %n, %one, [%none]) : {SUM} {{ ^(%k: i32, %total: {SUM})
    %x = gpu.shared_load(%a) {{type = !{X}, vector = 2}} : {X}
    %left = max(%x, %zeros) : {X}
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
    return f"""
    %i{index} = constant() {{value = 0, type = !i32}} : i32
    %k{index} = constant() {{value = {index}, type = !i32}} : i32
    %x{index} = gpu.shared_extract(%a, [%i{index}, %k{index}]) {{type = !{HALF}}} : {HALF}
    %z{index} = gpu.part(%zeros) {{axis = 1, size = 32, index = {index}}} : {HALF}
    %left{index} = max(%x{index}, %z{index}) : {HALF}
    %next{index} = gpu.wgmma(%left{index}, %b, %{total}) {{pending = none{f", first = {32 * index}" if index else ""}}} : {SUM}
    gpu.wgmma_wait([], [%{held}], []) {{pending = 1}}"""


AFTER = f"""
  %first = constant() {{value = 0.0, type = !{HALF}}} : {HALF}
  %sum, %last = for(%zero, %n, %one, [%none, %first]) : {SUM}, {HALF} {{ ^(%k: i32, %total: {SUM}, %reading: {HALF}){half(0, "total", "reading")}{half(1, "next0", "left0")}
    continue([%next1, %left1])
  }}
  %done = gpu.wgmma_wait([%sum], [%last], []) : {SUM}"""


def test_a_half_is_loaded_while_the_other_one_is_multiplied() -> None:
    check(LoadLeftOperands(), HEAD + BEFORE + TAIL, HEAD + AFTER + TAIL, names=False)


def test_what_is_waited_for_at_once_stays_whole() -> None:
    text = HEAD + BEFORE.replace("pending = 1", "pending = 0") + TAIL
    check(LoadLeftOperands(), text, text)
