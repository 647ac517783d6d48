"""Versions of loops and the checks that pick them, as text: fused nests before, versioned nests after."""

from __future__ import annotations

import pytest

from tilewright.backends.cpu.loops.verify import verify_loop_form
from tilewright.backends.cpu.loops.versioning import VersionNests
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.verifier import VerificationError, verify

VIEW = "view<f32,[?,?],[?,1],i32>"
PARTITION = f"partition<{VIEW},[4,64],[0,1],zero,[4,64]>"
HEAD = f"""
    func @k(%a: ptr<f32> = "a".base, %b: ptr<f32> = "b".base, %m: i32 = "a".shape.0, %n: i32 = "a".shape.1) {{
      reserve_scratch() {{bytes = 512}}
      %u = make_tensor_view(%a, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %x = make_partition_view(%u) {{type = !{PARTITION}}} : {PARTITION}
      %v = make_tensor_view(%b, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %y = make_partition_view(%v) {{type = !{PARTITION}}} : {PARTITION}"""
POINTERS = """
        %line = iota() {type = !i64[256]} : i64[256]
        %base = broadcast(%from) {shape = (256)} : ptr<f32>[256]
        %ptrs = ptr_offset(%base, %line) : ptr<f32>[256]"""
FROM = "%from = reshape(%a) {shape = (1)} : ptr<f32>[1]"


def versioned(body: str) -> list[str]:
    """The lines after the views of what ``VersionNests`` makes of ``body``."""
    function = VersionNests().run(parse_function(f"{HEAD}{body}\n return()\n}}"))
    verify(function)
    verify_loop_form(function)
    text = print_function(function)
    assert print_function(parse_function(text)) == text
    lines = text.splitlines()
    start = max(k for k, line in enumerate(lines) if "make_partition_view" in line)
    return [line.strip() for line in (lines[1], *lines[start + 1 : -2])]


def heads(body: str) -> list[str]:
    return [line for line in versioned(body) if "nest(" in line or "check_load(" in line]


def copy(load: str, store: str, tile: str = "%y", at: str = "[%m, %n]") -> str:
    return f"""
      %t = load_view(%x, [%m, %n]) {{in_bounds = {load}}} : f32[4,64]
      nest([], [], []) {{
        %w = neg(%t) : f32[4,64]
        store_view({tile}, %w, {at}) {{in_bounds = {store}}}
        yield([])
      }}"""


def test_loops_that_may_leave_their_array_are_bounds_checked() -> None:
    (found,) = heads(copy("(true, true)", "(true, true)", "%x"))
    assert found == 'nest([], [], []) {versions = ("plain")} {'
    for bounds in (("(false, true)", "(true, true)"), ("(true, true)", "(true, false)")):
        (found,) = heads(copy(*bounds, "%x"))
        assert found == 'nest([], [], []) {versions = ("plain", "bounds_checked")} {'


def test_what_may_be_overwritten_before_it_is_loaded_has_a_copy() -> None:
    first, *lines = versioned(copy("(true, true)", "(true, true)"))
    assert first == "reserve_scratch() {bytes = 1088}"  # 64 and a tile of 1024 bytes
    attributes = 'versions = ("plain", "on_copies"), same_index = (true), copies = (64), copy_axes = (none)'
    assert lines[1] == f"nest([], [], [%t]) {{{attributes}}} {{"
    (shifted,) = heads(copy("(true, true)", "(true, true)", "%x", "[%n, %n]"))
    assert "copies = (64)" in shifted


def test_copies_lie_beside_what_is_needed_later() -> None:
    kept = """
      %k = nest([], [], []) {buffers = (64)} : f32[16] {
        %c = constant() {value = 1.0, type = !f32[16]} : f32[16]
        yield([%c])
      }"""
    later = """
      %l = nest([], [], []) {buffers = (64)} : f32[16] {
        %o = neg(%k) : f32[16]
        yield([%o])
      }"""
    assert "copies = (64)" in heads(f"{kept}{copy('(true, true)', '(true, true)')}")[1]
    assert "copies = (128)" in heads(f"{kept}{copy('(true, true)', '(true, true)')}{later}")[1]
    loop = f"""
      %z = for(%m, %n, %m, [%k]) : f32[16] {{ ^(%i: i32, %s: f32[16])
        {copy("(true, true)", "(true, true)")}
        continue([%s])
      }}"""
    assert "copies = (128)" in heads(f"{kept}{loop}")[1]  # the slot of %s is taken though nothing reads it later


def test_loads_through_pointers_are_checked_once_for_the_tile() -> None:
    found = heads(f"""
      {FROM}
      %wide = cast(%m) {{dtype = i64}} : i64
      %row = reshape(%wide) {{shape = (1)}} : i64[1]
      nest([], [], []) {{
        {POINTERS}
        %limit = broadcast(%row) {{shape = (256)}} : i64[256]
        %mask = cmp(%line, %limit) {{predicate = CmpPredicate.LT}} : i1[256]
        %w = load(%ptrs, %mask, _) : f32[256]
        %t = reshape(%w) {{shape = (4, 64)}} : f32[4,64]
        store_view(%y, %t, [%m, %n]) {{in_bounds = (true, true)}}
        yield([])
      }}""")
    assert len(found) == 2
    assert found[0].endswith("check_load(%y, [%m, %n]) {in_bounds = (true, true), masked = true} : i1, i1 {")
    versions = 'versions = ("plain", "bounds_checked", "on_copies")'
    assert found[1].startswith(f"nest([%0], [%1], []) {{{versions}, unmasked_loads = (5), disjoint_loads = (5)")


def test_pointers_that_no_check_can_compare_are_always_read_through_a_copy() -> None:
    found = versioned(f"""
      {FROM}
      nest([], [], []) {{
        {POINTERS}
        %number = ptr_to_int(%ptrs) {{dtype = i64}} : i64[256]
        %other = int_to_ptr(%number) {{dtype = ptr<f32>}} : ptr<f32>[256]
        %w = load(%other, _, _) : f32[256]
        %t = reshape(%w) {{shape = (4, 64)}} : f32[4,64]
        store_view(%y, %t, [%m, %n]) {{in_bounds = (true, true)}}
        yield([])
      }}""")
    assert "constant() {value = false" in found[2]
    assert "disjoint_loads = (5), copies = (64)" in next(line for line in found if "nest(" in line)


@pytest.mark.parametrize(("size", "versions"), [(64, '("plain", "bounds_checked")'), (16, '("bounds_checked")')])
def test_few_elements_one_after_the_other_are_not_worth_a_version(size: int, versions: str) -> None:
    order = "memory_order = MemoryOrder.RELEASE, memory_scope = MemoryScope.SYS"
    part = PARTITION.replace("[4,64]", f"[1,{size}]")
    (_, found) = heads(f"""
      %p = make_partition_view(%u) {{type = !{part}}} : {part}
      %k = nest([], [], []) {{buffers = (64)}} : f32[1,{size}] {{
        %c = constant() {{value = 1.0, type = !f32[1,{size}]}} : f32[1,{size}]
        yield([%c])
      }}
      nest([], [], []) {{
        store_view(%p, %k, [%m, %n]) {{in_bounds = (true, false), {order}}}
        yield([])
      }}""")
    assert versions in found


def test_a_nest_needs_a_version_for_whatever_its_checks_find() -> None:
    function = VersionNests().run(parse_function(f"{HEAD}{copy('(false, true)', '(true, true)')}\n return()\n}}"))
    (nest,) = (op for op in function.body.ops if isinstance(op, LoopNest))
    for versions, message in ((("plain", "on_copies"), "bounds checks"), (("plain", "bounds_checked"), "read copies")):
        nest.versions = versions
        with pytest.raises(VerificationError, match=f"has no loops .*{message}"):
            verify_loop_form(function)


def test_a_check_may_tell_that_all_elements_are_stored() -> None:
    scatter = f"""
      %from = reshape(%b) {{shape = (1)}} : ptr<f32>[1]
      %count = reshape(%n) {{shape = (1)}} : i32[1]
      nest([], [], []) {{{POINTERS}
        %small = iota() {{type = !i32[256]}} : i32[256]
        %ends = broadcast(%count) {{shape = (256)}} : i32[256]
        %mask = cmp(%small, %ends) {{predicate = CmpPredicate.LT}} : i1[256]
        %c = constant() {{value = 1.0, type = !f32[256]}} : f32[256]
        store(%ptrs, %c, %mask)
        yield([])
      }}"""
    check, nest = heads(scatter)
    assert check == "%0 = check_load(_, []) {masked = true} : i1 {"
    assert nest == 'nest([%0], [], []) {versions = ("plain", "bounds_checked"), unmasked_loads = (7)} {'
