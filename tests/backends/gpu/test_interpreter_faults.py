"""Each report of the interpreter is found in a program that has the fault, and not in the same one without it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.gpu_stage import Fault, InterpreterExecutable
from support.gpu_stage.shadow import Shadow
from support.gpu_text import flat, layout, line
from support.irbuild import launch_arguments

from tilewright.ir.location import Loc
from tilewright.ir.parser import parse_function

# Two warps, one element a thread, in order; and in reverse order of the bits.
ROW = layout(line(), line(1, 2, 4, 8, 16), line(32))
TURNED = layout(line(), line(32, 16, 8, 4, 2), line(1))
TWICE = layout(line(), line(1, 2, 4, 8, 16), line(0))  # 32 elements, in both warps
PAIRS = layout(line(1), line(2, 4, 8, 16, 32), line(0))

HEAD = f"""
func @f(%x: ptr<f32> = "x".base, %y: ptr<f32> = "y".base) hints {{num_warps = 2}} {{
  %px = gpu.splat(%x) {{type = !ptr<f32>[64]{ROW}}} : ptr<f32>[64]{ROW}
  %py = gpu.splat(%y) {{type = !ptr<f32>[64]{ROW}}} : ptr<f32>[64]{ROW}
  %i = iota() {{type = !i32[64]{ROW}}} : i32[64]{ROW}
  %qx = ptr_offset(%px, %i) : ptr<f32>[64]{ROW}
  %qy = ptr_offset(%py, %i) : ptr<f32>[64]{ROW}
"""
BUFFER = f"  %b = gpu.shared_alloc() {{type = !shared<f32[64]{flat(64)}>}} : shared<f32[64]{flat(64)}>\n"
LOAD_X = f"  %a = gpu.load(%qx, _, _) : f32[64]{ROW}\n"
STORE = "  gpu.shared_store(%b, %a)\n"
BARRIER = "  gpu.barrier()\n"
LOAD = f"  %c = gpu.shared_load(%b) {{type = !f32[64]{TURNED}}} : f32[64]{TURNED}\n"
BACK = f"  %d = gpu.convert_layout(%c) {{type = !f32[64]{ROW}}} : f32[64]{ROW}\n"
OUT = "  gpu.store(%qy, %d, _)\n"
COPY = "  gpu.async_copy(%b, %qx, _) {vector = 1}\n"
COMMIT = "  gpu.async_commit()\n"
WAIT = "  gpu.async_wait()\n"


def run(*parts: str, size: int = 64) -> dict[str, Any]:
    """The arrays after the program ran: x is 0, 1, 2, ...; y was zero. Each op has its line as location."""
    function = parse_function(HEAD + "".join(parts) + "  return()\n}\n")
    for number, op in enumerate(function.walk()):
        op.loc = Loc("program.gpu", number + 1)
    arrays = {"x": np.arange(64, dtype=np.float32)[:size], "y": np.zeros(64, np.float32)}
    InterpreterExecutable(function).launch((1, 1, 1), launch_arguments(function, arrays))
    return arrays


def fault(category: str, *parts: str, size: int = 64) -> str:
    with pytest.raises(Fault) as found:
        run(*parts, size=size)
    assert found.value.category == category
    assert found.value.loc is not None and found.value.loc.file == "program.gpu"
    return found.value.message


def test_through_shared_memory() -> None:
    arrays = run(BUFFER, LOAD_X, STORE, BARRIER, LOAD, BACK, OUT)
    assert (arrays["y"] == arrays["x"]).all()


def test_a_read_without_a_barrier_is_a_race() -> None:
    message = fault("race", BUFFER, LOAD_X, STORE, LOAD, BACK, OUT)
    assert message.startswith("race: gpu.shared_load where thread ")
    assert "wrote in gpu.shared_store at program.gpu:8:1 with no barrier between" in message


def test_a_write_after_a_read_is_a_race() -> None:
    again = "  gpu.shared_store(%b, %a)\n"
    fault("race", BUFFER, LOAD_X, STORE, BARRIER, LOAD, again)
    run(BUFFER, LOAD_X, STORE, BARRIER, LOAD, BARRIER, again)


def test_bytes_that_several_threads_read_at_once() -> None:
    """Also the one that read last races with the others when it writes."""
    (op,) = parse_function("func @f() {\n  return()\n}\n").walk()
    for writer in (0, 1):
        shadow = Shadow(4, "memory")
        shadow.read(op, np.array([[2], [2]]), np.array([0, 1]))
        with pytest.raises(Fault, match=f"thread {writer} writes byte 2 of memory, which other threads read in return"):
            shadow.write(op, np.array([[2]]), np.array([writer]))
        shadow.advance()
        shadow.write(op, np.array([[2]]), np.array([writer]))


def test_threads_that_store_the_same_element_differently() -> None:
    """The lanes of both warps hold each element; a shuffle makes one warp's differ from none, a wrong claim does."""
    claim = f"  %e = gpu.drop_bits(%a) {{axis = 0, bits = 32}} : f32[32]{TWICE}\n"  # as if the warps agreed
    message = fault("replicas disagree", LOAD_X, claim)
    assert "register 0 of thread 32 has 32.0 for element (0,), and another thread 0.0" in message


def test_shared_memory_that_nobody_wrote() -> None:
    fault("uninitialized shared memory", BUFFER, LOAD)


def test_shared_memory_that_something_else_overwrote() -> None:
    both = [
        f"  %{n} = gpu.shared_alloc() {{type = !shared<f32[64]{flat(64)}>, offset = {at}}} : shared<f32[64]{flat(64)}>\n"
        for n, at in (("b", 0), ("o", 128))
    ]
    other = "  gpu.shared_store(%o, %a)\n"
    message = fault("uninitialized shared memory", *both, LOAD_X, STORE, BARRIER, other, BARRIER, LOAD)
    assert "reads byte 128 of shared memory, where something else was written last" in message


def test_copies_are_read_when_they_have_arrived() -> None:
    arrays = run(BUFFER, COPY, COMMIT, WAIT, BARRIER, LOAD, BACK, OUT)
    assert (arrays["y"] == arrays["x"]).all()
    fault("read before arrival", BUFFER, COPY, COMMIT, BARRIER, LOAD)
    fault("read before arrival", BUFFER, COPY, WAIT, BARRIER, LOAD)  # not part of a group
    fault("read before arrival", BUFFER, COPY, COMMIT, "  gpu.async_wait() {pending = 1}\n", BARRIER, LOAD)
    fault("race", BUFFER, COPY, COMMIT, WAIT, LOAD)  # arrived, for the thread that waited


def test_barriers_that_cannot_complete() -> None:
    assert "for 32 threads, to which 64 of the CTA come" in fault("deadlock", "  gpu.barrier() {threads = 32}\n")
    run("  gpu.barrier() {threads = 64, id = 3}\n")


def test_global_memory_out_of_range() -> None:
    message = fault("out of range", LOAD_X, size=60)
    assert "load of 4 bytes outside argument 'x' (240 bytes): it reaches 4 bytes past its end" in message


def test_shared_memory_out_of_range() -> None:
    large = f"  %b = gpu.shared_alloc() {{type = !shared<f32[64]{flat(64)}>, offset = 232400}} : shared<f32[64]{flat(64)}>\n"
    assert "ends at byte 232656 of 232448 bytes" in fault("out of range", large)


def test_copies_of_a_buffer_out_of_range() -> None:
    many = f"  %m = gpu.shared_alloc() {{type = !shared<f32[64]{flat(64)},2>}} : shared<f32[64]{flat(64)},2>\n"
    for n in (1, 2):
        part = f"  %n = constant() {{value = {n}, type = !i32}} : i32\n  %b = gpu.shared_copy(%m, %n) : shared<f32[64]{flat(64)}>\n"
        if n == 2:
            assert "of copy 2 of 2" in fault("out of range", many, part)
        else:
            run(many, part, LOAD_X, STORE)


def test_races_in_global_memory() -> None:
    store = "  gpu.store(%qx, %c, _)\n"
    turned = (
        f"  %pt = gpu.splat(%x) {{type = !ptr<f32>[64]{TURNED}}} : ptr<f32>[64]{TURNED}\n"
        f"  %it = iota() {{type = !i32[64]{TURNED}}} : i32[64]{TURNED}\n"
        f"  %qt = ptr_offset(%pt, %it) : ptr<f32>[64]{TURNED}\n"
        f"  %c = gpu.load(%qt, _, _) : f32[64]{TURNED}\n"
    )
    store = f"  %k = constant() {{value = 1.0, type = !f32[64]{ROW}}} : f32[64]{ROW}\n  gpu.store(%qx, %k, _)\n"
    assert "of the memory of x" in fault("race", store, turned)
    run(store, BARRIER, turned)


@pytest.mark.parametrize(("divisor", "wrong"), [(1, False), (2, True)])
def test_vectors_are_aligned(divisor: int, wrong: bool) -> None:
    """Two elements a thread from address 0 on, or from 4 on."""
    first = f"  %o = constant() {{value = {divisor - 1}, type = !i32}} : i32\n  %z = ptr_offset(%x, %o) : ptr<f32>\n"
    pairs = (
        f"  %p2 = gpu.splat(%z) {{type = !ptr<f32>[64]{PAIRS}}} : ptr<f32>[64]{PAIRS}\n"
        f"  %i2 = iota() {{type = !i32[64]{PAIRS}}} : i32[64]{PAIRS}\n"
        f"  %q2 = ptr_offset(%p2, %i2) : ptr<f32>[64]{PAIRS}\n"
    )
    even = f"  %c2 = constant() {{value = 62, type = !i32[64]{PAIRS}}} : i32[64]{PAIRS}\n  %m2 = cmp(%i2, %c2) {{predicate = CmpPredicate.LT}} : i1[64]{PAIRS}\n"
    load = f"  %l2 = gpu.load(%q2, %m2, _) {{vector = 2}} : f32[64]{PAIRS}\n"
    if wrong:
        assert "of 2 elements is not of consecutive, aligned addresses" in fault(
            "misaligned vector", first, pairs, even, load
        )
    else:
        run(first, pairs, even, load)
        odd = even.replace("value = 62", "value = 61")
        assert "has a mask of both values in thread 30" in fault("misaligned vector", first, pairs, odd, load)


# -- a product whose warps have different work


ROLES = (Path(__file__).parents[2] / "ir" / "wgmma_roles.tir").read_text()
# Over eight steps, in four slots: each is used twice.
_ENDS = "|".join(re.findall(r"for\(%\w+, (%\w+),", ROLES))
EIGHT = re.sub(rf"((?:{_ENDS}) = constant\(\) \{{value = )4,", r"\g<1>8,", ROLES)


def multiply(program: str) -> float:
    """How much the sums differ from the right ones."""
    a, b = (np.arange(n * 128).reshape(n, 128).astype(np.float16) % 7 - 3 for n in (128, 64))
    function, c = parse_function(program), np.zeros((128, 64), np.float32)
    InterpreterExecutable(function).launch((1, 1, 1), launch_arguments(function, {"a": a, "b": b, "c": c}))
    return float(abs(c - a.astype(np.float32) @ b.astype(np.float32).T).max())


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (
            "{pending = 1} : f32[128,64]",
            "{pending = 4} : f32[128,64]",
            "which a copy or an MMA op in flight is reading",
        ),
        (
            "offset = 57344",
            "offset = 32768",
            "gpu.mbarrier_expect reads byte 32776 of shared memory, where nothing was written",
        ),
        ("%8) {count = 2}", "%8) {count = 3}", "deadlock: gpu.mbarrier_wait of a phase that is never complete"),
        ("offset = 49152", "offset = 32768", "to which a copy at <unknown>:0:1 is under way"),
        ("%33 = constant() {value = 4", "%33 = constant() {value = 5", "gpu.shared_copy of copy 4 of 4"),
    ],
    ids=["slots given back in flight", "barriers among data", "arrivals", "buffers in one place", "slots"],
)
def test_warps_with_different_work(right: str, wrong: str, said: str) -> None:
    assert EIGHT.count(right) == 1
    with pytest.raises(Fault, match=re.escape(said)):
        multiply(EIGHT.replace(right, wrong))


def test_warps_with_different_work_that_wait_for_each_other() -> None:
    assert multiply(EIGHT) == 0
