"""Products without tensor cores read their operands from shared memory in steps along k, text in and text out."""

from __future__ import annotations

from support.gpu_text import layout
from support.passes import check

from tilewright.transforms.gpu.split_fma import SplitFma

SUM = layout([[0, 1], [0, 2], [1, 0], [2, 0]], [[0, 4], [4, 0], [0, 8], [8, 0], [0, 0]])
ROWS = layout([[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0]], [[0, 0], [4, 0], [0, 0], [8, 0], [0, 0]])
COLUMNS = layout([[1, 0], [2, 0], [4, 0], [8, 0], [0, 1], [0, 2]], [[0, 4], [0, 0], [0, 8], [0, 0], [0, 0]])
# The same for eight elements along k.
PART_OF_ROWS, PART_OF_COLUMNS = (
    t.replace("[0,8],[1,0]", "[1,0]").replace("[8,0],[0,1]", "[0,1]") for t in (ROWS, COLUMNS)
)
LEFT = "shared<f32[16,16]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[1,0],[2,0],[4,4],[8,8]]>>"
RIGHT = "shared<f32[16,16]#layout<offset = [[1,0],[2,0],[0,4],[0,8],[8,0],[0,1],[0,2],[4,0]]>>"


def text(product: str, k: int = 16) -> str:
    """A product of a tile that shared memory holds, and one that is computed."""
    return f"""
func @f() hints {{num_warps = 1}} {{
  %a = gpu.shared_alloc() {{type = !{LEFT}}} : {LEFT}
  %x = gpu.shared_load(%a) {{type = !f32[16,16]{ROWS}}} : f32[16,16]{ROWS}
  %y = constant() {{value = 2.0, type = !f32[16,16]{COLUMNS}}} : f32[16,16]{COLUMNS}
  %acc = constant() {{value = 0.0, type = !f32[16,16]{SUM}}} : f32[16,16]{SUM}
{product}
  print([%z]) {{parts = (none), formats = ("")}}
  return()
}}
"""


WHOLE = f"  %z = gpu.mma(%x, %y, %acc) {{instruction = (1, 1, 1)}} : f32[16,16]{SUM}"
STEPS = f"""
  %b = gpu.shared_alloc() {{type = !{RIGHT}}} : {RIGHT}
  gpu.shared_store(%b, %y)
  %zero = constant() {{value = 0, type = !i32}} : i32
  %steps = constant() {{value = 2, type = !i32}} : i32
  %one = constant() {{value = 1, type = !i32}} : i32
  %z = for(%zero, %steps, %one, [%acc]) : f32[16,16]{SUM} {{ ^(%k: i32, %s: f32[16,16]{SUM})
    %p = gpu.shared_extract(%a, [%zero, %k]) {{type = !f32[16,8]{PART_OF_ROWS}}} : f32[16,8]{PART_OF_ROWS}
    %q = gpu.shared_extract(%b, [%k, %zero]) {{type = !f32[8,16]{PART_OF_COLUMNS}}} : f32[8,16]{PART_OF_COLUMNS}
    %t = gpu.mma(%p, %q, %s) {{instruction = (1, 1, 1)}} : f32[16,16]{SUM}
    continue([%t])
  }}"""


def part(i: int, total: str, made: str) -> str:
    """The product of one step, without a loop."""
    return f"""
  %k{i} = constant() {{value = {i}, type = !i32}} : i32
  %p{i} = gpu.shared_extract(%a, [%zero, %k{i}]) {{type = !f32[16,8]{PART_OF_ROWS}}} : f32[16,8]{PART_OF_ROWS}
  %q{i} = gpu.shared_extract(%b, [%k{i}, %zero]) {{type = !f32[8,16]{PART_OF_COLUMNS}}} : f32[8,16]{PART_OF_COLUMNS}
  %{made} = gpu.mma(%p{i}, %q{i}, %{total}) {{instruction = (1, 1, 1)}} : f32[16,16]{SUM}"""


UNROLLED = STEPS[: STEPS.index("  %steps")] + part(0, "acc", "t") + part(1, "t", "z")


def test_an_operand_that_was_loaded_is_read_again_and_another_is_stored() -> None:
    check(SplitFma(8, most=256), text(WHOLE), text(STEPS), names=False)


def test_few_instructions_need_no_loop() -> None:
    check(SplitFma(8, most=257), text(WHOLE), text(UNROLLED), names=False)


def test_one_step_stays() -> None:
    check(SplitFma(step=16), text(WHOLE), text(WHOLE))
