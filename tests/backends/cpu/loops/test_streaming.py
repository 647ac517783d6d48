"""Which nests store past the caches, as text."""

from __future__ import annotations

import pytest

from tilewright.backends.cpu.loops.streaming import StreamStores
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.parser import parse_function

VIEW = "view<f32,[?,?],[?,1],i32>"
PARTITION = f"partition<{VIEW},[4,64],[0,1],zero,[4,64]>"
HEAD = f"""
    func @k(%a: ptr<f32> = "a".base, %b: ptr<f32> = "b".base, %m: i32 = "a".shape.0, %n: i32 = "a".shape.1) {{
      reserve_scratch() {{bytes = 65536}}
      %u = make_tensor_view(%a, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %x = make_partition_view(%u) {{type = !{PARTITION}}} : {PARTITION}
      %v = make_tensor_view(%b, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %y = make_partition_view(%v) {{type = !{PARTITION}}} : {PARTITION}
      %t = load_view(%x, [%m, %n]) {{in_bounds = (false, false)}} : f32[4,64]"""
STORE = """
      nest([], [], [%t]) {lanes = LANES, same_index = (true), copies = (64), copy_axes = (none)} {
        FIRST
        %w = BODY : f32[4,64]
        store_view(TILES, %w, [%m, %n]) {in_bounds = (false, false)}
        yield([])
      }"""


FLAT = "%flat = constant() {value = 1.0, type = !f32[256]} : f32[256]"


def streams(lanes: int = 16, body: str = "neg(%t)", tiles: str = "%y", first: str = "", rest: str = "") -> bool:
    nest = STORE.replace("LANES", str(lanes)).replace("BODY", body).replace("TILES", tiles).replace("FIRST", first)
    function = StreamStores().run(parse_function(f"{HEAD}{nest}{rest}\n return()\n}}"))
    (found,) = (op for op in function.body.ops if isinstance(op, LoopNest))
    return "streaming" in found.versions


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_vectors_that_fill_whole_rows(lanes: int) -> None:
    assert streams(lanes)


def test_single_elements_and_short_vectors_do_not() -> None:
    assert not streams(1)
    assert not streams(2)


def test_arrays_that_the_kernel_reads_do_not() -> None:
    assert not streams(tiles="%x")


def test_reshapes_do() -> None:
    assert streams(body="reshape(%t) {shape = (4, 64)}")
    assert streams(body="reshape(%flat) {shape = (4, 64)}", first=FLAT)


def test_ordered_memory_operations_elsewhere_forbid_it() -> None:
    ordered = "%s = load(%a, _, _) {memory_order = MemoryOrder.ACQUIRE, memory_scope = MemoryScope.SYS} : f32"
    assert not streams(rest=f"\n{ordered}")


def test_atomic_additions_elsewhere_do_not() -> None:
    """Where they release, they wait for non-temporal stores, too."""
    kind = "kind = AtomicKind.ADD, memory_order = MemoryOrder.ACQ_REL, memory_scope = MemoryScope.DEVICE"
    assert streams(
        rest=f"\n%one = constant() {{value = 1.0, type = !f32}} : f32\n%s = atomic_rmw(%a, %one, _) {{{kind}}} : f32"
    )


def test_elements_that_take_the_place_of_others() -> None:
    """Vectors of such loops do not overlap: none is computed from what took its place."""
    kept = """
      %k = nest([], [], []) {lanes = 16, buffers = (64)} : f32[4,64] {
        yield([%t])
      }
      %e = nest([], [], []) {lanes = 16, buffers = (64)} : f32[4,64] {
        %w = exp(%k) : f32[4,64]
        store_view(%y, %w, [%m, %n]) {in_bounds = (false, false)}
        yield([%w])
      }"""
    function = StreamStores().run(parse_function(f"{HEAD}{kept}\n return()\n}}"))
    assert [op.versions for op in function.body.ops if isinstance(op, LoopNest)] == [(), ("streaming",)]
