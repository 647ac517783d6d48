"""What loops and reductions fetch ahead, text in and text out. Kernels go through all passes in ``test_prefetch.py``."""

from __future__ import annotations

import pytest
from support.passes import check

from tilewright.backends.cpu.loops.prefetch import PrefetchTiles

VIEW = "view<f32,[?,?],[?,1],i32>"
PARAMETERS = '%a: ptr<f32> = "a".base, %b: ptr<f32> = "b".base, %m: i32 = "a".shape.0, %n: i32 = "a".shape.1'


def head(shape: str) -> str:
    tiles = f"partition<{VIEW},{shape},[0,1],zero,{shape}>"
    return f"""
      %u = make_tensor_view(%a, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %x = make_partition_view(%u) {{type = !{tiles}}} : {tiles}
      %v = make_tensor_view(%b, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %y = make_partition_view(%v) {{type = !{tiles}}} : {tiles}
      %zero = constant() {{value = 0, type = !i32}} : i32
      %one = constant() {{value = 1, type = !i32}} : i32"""


def summed(shape: str, of: str = "%t", prefetch: str = "") -> str:
    """A nest that reduces ``of`` to its columns."""
    columns = shape.split(",")[-1]
    return f"""
      %s = nest([], [], []) {{lanes = 8, buffers = (1024){prefetch}}} : f32[{columns} {{
        %r = reduce([{of}]) {{axis = 0, identities = (0.0), commutative = true}} : f32[{columns} {{ ^(%c: f32, %d: f32)
          %e = add(%c, %d) : f32
          yield([%e])
        }}
        yield([%r])
      }}"""


def stored(shape: str, of: str = "%t", prefetch: str = "") -> str:
    return f"""
      nest([], [], []) {{lanes = 8{prefetch}}} {{
        %w = neg({of}) : f32{shape}
        store_view(%y, %w, [%k, %zero]) {{in_bounds = (false, false)}}
        yield([])
      }}"""


def loop(shape: str, prefetch: str, index: str = "[%k, %zero]", step: str = "%one") -> str:
    """Reduces a tile, and stores what is computed of it."""
    return f"""func @k({PARAMETERS}) {{{head(shape)}
      for(%zero, %n, {step}, []) {{ ^(%k: i32)
      %t = load_view(%x, {index}) {{in_bounds = (false, false)}} : f32{shape}{summed(shape)}{stored(shape, prefetch=prefetch)}
        continue([])
      }}
      return()
    }}"""


@pytest.mark.parametrize(("index", "axis"), [("[%k, %zero]", 0), ("[%zero, %k]", 1)])
def test_the_last_nest_of_an_iteration_fetches_the_next_tile(index: str, axis: int) -> None:
    check(PrefetchTiles(), loop("[8,64]", "", index), loop("[8,64]", f", prefetch = ({axis})", index))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(loop("[8,512]", ""), id="more than a first-level cache has room for"),
        pytest.param(loop("[8,64]", "", "[%zero, %zero]"), id="the same tile in each iteration"),
        pytest.param(loop("[8,64]", "", "[%k, %k]"), id="along a diagonal"),
        pytest.param(loop("[8,64]", "", step="%m"), id="not the next tile"),
    ],
)
def test_what_loops_do_not_fetch(text: str) -> None:
    check(PrefetchTiles(), text, text)


def once(shape: str, prefetch: str) -> str:
    return f"""func @k({PARAMETERS}) {{{head(shape)}
      %t = load_view(%x, [%m, %zero]) {{in_bounds = (false, false)}} : f32{shape}{summed(shape, prefetch=prefetch)}
      return()
    }}"""


def test_reductions_of_large_tiles_fetch_two_pages_ahead() -> None:
    check(PrefetchTiles(), once("[8,1024]", ""), once("[8,1024]", ", prefetch_bytes = 8192"))
    check(PrefetchTiles(), once("[4,1024]", ""), once("[4,1024]", ""))
