"""Products that warp groups multiply, with operands that the TMA unit copies, text in and text out."""

from __future__ import annotations

import pytest
from support.passes import check

from tilewright.analysis.gpu.target import parse_target
from tilewright.ir.gpu_stage import WGMMA_REFUSED, WGMMA_WARPS
from tilewright.ir.ops.gpu.tma import Put
from tilewright.ir.ops.memory import StoreView
from tilewright.ir.parser import parse_function
from tilewright.transforms.gpu.choose_wgmma import ChooseWgmma

CHOOSE = ChooseWgmma(parse_target("sm_90"))
VIEW = "view<f16,[?,?],[?,1],i32>"
TILES = f"partition<{VIEW},[64,64],[0,1],zero,[64,64]>"
PARAMETERS = (
    '%p: ptr<f16> = "x".base, %m: i32 = "x".shape.0, %n: i32 = "x".shape.1, %s: i32 = "x".stride.0, '
    '%q: ptr<f16> = "y".base, %mq: i32 = "y".shape.0, %nq: i32 = "y".shape.1, %sq: i32 = "y".stride.0'
)
ARRAYS = f"""
  %a = assume_divisible(%p) {{divisor = 16}} : ptr<f16>
  %d = assume_divisible(%s) {{divisor = 16}} : i32
  %b = assume_divisible(%q) {{divisor = 16}} : ptr<f16>
  %e = assume_divisible(%sq) {{divisor = 16}} : i32
  %h = assume_divisible(%nq) {{divisor = 16}} : i32
  %u = make_tensor_view(%a, [%m, %n], [%d]) {{type = !{VIEW}}} : {VIEW}
  %in = make_partition_view(%u) {{type = !{TILES}}} : {TILES}
  %v = make_tensor_view(%b, [%mq, %h], [%e]) {{type = !{VIEW}}} : {VIEW}
  %out = make_partition_view(%v) {{type = !{TILES}}} : {TILES}
  %zero = constant() {{value = 0, type = !i32}} : i32
  %z = constant() {{value = 0.0, type = !f32[64,64]}} : f32[64,64]"""
PRODUCT = """
  %x = load_view(%in, [%m, %n]) {in_bounds = (false, false)} : f16[64,64]
  %l = load_view(%in, [%n, %m]) {in_bounds = (false, false)} : f16[64,64]
  %y = permute(%l) {axes = (1, 0)} : f16[64,64]
  %w = mma(%x, %y, %z) : f32[64,64]"""
STORE = """
  %r = cast(%w) {dtype = f16} : f16[64,64]
  store_view(%out, %r, [%zero, %zero]) {in_bounds = (false, false)}"""


def text(*parts: str, maps: str = "", hints: str = "") -> str:
    return f"func @f({PARAMETERS}){hints} {{{maps}{''.join(parts)}\n  return()\n}}"


# 64 rows of 64 elements along k, swizzled; the right operand is the transposed tile.
ROWS = "shared<f16[64,64]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0],[32,0]]>>"
COLUMNS = "shared<f16[64,64]#layout<offset = [[1,0],[2,0],[4,0],[8,0],[16,0],[32,0],[8,1],[16,2],[32,4],[0,8],[0,16],[0,32]]>>"


def tensor_map(name: str, base: int) -> str:
    return (
        f'\n  %{name} = gpu.tensor_map() {{base = {base}, shape = (("p", {base + 1}, 1), ("p", {base + 2}, 1)), '
        f'strides = (("p", {base + 3}, 1), ("c", 1, 1)), axes = (0, 1), box = (64, 64), element = "f16", dtype = f16}} : ptr<f16>'
    )


def start(name: str, index: str) -> str:
    """The coordinate of the tile at ``index``, which is outside of every array where it has no 32 bits."""
    return f"""
  %i{name} = cast(%{index}) {{dtype = i64}} : i64
  %c{name} = constant() {{value = 64, type = !i64}} : i64
  %w{name} = mul(%i{name}, %c{name}) : i64
  %n{name} = cast(%w{name}) {{dtype = i32}} : i32
  %a{name} = cast(%n{name}) {{dtype = i64}} : i64
  %e{name} = cmp(%a{name}, %w{name}) {{predicate = CmpPredicate.EQ}} : i1
  %o{name} = constant() {{value = 1073741824, type = !i32}} : i32
  %{name} = select(%e{name}, %n{name}, %o{name}) : i32"""


FETCHED = f"""{start("x0", "m")}{start("x1", "n")}
  %x = gpu.fetch(%map, [%x0, %x1], _) {{type = !{ROWS}}} : {ROWS}{start("y0", "n")}{start("y1", "m")}
  %y = gpu.fetch(%map, [%y0, %y1], _) {{type = !{COLUMNS}}} : {COLUMNS}
  %w = gpu.wgmma(%x, %y, %z) : f32[64,64]
  %r = cast(%w) {{dtype = f16}} : f16[64,64]{start("r0", "zero")}{start("r1", "zero")}
  gpu.put(%to, %r, [%r0, %r1]) {{inner = 1}}"""


def test_operands_are_fetched_and_results_put() -> None:
    maps = tensor_map("map", 0) + tensor_map("to", 4)
    after = text(ARRAYS, FETCHED, maps=maps, hints=" hints {wgmma_warps = 4}")
    check(CHOOSE, text(ARRAYS, PRODUCT, STORE), after, names=False)


# The same of bytes, of which wgmma reads no rows as a right operand.
BYTES = "shared<f8e4m3fn[64,64]#layout<offset = [[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,0],[2,16],[4,32],[8,0],[16,0],[32,0]]>>"
TURNED = "shared<f8e4m3fn[64,64]#layout<offset = [[1,0],[2,0],[4,0],[8,0],[16,0],[32,0],[0,1],[16,2],[32,4],[0,8],[0,16],[0,32]]>>"
PUT_BACK = f"""{start("x0", "m")}{start("x1", "n")}
  %x = gpu.fetch(%map, [%x0, %x1], _) {{type = !{BYTES}}} : {BYTES}{start("y0", "n")}{start("y1", "m")}
  %f = gpu.fetch(%map, [%y0, %y1], _) {{type = !{BYTES}}} : {BYTES}
  %l = gpu.load_fetched(%f) {{type = !f8e4m3fn[64,64]}} : f8e4m3fn[64,64]
  %r = reshape(%l) {{shape = (64, 64)}} : f8e4m3fn[64,64]
  %y = gpu.stage_operand(%r, %f) {{type = !{TURNED}}} : {TURNED}
  %w = gpu.wgmma(%x, %y, %z) : f32[64,64]"""


def test_threads_transpose_right_operands_of_bytes() -> None:
    """And put them where they were fetched to."""
    arrays, product = (part.replace("f16", "f8e4m3fn") for part in (ARRAYS, PRODUCT))
    product = product.replace("\n  %y = permute(%l) {axes = (1, 0)} : f8e4m3fn[64,64]", "").replace("%l", "%y")
    before, after = (
        text(arrays, product),
        text(arrays, PUT_BACK, maps=tensor_map("map", 0), hints=" hints {wgmma_warps = 4}"),
    )
    before, after = (t.replace("f16", "f8e4m3fn").replace('"f8e4m3fn"', '"f8E4M3FN"') for t in (before, after))
    check(CHOOSE, before, after, names=False)


LOOP = """
  %one = constant() {value = 1, type = !i32} : i32
  %sum = for(%zero, %m, %one, [%z]) : f32[64,64] { ^(%k: i32, %t: f32[64,64])"""
COMPUTED = f"""{LOOP}
    %x = load_view(%in, [%m, %k]) {{in_bounds = (false, false)}} : f16[64,64]
    %l = load_view(%in, [%n, %k]) {{in_bounds = (false, false)}} : f16[64,64]
    %c = mul(%l, %l) : f16[64,64]
    %y = permute(%c) {{axes = (1, 0)}} : f16[64,64]
    %w = mma(%x, %y, %t) : f32[64,64]
    continue([%w])
  }}"""
STAGED = f"""{LOOP}{start("x0", "m")}{start("x1", "k")}
    %x = gpu.fetch(%map, [%x0, %x1], _) {{type = !{ROWS}}} : {ROWS}{start("y0", "n")}{start("y1", "k")}
    %f = gpu.fetch(%map, [%y0, %y1], _) {{type = !{ROWS}}} : {ROWS}
    %l = gpu.load_fetched(%f) {{type = !f16[64,64]}} : f16[64,64]
    %r = reshape(%l) {{shape = (64, 64)}} : f16[64,64]
    %c = mul(%r, %r) : f16[64,64]
    %p0 = permute(%c) {{axes = (1, 0)}} : f16[64,64]
    %y = gpu.stage_operand(%p0, _) {{type = !{COLUMNS}, copies = 3}} : {COLUMNS}
    %w = gpu.wgmma(%x, %y, %t) : f32[64,64]
    continue([%w])
  }}"""


def test_right_operands_that_are_computed_and_seen_transposed_lie_as_they_are_loaded() -> None:
    after = text(ARRAYS, STAGED, maps=tensor_map("map", 0), hints=" hints {wgmma_warps = 4}")
    check(CHOOSE, text(ARRAYS, COMPUTED), after, names=False)


FOLLOWING = """
  %c = cast(%w) {dtype = f16} : f16[64,64]
  %t = permute(%c) {axes = (1, 0)} : f16[64,64]
  %o = load_view(%in, [%m, %m]) {in_bounds = (false, false)} : f16[64,64]
  %u0 = mma(%t, %o, %z) : f32[64,64]"""
THROUGH_SHARED = f"""{start("x0", "m")}{start("x1", "n")}
  %x = gpu.fetch(%map, [%x0, %x1], _) {{type = !{ROWS}}} : {ROWS}{start("y0", "n")}{start("y1", "m")}
  %y = gpu.fetch(%map, [%y0, %y1], _) {{type = !{COLUMNS}}} : {COLUMNS}
  %w = gpu.wgmma(%x, %y, %z) : f32[64,64]
  %c = cast(%w) {{dtype = f16}} : f16[64,64]
  %t = permute(%c) {{axes = (1, 0)}} : f16[64,64]{start("v0", "m")}{start("v1", "m")}
  %o = gpu.fetch(%map, [%v0, %v1], _) {{type = !{ROWS}}} : {ROWS}
  %s0 = gpu.stage_operand(%t, _) {{type = !{COLUMNS}}} : {COLUMNS}
  %u0 = gpu.wgmma(%s0, %o, %z) : f32[64,64]"""


def test_left_operands_that_are_transposes_of_what_mma_ops_give_go_through_shared_memory() -> None:
    after = text(ARRAYS, THROUGH_SHARED, maps=tensor_map("map", 0), hints=" hints {wgmma_warps = 4}")
    check(CHOOSE, text(ARRAYS, PRODUCT, FOLLOWING), after, names=False)


@pytest.mark.parametrize(("order", "adds"), [("", [True]), (", memory_order = MemoryOrder.RELEASE", [])])
def test_the_tma_unit_adds_tiles_of_float32(order: str, adds: list[bool]) -> None:
    """In kernels in which atomics order no other accesses."""
    added = f"\n  atomic_view(%out, %w, [%zero, %zero]) {{kind = AtomicKind.ADD{order}}}"
    head, *lines = text(ARRAYS, PRODUCT, added).splitlines()
    lines = [line.replace("f16", "f32") if line.lstrip().startswith(("%b", "%v", "%out")) else line for line in lines]
    made = CHOOSE.run(parse_function("\n".join([head.replace("%q: ptr<f16>", "%q: ptr<f32>"), *lines])))
    assert [op.adds for op in made.ops_of(Put)] == adds


def test_stores_of_rows_that_do_not_end_with_16_bytes_stay() -> None:
    """The TMA unit would write behind the last element of each."""
    odd = ARRAYS.replace("(%nq) {divisor = 16}", "(%nq) {divisor = 4}")
    made = CHOOSE.run(parse_function(text(odd, PRODUCT, STORE)))
    assert any(isinstance(op, StoreView) for op in made.walk())


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        pytest.param("(%s) {divisor = 16}", "(%s) {divisor = 4}", "no tensor map describes", id="rows of 8 bytes"),
        pytest.param("%y = permute", "%j = neg(%l) : f16[64,64]\n  %y = permute", "something else uses", id="another use"),
        pytest.param("%y = permute(%l) {axes = (1, 0)}", "%y = neg(%l)", "not loaded as it is", id="computed"),
        pytest.param("  %w = mma", "  print([%m]) {parts = (none), formats = (\"\")}\n  %w = mma", "", id="a report"),
        pytest.param("64,64", "32,32", "an accumulator of 32x32 is not for warp groups of 64 rows", id="few rows"),
    ],
)  # fmt: skip
def test_why_not(old: str, new: str, why: str) -> None:
    """What a hint says of the product that stays; the reports of a kernel do not matter."""
    before = text(ARRAYS, PRODUCT)
    assert old in before
    made = CHOOSE.run(parse_function(before.replace(old, new)))
    if why:
        (reason,) = made.hints[WGMMA_REFUSED]
        assert reason.startswith("line 0: mma.sync, as ") and why in reason
        assert WGMMA_WARPS not in made.hints
    else:
        assert made.hints[WGMMA_WARPS] == 4
