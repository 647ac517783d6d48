"""Which nests have loops that end where the array does, as text, and what these read of each tile."""

from __future__ import annotations

import pytest

from tilewright.backends.cpu.loops.fused import root_of
from tilewright.backends.cpu.loops.trimming import TrimStores, read_axes
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import LoadView, StoreView
from tilewright.ir.parser import parse_function

VIEW = "view<f32,[?,?],[?,1],i32>"
PARTITION = f"partition<{VIEW},[4,64],[0,1],zero,[4,64]>"
ROW = f"partition<{VIEW},[1,64],[0,1],zero,[1,64]>"
TURNED = f"partition<{VIEW},[64,4],[0,1],zero,[64,4]>"
TEXT = f"""
    func @k(%a: ptr<f32> = "a".base, %b: ptr<f32> = "b".base, %m: i32 = "a".shape.0, %n: i32 = "a".shape.1) {{
      reserve_scratch() {{bytes = 65536}}
      %u = make_tensor_view(%a, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %x = make_partition_view(%u) {{type = !{PARTITION}}} : {PARTITION}
      %r = make_partition_view(%u) {{type = !{ROW}}} : {ROW}
      %p = make_partition_view(%u) {{type = !{TURNED}}} : {TURNED}
      %v = make_tensor_view(%b, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %y = make_partition_view(%v) {{type = !{PARTITION}}} : {PARTITION}
      %t = load_view(%x, [%m, %n]) {{in_bounds = (false, false)}} : f32[4,64]
      %row = load_view(%r, [%m, %n]) {{in_bounds = (false, false)}} : f32[1,64]
      %turned = load_view(%p, [%m, %n]) {{in_bounds = (false, false)}} : f32[64,4]
      %flat = constant() {{value = 1.0, type = !f32[256]}} : f32[256]
      RESULTnest([], [], []) {{lanes = LANES, versions = ("plain", "bounds_checked")BUFFERS}}TYPE {{
        %w = BODY : f32[4,64]
        store_view(%y, %w, [%m, %n]) {{in_bounds = BOUNDS}}
        yield([KEPT])
      }}
      return()
    }}"""


def trimmed(lanes: int = 16, body: str = "neg(%t)", bounds: str = "(false, false)", kept: bool = False) -> LoopNest:
    text = TEXT.replace("LANES", str(lanes)).replace("BODY", body).replace("BOUNDS", bounds)
    result = ("%k = ", ", buffers = (64)", " : f32[4,64]", "%w") if kept else ("", "", "", "")
    for name, part in zip(("RESULT", "BUFFERS", "TYPE", "KEPT"), result):
        text = text.replace(name, part)
    (found,) = (op for op in TrimStores().run(parse_function(text)).body.ops if isinstance(op, LoopNest))
    return found


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize("bounds", ["(false, false)", "(true, false)", "(false, true)"])
def test_stores_that_may_leave_their_array(lanes: int, bounds: str) -> None:
    assert trimmed(lanes, bounds=bounds).versions == ("plain", "trimmed", "bounds_checked")


def test_others_are_left_alone() -> None:
    left = ("plain", "bounds_checked")
    assert trimmed(bounds="(true, true)").versions == left  # nothing is to be trimmed
    assert trimmed(1).versions == trimmed(64).versions == left  # no vectors, or one that fills a row
    assert trimmed(kept=True).versions == left  # all elements are needed
    assert trimmed(body="reshape(%flat) {shape = (4, 64)}").versions == left  # vectors have to stand at their multiples


@pytest.mark.parametrize(
    ("body", "axes"),
    [
        ("neg(%t)", (0, 1)),
        ("add(%t, %t)", (0, 1)),
        ("broadcast(%row) {shape = (4, 64)}", (None, 1)),
        ("permute(%turned) {axes = (1, 0)}", (1, 0)),
    ],
)
def test_what_is_read(body: str, axes: tuple[int | None, ...]) -> None:
    nest = trimmed(body=body)
    root = root_of(nest)
    assert isinstance(root, StoreView)
    ((load, found),) = read_axes(nest, root).items()
    assert isinstance(load, LoadView)
    assert found == axes
