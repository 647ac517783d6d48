"""Products in the shape that warp groups multiply: of one pair of matrices, and of few rows; text in and text out."""

from __future__ import annotations

from support.passes import check

from tilewright.transforms.gpu.transpose_mma import DropUnitBatches, TransposeMma

HEAD = """
func @f(%n: i32 = "n".scalar, %p: ptr<f32> = "p".base) {
  %o = constant() {value = 0, type = !i32} : i32
  %one = constant() {value = 1, type = !i32} : i32
  %x = constant() {value = 1.0, type = !f16[1,16,32]} : f16[1,16,32]
  %y = constant() {value = 1.0, type = !f16[1,32,8]} : f16[1,32,8]
  %z = constant() {value = 0.0, type = !f32[1,16,8]} : f32[1,16,8]
"""


def test_a_loop_carries_the_sum_without_its_first_axis() -> None:
    check(
        DropUnitBatches(),
        HEAD
        + """  %s, %count = for(%o, %n, %one, [%z, %o]) : f32[1,16,8], i32 { ^(%k: i32, %t: f32[1,16,8], %i: i32)
    %m = mma(%x, %y, %t) : f32[1,16,8]
    %j = add(%i, %one) : i32
    continue([%m, %j])
  }
  %c = cast(%s) {dtype = f16} : f16[1,16,8]
  return()
}
""",
        HEAD
        + """  %0 = reshape(%z) {shape = (16, 8)} : f32[16,8]
  %1, %2 = for(%o, %n, %one, [%0, %o]) : f32[16,8], i32 { ^(%k: i32, %t: f32[16,8], %i: i32)
    %3 = reshape(%t) {shape = (1, 16, 8)} : f32[1,16,8]
    %4 = reshape(%x) {shape = (16, 32)} : f16[16,32]
    %5 = reshape(%y) {shape = (32, 8)} : f16[32,8]
    %6 = reshape(%3) {shape = (16, 8)} : f32[16,8]
    %7 = mma(%4, %5, %6) : f32[16,8]
    %8 = reshape(%7) {shape = (1, 16, 8)} : f32[1,16,8]
    %j = add(%i, %one) : i32
    %9 = reshape(%8) {shape = (16, 8)} : f32[16,8]
    continue([%9, %j])
  }
  %10 = reshape(%1) {shape = (1, 16, 8)} : f32[1,16,8]
  %c = cast(%10) {dtype = f16} : f16[1,16,8]
  return()
}
""",
    )


def test_batches_of_several_stay() -> None:
    text = HEAD.replace("[1,", "[2,") + "  %m = mma(%x, %y, %z) : f32[2,16,8]\n  return()\n}\n"
    check(DropUnitBatches(), text, text)


VIEW = "view<f16,[256,256],[256,1],i32>"


def program(rows: int, columns: int, body: str) -> str:
    views = "\n".join(
        f"  %{name} = make_partition_view(%v) {{type = !{partition(shape)}}} : {partition(shape)}"
        for name, shape in (("a", (rows, 32)), ("b", (32, columns)))
    )
    return f"""
func @f(%p: ptr<f16> = "x".base) {{
  %o = constant() {{value = 0, type = !i32}} : i32
  %z = constant() {{value = 0.0, type = !f32[{rows},{columns}]}} : f32[{rows},{columns}]
  %v = make_tensor_view(%p, [], []) {{type = !{VIEW}}} : {VIEW}
{views}
  %x = load_view(%a, [%o, %o]) {{in_bounds = (false, false)}} : f16[{rows},32]
  %y = load_view(%b, [%o, %o]) {{in_bounds = (false, false)}} : f16[32,{columns}]
{body}
  return()
}}
"""


def partition(shape: tuple[int, int]) -> str:
    extents = ",".join(map(str, shape))
    return f"partition<{VIEW},[{extents}],[0,1],zero,[{extents}]>"


def test_few_rows_become_columns() -> None:
    check(
        TransposeMma(),
        program(16, 64, '  %m = mma(%x, %y, %z) : f32[16,64]\n  print([%m]) {parts = (none), formats = ("")}'),
        program(
            16,
            64,
            """  %0 = permute(%y) {axes = (1, 0)} : f16[64,32]
  %1 = permute(%x) {axes = (1, 0)} : f16[32,16]
  %2 = permute(%z) {axes = (1, 0)} : f32[64,16]
  %3 = mma(%0, %1, %2) : f32[64,16]
  %4 = permute(%3) {axes = (1, 0)} : f32[16,64]
  print([%4]) {parts = (none), formats = ("")}""",
        ),
    )


def test_computed_columns_become_rows() -> None:
    """Of one tile: of several, threads would have to load them all."""
    squares = "  %w = mul(%y, %y) : f16[32,64]\n"
    shown = '\n  print([%m]) {parts = (none), formats = ("")}'
    check(
        TransposeMma(),
        program(16, 64, squares + "  %m = mma(%x, %w, %z) : f32[16,64]" + shown),
        program(
            16,
            64,
            squares
            + """  %0 = permute(%w) {axes = (1, 0)} : f16[64,32]
  %1 = permute(%x) {axes = (1, 0)} : f16[32,16]
  %2 = permute(%z) {axes = (1, 0)} : f32[64,16]
  %3 = mma(%0, %1, %2) : f32[64,16]
  %4 = permute(%3) {axes = (1, 0)} : f32[16,64]"""
            + shown.replace("%m", "%4"),
        ),
    )
    two = (
        "  %v2 = load_view(%b, [%o, %o]) {in_bounds = (false, false)} : f16[32,64]\n  %w = mul(%y, %v2) : f16[32,64]\n"
    )
    text = program(16, 64, two + "  %m = mma(%x, %w, %z) : f32[16,64]" + shown)
    check(TransposeMma(), text, text)


def test_rows_for_a_warp_group_stay() -> None:
    text = program(64, 64, '  %m = mma(%x, %y, %z) : f32[64,64]\n  print([%m]) {parts = (none), formats = ("")}')
    check(TransposeMma(), text, text)


COMPUTED = """  %one = constant() {value = 1, type = !i32} : i32
  %s = for(%o, %one, %one, [%z]) : f32[64,64] { ^(%k: i32, %t: f32[64,64])
    %u = load_view(%b, [%k, %o]) {in_bounds = (false, false)} : f16[32,64]
    %w = add(%u, %u) : f16[32,64]
"""
COMPUTED_AFTER = '\n  }\n  print([%SUM]) {parts = (none), formats = ("")}'


def test_right_operands_that_are_computed_become_left_ones() -> None:
    check(
        TransposeMma(registers=True),
        program(
            64,
            64,
            COMPUTED + "    %m = mma(%x, %w, %t) : f32[64,64]\n    continue([%m])" + COMPUTED_AFTER.replace("SUM", "s"),
        ),
        program(
            64,
            64,
            COMPUTED.replace(
                "  %s = for(%o, %one, %one, [%z]) : f32[64,64] { ^(%k: i32, %t: f32[64,64])\n",
                "  %0 = permute(%z) {axes = (1, 0)} : f32[64,64]\n"
                "  %1 = for(%o, %one, %one, [%0]) : f32[64,64] { ^(%k: i32, %t: f32[64,64])\n"
                "    %2 = permute(%t) {axes = (1, 0)} : f32[64,64]\n",
            )
            + """    %3 = permute(%w) {axes = (1, 0)} : f16[64,32]
    %4 = permute(%x) {axes = (1, 0)} : f16[32,64]
    %5 = permute(%2) {axes = (1, 0)} : f32[64,64]
    %6 = mma(%3, %4, %5) : f32[64,64]
    %7 = permute(%6) {axes = (1, 0)} : f32[64,64]
    %8 = permute(%7) {axes = (1, 0)} : f32[64,64]
    continue([%8])
  }
  %9 = permute(%1) {axes = (1, 0)} : f32[64,64]
  print([%9]) {parts = (none), formats = ("")}""",
        ),
    )


WEIGHTS = """
  %m = mma(%x, %y, %z) : f32[16,64]
  %w = cast(%m) {dtype = f16} : f16[16,64]
"""
VALUES = f"""
  %c = make_partition_view(%v) {{type = !{partition((64, 64))}}} : {partition((64, 64))}
  %u = load_view(%c, [%o, %o]) {{in_bounds = (false, false)}} : f16[64,64]
"""
SHOWN = '  print([%t]) {parts = (none), formats = ("")}'


def test_few_queries_of_attention_become_columns() -> None:
    """The weights, which are computed, are the right operand of the second product then."""
    check(
        TransposeMma(),
        program(16, 64, VALUES + WEIGHTS + "  %t = mma(%w, %u, %z) : f32[16,64]\n" + SHOWN),
        program(
            16,
            64,
            VALUES
            + """  %0 = permute(%y) {axes = (1, 0)} : f16[64,32]
  %1 = permute(%x) {axes = (1, 0)} : f16[32,16]
  %2 = permute(%z) {axes = (1, 0)} : f32[64,16]
  %3 = mma(%0, %1, %2) : f32[64,16]
  %4 = permute(%3) {axes = (1, 0)} : f32[16,64]
  %w = cast(%4) {dtype = f16} : f16[16,64]
  %5 = permute(%u) {axes = (1, 0)} : f16[64,64]
  %6 = permute(%w) {axes = (1, 0)} : f16[64,16]
  %7 = permute(%z) {axes = (1, 0)} : f32[64,16]
  %8 = mma(%5, %6, %7) : f32[64,16]
  %9 = permute(%8) {axes = (1, 0)} : f32[16,64]
"""
            + SHOWN.replace("%t", "%9"),
        ),
    )


def test_what_has_a_computed_right_operand_stays() -> None:
    text = program(
        16, 64, WEIGHTS + "  %a2 = mma(%x, %y, %m) : f32[16,64]\n  %r = permute(%w) {axes = (1, 0)} : f16[64,16]\n"
        "  %s = constant() {value = 0.0, type = !f32[16,16]} : f32[16,16]\n"
        "  %t = mma(%w, %r, %s) : f32[16,16]\n" + SHOWN
    )  # fmt: skip
    check(TransposeMma(), text, text)
