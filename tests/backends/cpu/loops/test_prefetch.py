"""Which tiles the loops of an iteration fetch for the next one."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.backends.cpu.loops.pipeline import loop_form
from tilewright.backends.cpu.target import described
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.parser import parse_function

AVX2 = described("x86_64-unknown-linux-gnu", "haswell", {"avx2": True, "fma": True})
VIEW = "view<f32,[?,?],[?,1],i32>"


def nests(indices: str = "%i, %z", step: int = 1, columns: int = 1024) -> list[LoopNest]:
    """The nests of a loop that subtracts the sum of each row; ``indices`` are those of its load."""
    tile = f"[1,{columns}]"
    partition = f"partition<{VIEW},{tile},[0,1],zero,{tile}>"
    function = parse_function(f"""
    func @k(%a: ptr<f32> = "a".base, %b: ptr<f32> = "b".base, %m: i32 = "a".shape.0, %n: i32 = "a".shape.1) {{
      %u = make_tensor_view(%a, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %v = make_partition_view(%u) {{type = !{partition}}} : {partition}
      %w = make_tensor_view(%b, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %out = make_partition_view(%w) {{type = !{partition}}} : {partition}
      %z = constant() {{value = 0, type = !i32}} : i32
      %one = constant() {{value = {step}, type = !i32}} : i32
      for(%z, %m, %one, []) {{ ^(%i: i32)
        %j = mul(%i, %i) : i32
        %x = load_view(%v, [{indices}]) {{in_bounds = (false, false)}} : f32{tile}
        %s = reduce([%x]) {{axis = 1, identities = (0.0), commutative = true}} : f32[1] {{ ^(%l: f32, %r: f32)
          %c = add(%l, %r) : f32
          yield([%c])
        }}
        %t = reshape(%s) {{shape = (1, 1)}} : f32[1,1]
        %d = broadcast(%t) {{shape = (1, {columns})}} : f32{tile}
        %y = sub(%x, %d) : f32{tile}
        store_view(%out, %y, [%i, %z]) {{in_bounds = (false, false)}}
        continue([])
      }}
      return()
    }}""")
    return [op for op in loop_form(function, AVX2).walk() if isinstance(op, LoopNest)]


def prefetched(**options: Any) -> list[tuple[int | None, ...]]:
    """The axes along which each nest fetches the next tiles."""
    return [op.prefetch for op in nests(**options)]


def test_the_last_nest_that_reads_a_tile_fetches_the_next() -> None:
    assert prefetched() == [(), (0,)]


@pytest.mark.parametrize(("indices", "axis"), [("%z, %i", 1), ("%m, %i", 1), ("%i, %m", 0)])
def test_along_the_axis_that_the_loop_counts(indices: str, axis: int) -> None:
    assert prefetched(indices=indices) == [(), (axis,)]


@pytest.mark.parametrize("other", [{"indices": "%j, %z"}, {"indices": "%i, %j"}, {"step": 2}, {"columns": 4096}])
def test_none_where_the_next_tile_is_elsewhere_or_large(other: dict[str, object]) -> None:
    assert prefetched(**other) == [(), ()]


@pytest.mark.parametrize(("columns", "ahead"), [(16384, 8192), (8192, 8192), (4096, 0)])
def test_the_first_reduction_of_a_large_tile_fetches_what_it_reads_later(columns: int, ahead: int) -> None:
    assert [op.prefetch_bytes for op in nests(columns=columns)] == [ahead, 0]
