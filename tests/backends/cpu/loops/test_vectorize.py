"""How many elements the loops of a nest compute at a time, as text."""

from __future__ import annotations

import pytest

from tilewright.backends.cpu.loops.vectorize import VectorizeNests
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.parser import parse_function

HEAD = """
    func @k(%a: ptr<f32> = "a".base, %p: ptr<i8> = "p".base) {
      reserve_scratch() {bytes = 65536}
      %x = nest([], [], []) {lanes = 1, buffers = (64)} : f32[16,64] {
        %c = constant() {value = 1.0, type = !f32[16,64]} : f32[16,64]
        yield([%c])
      }
      %y = nest([], [], []) {lanes = 1, buffers = (4160)} : i8[16,64] {
        %d = constant() {value = 1, type = !i8[16,64]} : i8[16,64]
        yield([%d])
      }"""
SUM = """
        %r = reduce([%v]) {axis = 0, identities = (0.0), commutative = true} : f32[64] {
         ^(%s: f32, %t: f32)
          %u = add(%s, %t) : f32
          yield([%u])
        }
        yield([%r])
      }"""


def last_nest(nest: str, vector_bytes: int) -> LoopNest:
    function = VectorizeNests(vector_bytes).run(parse_function(f"{HEAD}{nest}\n return()\n}}"))
    *_, last = (op for op in function.body.ops if isinstance(op, LoopNest))
    return last


def chosen(nest: str, vector_bytes: int) -> tuple[int, int]:
    """Lanes and vectors of the last nest, which ``nest`` is."""
    last = last_nest(nest, vector_bytes)
    return last.lanes, last.vectors


@pytest.mark.parametrize(("vector_bytes", "lanes"), [(16, 4), (32, 8), (64, 16)])
def test_the_widest_element_fills_a_register(vector_bytes: int, lanes: int) -> None:
    narrow = """
      %z = nest([], [], []) {buffers = (8256)} : i8[16,64] {
        %n = neg(%y) : i8[16,64]
        yield([%n])
      }"""
    wide = """
      %z = nest([], [], []) {buffers = (8256)} : i8[16,64] {
        %w = cast(%y) {dtype = i32} : i32[16,64]
        %n = neg(%w) : i32[16,64]
        %v = cast(%n) {dtype = i8} : i8[16,64]
        yield([%v])
      }"""
    assert chosen(narrow, vector_bytes) == (vector_bytes, 1)
    assert chosen(wide, vector_bytes) == (lanes, 1)


@pytest.mark.parametrize(
    ("offsets", "lanes"),
    [
        ("add(%wide, %row)", 16),
        ("add(%row, %wide)", 16),
        ("mul(%wide, %row)", 8),
        ("add(%wide, %wide)", 16),
        ("mul(%wide, %four)", 16),
        ("mul(%wide, %five)", 8),
        ("sub(%row, %wide)", 8),
    ],
)
def test_pointers_to_neighbours_fill_no_registers(offsets: str, lanes: int) -> None:
    """They are eight bytes wide, and one of them is enough, also where neighbours are a few elements apart."""
    nest = f"""
      %n = constant() {{value = 7, type = !i64[16,1]}} : i64[16,1]
      %first = reshape(%a) {{shape = (1, 1)}} : ptr<f32>[1,1]
      %z = nest([], [], []) {{buffers = (8256)}} : f32[16,64] {{
        %base = broadcast(%first) {{shape = (16, 64)}} : ptr<f32>[16,64]
        %i = iota() {{type = !i32[1,64]}} : i32[1,64]
        %columns = broadcast(%i) {{shape = (16, 64)}} : i32[16,64]
        %wide = cast(%columns) {{dtype = i64}} : i64[16,64]
        %row = broadcast(%n) {{shape = (16, 64)}} : i64[16,64]
        %four = constant() {{value = 4, type = !i64[16,64]}} : i64[16,64]
        %five = constant() {{value = 5, type = !i64[16,64]}} : i64[16,64]
        %offsets = {offsets} : i64[16,64]
        %m = cmp(%offsets, %row) {{predicate = CmpPredicate.GE}} : i1[16,64]
        %q = ptr_offset(%base, %offsets) : ptr<f32>[16,64]
        %v = load(%q, %m, _) : f32[16,64]
        yield([%v])
      }}"""
    assert chosen(nest, 64) == (lanes, 1)


def test_bytes_that_stand_several_times_in_a_row_go_by_half_registers() -> None:
    nest = """
      %z = nest([], [], []) {buffers = (8256)} : i8[16,64] {
        %n = BODY : i8[16,64]
        yield([%n])
      }"""
    assert chosen(nest.replace("BODY", "permute(%y) {axes = (0, 1)}"), 64) == (32, 1)
    assert chosen(nest.replace("BODY", "permute(%y) {axes = (0, 1)}"), 32) == (32, 1)
    assert chosen(nest.replace("BODY", "neg(%y)"), 64) == (64, 1)


def test_reductions_of_what_costs_little_go_by_several_vectors_side_by_side() -> None:
    nest = "\n      %z = nest([], [], []) {buffers = (8256)} : f32[64] {"
    assert chosen(f"{nest}\n %v = neg(%x) : f32[16,64]{SUM}", 64) == (16, 4)
    assert chosen(f"{nest}\n %v = exp(%x) : f32[16,64]{SUM}", 64) == (16, 1)


@pytest.mark.parametrize(
    ("value", "vectors"),
    [
        ("neg(%x) : f32[16,64]", 2),
        ("exp(%x) : f32[16,64]", 2),
        ("permute(%x) {axes = (0, 1)} : f32[16,64]", 1),
        ("neg(%y) : i8[16,64]", 1),
    ],
)
def test_stores_of_rows_go_by_several_vectors_side_by_side(value: str, vectors: int) -> None:
    """But where neighbours come from elsewhere, and for single bytes."""
    dtype, base = ("f32", "%a") if "f32" in value else ("i8", "%p")
    view = f"view<{dtype},[16,64],[64,1],i32>"
    tiles = f"partition<{view},[16,64],[0,1],zero,[16,64]>"
    nest = f"""
      %i = constant() {{value = 0, type = !i32}} : i32
      %u = make_tensor_view({base}, [], []) {{type = !{view}}} : {view}
      %q = make_partition_view(%u) {{type = !{tiles}}} : {tiles}
      nest([], [], []) {{
        %v = {value}
        store_view(%q, %v, [%i, %i]) {{in_bounds = (true, true)}}
        yield([])
      }}"""
    assert chosen(nest, 64) == (64 if dtype == "i8" else 16, vectors)
    if vectors > 1:
        assert chosen(nest, 256) == (64, 1)  # as many as a row has


@pytest.mark.parametrize(
    ("axis", "commutative", "vector_bytes", "along"),
    [(1, "true", 64, True), (1, "false", 64, False), (0, "true", 64, False), (1, "true", 512, False)],
)
def test_reductions_along_rows_keep_partial_results_in_lanes(
    axis: int, commutative: str, vector_bytes: int, along: bool
) -> None:
    shape = "[16]" if axis else "[64]"
    text = SUM.replace("axis = 0", f"axis = {axis}").replace("f32[64]", f"f32{shape}").replace("true", commutative)
    nest = f"\n %z = nest([], [], []) {{buffers = (8256)}} : f32{shape} {{\n %v = neg(%x) : f32[16,64]"
    assert last_nest(nest + text, vector_bytes).along == along


@pytest.mark.parametrize(("axis", "vector_bytes", "square"), [(1, 64, 16), (1, 32, None), (0, 64, None)])
def test_scans_of_rows_go_by_squares_that_fit_the_lanes(axis: int, vector_bytes: int, square: int | None) -> None:
    nest = f"""
      %z = nest([], [], []) {{buffers = (8256)}} : f32[16,64] {{
        %r = scan([%x]) {{axis = {axis}, identities = (0.0)}} : f32[16,64] {{
         ^(%s: f32, %t: f32)
          %u = add(%s, %t) : f32
          yield([%u])
        }}
        yield([%r])
      }}"""
    assert last_nest(nest, vector_bytes).square == square


@pytest.mark.parametrize(
    ("tile", "axis", "combiner", "along"),
    [("%y", 1, "add", True), ("%y", 0, "add", False), ("%y", 1, "sub", False), ("%x", 1, "add", False)],
)
def test_scans_of_integers_along_rows_combine_lanes(tile: str, axis: int, combiner: str, along: bool) -> None:
    dtype, zero = ("i8", "0") if tile == "%y" else ("f32", "0.0")
    nest = f"""
      %z = nest([], [], []) {{buffers = (8256)}} : {dtype}[16,64] {{
        %r = scan([{tile}]) {{axis = {axis}, identities = ({zero})}} : {dtype}[16,64] {{
         ^(%s: {dtype}, %t: {dtype})
          %u = {combiner}(%s, %t) : {dtype}
          yield([%u])
        }}
        yield([%r])
      }}"""
    assert last_nest(nest, 64).along == along


def test_what_is_vectorized_stays() -> None:
    function = VectorizeNests(64).run(parse_function(f"{HEAD}\n return()\n}}"))
    assert [op.lanes for op in function.body.ops if isinstance(op, LoopNest)] == [1, 1]
