"""Loops over rows load the next row while they compute, where that takes no room from other CTAs and nothing is stored
to what is loaded."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_text import layout, line
from support.passes import check
from support.ptx.backend import PtxBackend

import tilewright as ct
from tilewright.backends import registry
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import AsyncCopy, Barrier, GlobalLoad
from tilewright.transforms.gpu.prefetch_loads import PrefetchLoads


@ct.kernel
def normalized(x, scale, out, T: ct.Constant[int]):
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        tile = ct.load(x, (row, 0), (1, T)).astype(ct.float32)
        tile = tile - ct.max(tile, axis=1, keepdims=True)
        ct.store(out, (row, 0), tile * ct.load(scale, (row,), ()) / ct.sum(tile, axis=1, keepdims=True))


@ct.kernel
def accumulated(x, out, T: ct.Constant[int]):
    for i in range(1, x.shape[0]):
        ct.store(x, (i, 0), ct.load(x, (i - 1, 0), (1, T)) + ct.load(out, (i, 0), (1, T)))


@ct.kernel
def recurrent(x, keys, out, T: ct.Constant[int]):
    """A state that vectors change, one row after the other."""
    state = ct.zeros((T, 16), ct.float32)
    for row in range(ct.bid(0), x.shape[0], 2):
        state = state * 0.5 + ct.load(x, (row, 0), (1, T)).reshape((T, 1)) * ct.load(keys, (row, 0), (1, 16))
        ct.store(out, (row, 0), ct.sum(state, axis=1).reshape((1, T)))


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> PtxBackend:
    found = PtxBackend(4, "sm_80")
    monkeypatch.setitem(registry._loaders, found.name, lambda: found)
    return found


def loop_of(backend: PtxBackend) -> For:
    return next(op for op in backend.made[-1].compiled.distributed.walk() if isinstance(op, For))


def given(rows: int, columns: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    return rng.random((rows, columns), np.float32).astype(dtype), rng.random(rows, np.float32)


def test_rows(backend: PtxBackend) -> None:
    """Those that begin at any multiple of two bytes, which are not copied ahead."""
    for rows, columns in ((7, 101), (2, 127), (0, 127)):
        x, scale = given(rows, columns, np.float16)
        found = [np.zeros((rows, columns), np.float32) for _ in range(2)]
        for name, out in zip((backend.name, "reference"), found):
            ct.launch(None, (3,), normalized, (x, scale, out, 128), backend=name)
        np.testing.assert_allclose(*found, rtol=1e-4)
    loop = loop_of(backend)
    assert [v.tile.size for v in loop.inits] == [128, 1], "the row and its factor"
    kinds = [type(op) for op in loop.walk() if isinstance(op, (GlobalLoad, Barrier))]
    assert kinds == [GlobalLoad, GlobalLoad, Barrier, Barrier], "one barrier for each reduction"


def test_what_is_no_tile_is_loaded_ahead_beside_copies(backend: PtxBackend) -> None:
    x, scale = given(7, 128, np.float32)
    found = [np.zeros_like(x) for _ in range(2)]
    for name, out in zip((backend.name, "reference"), found):
        ct.launch(None, (3,), normalized, (x, scale, out, 128), backend=name)
    np.testing.assert_allclose(*found, rtol=1e-4)
    loop = loop_of(backend)
    assert any(isinstance(op, AsyncCopy) for op in loop.walk())
    (load,) = (op for op in loop.walk() if isinstance(op, GlobalLoad))
    assert load.result in loop.next_values


def test_what_is_stored_is_not_loaded_before(backend: PtxBackend) -> None:
    found = [np.ones((5, 64), np.float32) for _ in range(2)]
    step = np.arange(5 * 64, dtype=np.float32).reshape(5, 64)
    for name, x in zip((backend.name, "reference"), found):
        ct.launch(None, (1,), accumulated, (x, step, 64), backend=name)
    np.testing.assert_array_equal(*found)
    kinds = [type(op) for op in loop_of(backend).walk() if isinstance(op, (AsyncCopy, GlobalLoad))]
    assert kinds == [AsyncCopy, GlobalLoad], "the array that is not stored to is copied ahead"


def test_tiles_that_take_the_room_of_other_blocks(backend: PtxBackend) -> None:
    x, scale = given(1, 32767, np.float16)
    ct.launch(None, (1,), normalized, (x, scale, np.ones(x.shape, np.float32), 32768), backend=backend.name)
    assert not loop_of(backend).inits


def test_vectors_that_change_a_state_are_loaded_four_iterations_ahead(backend: PtxBackend) -> None:
    for rows in range(12):
        x, keys = (np.random.default_rng(rows + n).random((rows, n), np.float32).astype(np.float16) for n in (64, 16))
        found = [np.zeros(x.shape, np.float32) for _ in range(2)]
        for name, out in zip((backend.name, "reference"), found):
            ct.launch(None, (2,), recurrent, (x, keys, out, 64), backend=name)
        np.testing.assert_allclose(*found, rtol=1e-5)
    loop = loop_of(backend)
    loads = [op.result for op in loop.body.ops if isinstance(op, GlobalLoad)]
    assert [v.type for v in loop.inits[1:]] == [v.type for v in loads] and len(loads) == 8
    assert [*loop.next_values[1:]] == loads


LANES = layout(line(), line(1, 2, 4, 8, 16))  # 32 elements in one warp


def test_the_next_iteration_is_loaded_before_this_one_computes() -> None:
    """The first load is before the loop; none is made beyond the last iteration."""
    check(
        PrefetchLoads(),
        f"""
func @f(%p: ptr<f32> = "x".base, %n: i32 = "n".scalar) hints {{num_warps = 1}} {{
  %o = constant() {{value = 0, type = !i32}} : i32
  %l = constant() {{value = 1, type = !i32}} : i32
  %i = iota() {{type = !i32[32]{LANES}}} : i32[32]{LANES}
  %a = gpu.splat(%p) {{type = !ptr<f32>[32]{LANES}}} : ptr<f32>[32]{LANES}
  %b = ptr_offset(%a, %i) : ptr<f32>[32]{LANES}
  %z = constant() {{value = 0.0, type = !f32[32]{LANES}}} : f32[32]{LANES}
  %r = for(%o, %n, %l, [%z]) : f32[32]{LANES} {{ ^(%k: i32, %s: f32[32]{LANES})
    %m = gpu.splat(%k) {{type = !i32[32]{LANES}}} : i32[32]{LANES}
    %d = ptr_offset(%b, %m) : ptr<f32>[32]{LANES}
    %x = gpu.load(%d, _, _) {{vector = 1}} : f32[32]{LANES}
    %t = add(%s, %x) : f32[32]{LANES}
    continue([%t])
  }}
  gpu.store(%b, %r, _) {{vector = 1}}
  return()
}}
""",
        f"""
func @f(%p: ptr<f32> = "x".base, %n: i32 = "n".scalar) hints {{num_warps = 1}} {{
  %o = constant() {{value = 0, type = !i32}} : i32
  %l = constant() {{value = 1, type = !i32}} : i32
  %i = iota() {{type = !i32[32]{LANES}}} : i32[32]{LANES}
  %a = gpu.splat(%p) {{type = !ptr<f32>[32]{LANES}}} : ptr<f32>[32]{LANES}
  %b = ptr_offset(%a, %i) : ptr<f32>[32]{LANES}
  %z = constant() {{value = 0.0, type = !f32[32]{LANES}}} : f32[32]{LANES}
  %0 = cmp(%o, %n) {{predicate = CmpPredicate.LT}} : i1
  %m = gpu.splat(%o) {{type = !i32[32]{LANES}}} : i32[32]{LANES}
  %d = ptr_offset(%b, %m) : ptr<f32>[32]{LANES}
  %1 = gpu.splat(%0) {{type = !i1[32]{LANES}}} : i1[32]{LANES}
  %2 = gpu.load(%d, %1, _) : f32[32]{LANES}
  %r, %3 = for(%o, %n, %l, [%z, %2]) : f32[32]{LANES}, f32[32]{LANES} {{ ^(%k: i32, %s: f32[32]{LANES}, %4: f32[32]{LANES})
    %5 = sub(%n, %k) : i32
    %6 = cmp(%l, %5) {{predicate = CmpPredicate.LT}} : i1
    %7 = add(%k, %l) : i32
    %m_1 = gpu.splat(%7) {{type = !i32[32]{LANES}}} : i32[32]{LANES}
    %d_1 = ptr_offset(%b, %m_1) : ptr<f32>[32]{LANES}
    %8 = gpu.splat(%6) {{type = !i1[32]{LANES}}} : i1[32]{LANES}
    %9 = gpu.load(%d_1, %8, _) : f32[32]{LANES}
    %m_2 = gpu.splat(%k) {{type = !i32[32]{LANES}}} : i32[32]{LANES}
    %d_2 = ptr_offset(%b, %m_2) : ptr<f32>[32]{LANES}
    %t = add(%s, %4) : f32[32]{LANES}
    continue([%t, %9])
  }}
  gpu.store(%b, %r, _)
  return()
}}
""",
        settles=False,
    )


STATE = layout([[1, 0]], [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]])
ONE = layout([], [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]])


def test_vectors_that_change_a_state_are_loaded_for_four_iterations_while_four_run() -> None:
    """Iterations that are left load for themselves; the last four load theirs once more."""
    head = f"""
func @f(%p: ptr<f32> = "x".base, %n: i32 = "n".scalar) hints {{num_warps = 1}} {{
  %o = constant() {{value = 0, type = !i32}} : i32
  %l = constant() {{value = 2, type = !i32}} : i32
  %i = iota() {{type = !i32[1,32]{ONE}}} : i32[1,32]{ONE}
  %a = gpu.splat(%p) {{type = !ptr<f32>[1,32]{ONE}}} : ptr<f32>[1,32]{ONE}
  %b = ptr_offset(%a, %i) : ptr<f32>[1,32]{ONE}
  %z = constant() {{value = 0.0, type = !f32[2,32]{STATE}}} : f32[2,32]{STATE}"""
    vector, state = f"f32[1,32]{ONE}", f"f32[2,32]{STATE}"

    def address(name: str, at: str) -> str:
        return f"""
    %m{name} = gpu.splat(%{at}) {{type = !i32[1,32]{ONE}}} : i32[1,32]{ONE}
    %d{name} = ptr_offset(%b, %m{name}) : ptr<f32>[1,32]{ONE}"""

    def loads(name: str, first: str, exist: str | None) -> str:
        """Those of four iterations, perhaps if they ``exist``."""
        found = "".join(f"\n    %{name}{k} = add(%{first}, %c{k}) : i32" for k in (2, 4, 6))
        for k, at in enumerate((first, f"{name}2", f"{name}4", f"{name}6")):
            mask = f"""
    %e{name}_{k} = gpu.splat(%{exist}) {{type = !i1[1,32]{ONE}}} : i1[1,32]{ONE}"""
            found += f"""{address(f"{name}_{k}", at)}{mask if exist else ""}
    %x{name}_{k} = gpu.load(%d{name}_{k}, {f"%e{name}_{k}" if exist else "_"}, _) : {vector}"""
        return found

    def added(name: str, x: str, s: str) -> str:
        return f"""
    %y{name} = gpu.broadcast(%{x}) {{type = !{state}}} : {state}
    %t{name} = add(%{s}, %y{name}) : {state}"""

    one = f"""{address("", "k")}
    %x = gpu.load(%d, _, _) : {vector}{added("", "x", "s")}
    continue([%t])
  }}
  return()
}}
"""
    constants = "".join(f"\n  %c{k} = constant() {{value = {k}, type = !i32}} : i32" for k in (8, 2, 4, 6))
    steps = "".join(f"\n    %k{k} = add(%k, %c{k}) : i32" for k in (2, 4, 6))
    for k, (at, s) in enumerate((("k", "s"), ("k2", "t0"), ("k4", "t1"), ("k6", "t2"))):
        steps += address(f"s{k}", at) + added(f"{k}", f"w{k}", s)
    after = f"""{head}
  %length = sub(%n, %o) : i32
  %zero = constant() {{value = 0, type = !i32}} : i32
  %count = max(%length, %zero) : i32
  %mask = constant() {{value = -8, type = !i32}} : i32
  %whole = and(%count, %mask) : i32
  %last = add(%o, %whole) : i32{constants}
  %there = cmp(%o, %last) {{predicate = CmpPredicate.LT}} : i1{loads("f", "o", "there")}
  %q, %q0, %q1, %q2, %q3 = for(%o, %last, %c8, [%z, %xf_0, %xf_1, %xf_2, %xf_3]) : {state}{f", {vector}" * 4} {{
      ^(%k: i32, %s: {state}, %w0: {vector}, %w1: {vector}, %w2: {vector}, %w3: {vector})
    %left = sub(%last, %k) : i32
    %more = cmp(%c8, %left) {{predicate = CmpPredicate.LT}} : i1
    %next = add(%k, %c8) : i32
    %g = select(%more, %next, %k) : i32{loads("g", "g", None)}{steps}
    continue([%t3, %xg_0, %xg_1, %xg_2, %xg_3])
  }}
  %r = for(%last, %n, %l, [%q]) : {state} {{ ^(%k: i32, %s: {state}){one}"""
    before = f"{head}\n  %r = for(%o, %n, %l, [%z]) : {state} {{ ^(%k: i32, %s: {state}){one}"
    check(PrefetchLoads(), before, after, settles=False, names=False)
