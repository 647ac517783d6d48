"""Fusion and placement of tiles, as text: Tile IR before, the loop-level form after."""

from __future__ import annotations

import pytest
from support.kernel_generator import KernelGenerator
from support.kernel_runs import arguments

from tilewright.backends.cpu.codegen.kernel import emit_module
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.backends.cpu.loops.fusion import FuseLoopNests
from tilewright.backends.cpu.loops.pipeline import loop_form
from tilewright.backends.cpu.loops.verify import verify_loop_form
from tilewright.backends.cpu.target import described, host
from tilewright.backends.native.text_builder import text_of
from tilewright.ir.core import Function
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.verifier import verify

AVX2 = described("x86_64-unknown-linux-gnu", "haswell", {"avx2": True, "fma": True})

VIEW = "view<f32,[?,?],[?,1],i32>"


def view(name: str, shape: str) -> str:
    """Lines that make a view of the argument ``name``, with the result ``%NAME_tiles``."""
    return f"""
      %{name}_view = make_tensor_view(%{name}, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %{name}_tiles = make_partition_view(%{name}_view) {{type = !partition<{VIEW},{shape},[0,1],zero,{shape}>}}
        : partition<{VIEW},{shape},[0,1],zero,{shape}>"""


HEAD = """
    func @k(%a: ptr<f32> = "a".base, %b: ptr<f32> = "b".base, %m: i32 = "a".shape.0, %n: i32 = "a".shape.1) {"""
LOAD = "load_view(%a_tiles, [%m, %n]) {in_bounds = (false, false)}"


def formed(body: str, shape: str = "[4,8]") -> list[str]:
    """The lines of the form of ``body`` that come after the views of %a and %b, without indentation of the whole."""
    source = f"{HEAD}{view('a', shape)}{view('b', shape)}{body}\n return()\n}}"
    form = FuseLoopNests(AVX2).run(parse_function(source))
    verify(form)
    verify_loop_form(form)
    text = print_function(form)
    assert print_function(parse_function(text)) == text
    lines = text.splitlines()
    start = max(k for k, line in enumerate(lines) if "make_partition_view" in line)
    return [line[2:] for line in lines[start + 1 : -2]]


def test_what_one_statement_needs_is_one_nest() -> None:
    found = formed(f"""
      %x = {LOAD} : f32[4,8]
      %two = constant() {{value = 2.0, type = !f32[4,8]}} : f32[4,8]
      %y = mul(%x, %two) : f32[4,8]
      store_view(%b_tiles, %y, [%m, %n]) {{in_bounds = (true, true)}}""")
    assert found == [
        "%x = load_view(%a_tiles, [%m, %n]) {in_bounds = (false, false)} : f32[4,8]",
        "nest([], [], []) {",
        "  %two = constant() {value = 2.0, type = !f32[4,8]} : f32[4,8]",
        "  %y = mul(%x, %two) : f32[4,8]",
        "  store_view(%b_tiles, %y, [%m, %n]) {in_bounds = (true, true)}",
        "  yield([])",
        "}",
    ]


def test_the_stored_tile_itself_needs_no_copies() -> None:
    found = formed(f"""
      %x = {LOAD} : f32[4,8]
      store_view(%a_tiles, %x, [%m, %n]) {{in_bounds = (true, true)}}""")
    assert found[1:] == [
        "nest([], [], []) {",
        "  store_view(%a_tiles, %x, [%m, %n]) {in_bounds = (true, true)}",
        "  yield([])",
        "}",
    ]


def test_what_is_costly_and_needed_twice_is_kept_by_the_first_nest() -> None:
    found = formed(f"""
      %x = {LOAD} : f32[4,8]
      %e = exp(%x) : f32[4,8]
      store_view(%b_tiles, %e, [%n, %n]) {{in_bounds = (true, true)}}
      store_view(%b_tiles, %e, [%m, %n]) {{in_bounds = (true, true)}}""")
    assert found[1:] == [
        "%e = nest([], [], []) {buffers = (64)} : f32[4,8] {",
        "  %e_1 = exp(%x) : f32[4,8]",
        "  store_view(%b_tiles, %e_1, [%n, %n]) {in_bounds = (true, true)}",
        "  yield([%e_1])",
        "}",
        "nest([], [], []) {",
        "  store_view(%b_tiles, %e, [%m, %n]) {in_bounds = (true, true)}",
        "  yield([])",
        "}",
    ]


def test_a_store_keeps_what_is_needed_later_of_what_it_may_overwrite() -> None:
    """Of two loads one tile, in any shape with the same extents; where it is more, the loads come first."""
    load = f"%x = {LOAD} : f32[4,8]\n %x2 = {LOAD.replace('%a_tiles', '%b_tiles')} : f32[4,8]"
    first = "store_view(%b_tiles, %h, [%n, %n]) {in_bounds = (true, true)}"
    last = "store_view(%a_tiles, %k, [%m, %n]) {in_bounds = (true, true)}"
    rows = "%g = reshape(%h) {shape = (1, 4, 8)} : f32[1,4,8]\n %k = reshape(%g) {shape = (4, 8)} : f32[4,8]"
    found = formed(f"{load}\n %h = add(%x, %x2) : f32[4,8]\n {rows}\n {first}\n {last}")
    assert found[2:] == [
        "%k = nest([], [], []) {buffers = (64)} : f32[4,8] {",
        "  %h = add(%x, %x2) : f32[4,8]",
        "  %g = reshape(%h) {shape = (1, 4, 8)} : f32[1,4,8]",
        "  %k_1 = reshape(%g) {shape = (4, 8)} : f32[4,8]",
        "  store_view(%b_tiles, %h, [%n, %n]) {in_bounds = (true, true)}",
        "  yield([%k_1])",
        "}",
        "nest([], [], []) {",
        "  store_view(%a_tiles, %k, [%m, %n]) {in_bounds = (true, true)}",
        "  yield([])",
        "}",
    ]
    wide = "%h = neg(%x) : f32[4,8]\n %d = cast(%x) {dtype = f64} : f64[4,8]\n %c = cast(%x2) {dtype = f64} : f64[4,8]"
    more = "%e = mul(%d, %c) : f64[4,8]\n %k = cast(%e) {dtype = f32} : f32[4,8]"
    found = formed(f"{load}\n {wide}\n {first}\n {more}\n {last}")
    assert "  yield([%x])" in found


def test_a_broadcast_of_something_costly_is_computed_first() -> None:
    found = formed(f"""
      %x = {LOAD} : f32[4,8]
      %r = reduce([%x]) {{axis = 1, identities = (0.0), commutative = true}} : f32[4] {{
       ^(%p: f32, %q: f32)
        %s = add(%p, %q) : f32
        yield([%s])
      }}
      %c = reshape(%r) {{shape = (4, 1)}} : f32[4,1]
      %e = exp(%c) : f32[4,1]
      %w = broadcast(%e) {{shape = (4, 8)}} : f32[4,8]
      store_view(%b_tiles, %w, [%m, %n]) {{in_bounds = (true, true)}}""")
    heads = [line.strip() for line in found if line.startswith(("%", "nest"))]
    assert heads[1:] == [
        "%r = nest([], [], []) {buffers = (64)} : f32[4] {",
        "%e = nest([], [], []) {buffers = (64)} : f32[4,1] {",  # in place: nothing else needs the sums
        "nest([], [], []) {",
    ]


CARRIED = """
      %zero = constant() {value = 0, type = !i32} : i32
      %one = constant() {value = 1, type = !i32} : i32
      %p = constant() {value = 1.0, type = !f32[4,8]} : f32[4,8]
      %s, %u = for(%zero, %m, %one, [%p, %p]) : f32[4,8], f32[4,8] { ^(%i: i32, %o: f32[4,8], %q: f32[4,8])
        %x = load_view(%a_tiles, [%i, %zero]) {in_bounds = (false, false)} : f32[4,8]
        %y = neg(%x) : f32[4,8]
        %z = NEXT : f32[4,8]
        store_view(%b_tiles, %y, [%i, %zero]) {in_bounds = (true, true)}
        continue([%z, %q])
      }
      %t = add(%s, %u) : f32[4,8]
      store_view(%b_tiles, %t, [%m, %n]) {in_bounds = (true, true)}"""


def test_the_last_store_of_an_iteration_also_computes_what_is_carried() -> None:
    found = formed(CARRIED.replace("NEXT", "add(%o, %x)"))
    start = next(k for k, line in enumerate(found) if "for(" in line)
    assert found[start + 2 : start + 9] == [
        "  %z = nest([], [], []) {buffers = (64)} : f32[4,8] {",
        "    %y = neg(%x) : f32[4,8]",
        "    %z_1 = add(%o, %x) : f32[4,8]",
        "    store_view(%b_tiles, %y, [%i, %zero]) {in_bounds = (true, true)}",
        "    yield([%z_1])",
        "  }",
        "  continue([%z, %q])",
    ]


@pytest.mark.parametrize(
    ("old", "new", "slot"),
    [("[%z, %q]", "[%z, %o]", 64), ("[%z, %q]", "[%q, %z]", 192), ("neg(%x)", "neg(%o)", 64)],
)
def test_what_others_need_of_a_slot_is_not_overwritten_beside_a_store(old: str, new: str, slot: int) -> None:
    found = formed(CARRIED.replace("NEXT", "add(%o, %x)").replace(old, new))
    store = next(k for k, line in enumerate(found) if "store_view" in line)
    nest = next(line for line in reversed(found[:store]) if "nest(" in line)
    assert "%z = " in nest
    assert f"buffers = ({slot})" not in nest


def test_swapped_tiles_go_through_another_buffer() -> None:
    found = formed("""
      %zero = constant() {value = 0, type = !i32} : i32
      %one = constant() {value = 1, type = !i32} : i32
      %p = constant() {value = 1.0, type = !f32[4,8]} : f32[4,8]
      %q = constant() {value = 2.0, type = !f32[4,8]} : f32[4,8]
      %x, %y = for(%zero, %m, %one, [%p, %q]) : f32[4,8], f32[4,8] { ^(%i: i32, %s: f32[4,8], %t: f32[4,8])
        continue([%t, %s])
      }
      %z = add(%x, %y) : f32[4,8]
      store_view(%b_tiles, %z, [%m, %n]) {in_bounds = (true, true)}""")
    buffers = [line.split("buffers")[1] for line in found if "buffers" in line]
    assert buffers == [" = (64)} : f32[4,8] {", " = (192)} : f32[4,8] {"] + [
        " = (320)} : f32[4,8] {",
        " = (448)} : f32[4,8] {",
    ]
    assert sum("copy_buffer" in line for line in found) == 2


def test_mma_reads_its_left_operand_in_the_array_and_adds_in_place() -> None:
    found = formed(
        f"""
      %x = {LOAD} : f32[8,8]
      %y = load_view(%b_tiles, [%m, %n]) {{in_bounds = (true, true)}} : f32[8,8]
      %zero = constant() {{value = 0.0, type = !f32[8,8]}} : f32[8,8]
      %p = mma(%x, %y, %zero) : f32[8,8]
      %q = mma(%y, %y, %p) : f32[8,8]
      store_view(%b_tiles, %q, [%m, %n]) {{in_bounds = (true, true)}}""",
        "[8,8]",
    )
    heads = [line.strip() for line in found if line.startswith(("%", "nest")) and "nest" in line]
    assert heads[:3] == [
        "%y_1 = nest([], [], []) {buffers = (320)} : f32[8,8] {",
        "%p = nest([], [], []) {buffers = (576), scratch = (64, none, 576)} : f32[8,8] {",
        "%q = nest([], [], []) {buffers = (576), scratch = (none, none, 576)} : f32[8,8] {",
    ]


def branch(then: str, store: str = "%r") -> list[str]:
    """The lines from the branch on, of one that gives a product as it is where its condition does not hold."""
    found = formed(
        f"""
      %x = {LOAD} : f32[8,8]
      %zero = constant() {{value = 0.0, type = !f32[8,8]}} : f32[8,8]
      %p = mma(%x, %x, %zero) : f32[8,8]
      %c = cmp(%m, %n) {{predicate = CmpPredicate.GE}} : i1
      %r = if(%c) {{types = (!f32[8,8])}} : f32[8,8] {{
        %t = {then} : f32[8,8]
        yield([%t])
      }} {{
        yield([%p])
      }}
      %u = neg({store}) : f32[8,8]
      %w = add(%u, %r) : f32[8,8]
      store_view(%b_tiles, %w, [%m, %n]) {{in_bounds = (true, true)}}""",
        "[8,8]",
    )
    return found[next(k for k, line in enumerate(found) if "if(" in line) :]


def test_a_transpose_between_new_axes_is_read_by_squares() -> None:
    found = formed(
        """
      %x = load_view(%a_tiles, [%m, %n]) {in_bounds = (false, false)} : f32[8,8]
      %wide = reshape(%x) {shape = (1, 8, 8)} : f32[1,8,8]
      %turned = permute(%wide) {axes = (0, 2, 1)} : f32[1,8,8]
      %back = reshape(%turned) {shape = (8, 8)} : f32[8,8]
      store_view(%b_tiles, %back, [%m, %n]) {in_bounds = (true, true)}""",
        "[8,8]",
    )
    (nest,) = (line for line in found if "transposed" in line)
    assert nest.endswith("{buffers = (64), transposed = 1} : f32[1,8,8] {")


def test_a_branch_changes_a_tile_where_it_is() -> None:
    assert branch("mul(%p, %p)")[:9] == [
        "%r = if(%c) {types = (!f32[8,8])} : f32[8,8] {",
        "  %0 = nest([], [], []) {buffers = (576)} : f32[8,8] {",  # that of %p
        "    %t = mul(%p, %p) : f32[8,8]",
        "    yield([%t])",
        "  }",
        "  yield([%0])",
        "} {",
        "  yield([%p])",
        "}",
    ]


def test_a_branch_that_reads_other_elements_goes_through_another_buffer() -> None:
    found = branch("permute(%p) {axes = (1, 0)}")
    assert sum("copy_buffer" in line for line in found) == 1
    assert found[found.index("} {") + 1] == "  yield([%p])"


def test_what_is_needed_behind_a_branch_is_copied() -> None:
    found = branch("mul(%p, %p)", store="%p")
    assert "nest([], [], [])" in found[found.index("} {") + 1]


@pytest.mark.parametrize("seed", range(3))
def test_the_text_of_the_form_says_everything(seed: int) -> None:
    """Random kernels: the form obeys its rules, and what is parsed from its text gives the same LLVM IR."""
    made = KernelGenerator(seed).make()
    signature, _ = made.kernel().described(arguments(made)[0], "cpu")
    function: Function = made.kernel().trace(signature)
    form = loop_form(optimize(function), host())
    verify(form)
    verify_loop_form(form)
    again = parse_function(print_function(form))
    assert text_of(emit_module(again, host())[0]) == text_of(emit_module(form, host())[0])


def test_bytes_of_elements_are_in_the_same_buffer() -> None:
    found = formed(f"""
      %x = {LOAD} : f32[4,8]
      %w = bitcast(%x) {{dtype = u32}} : u32[4,8]
      %y = pack(%w) : u8[128]
      %z = unpack(%y) {{dtype = u16}} : u16[64]
      print([%z]) {{parts = (none), formats = ("")}}""")
    assert found == [
        "%x = load_view(%a_tiles, [%m, %n]) {in_bounds = (false, false)} : f32[4,8]",
        "%w = nest([], [], []) {buffers = (64)} : u32[4,8] {",
        "  %w_1 = bitcast(%x) {dtype = u32} : u32[4,8]",
        "  yield([%w_1])",
        "}",
        "%y = pack(%w) : u8[128]",
        "%z = unpack(%y) {dtype = u16} : u16[64]",
        'print([%z]) {parts = (none), formats = ("")}',
    ]
