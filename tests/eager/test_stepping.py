"""The backend ``python``: the source of kernels as plain Python."""

from __future__ import annotations

import contextlib
import gc
import io
import pdb
import sys
import threading
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.eager import blocks
from tilewright.eager.backend import DebugDriver, debugged_by


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_BACKEND", "python")


def ints(n: int) -> np.ndarray:
    return np.zeros(n, np.int32)


@ct.function
def helper(x, n):
    total = x * 0
    for i in range(n):
        if i % 2 == 0 and not i == 4:  # noqa: SIM201
            total += x.astype(ct.int16) * i.astype(ct.int16)
    return total


@dataclass(frozen=True)
class Pair:
    left: Any
    right: Any

    def __add__(self, other: Any) -> Any:
        return Pair(self.left + other, self.right - other)


@contextlib.contextmanager
def scaled(x):
    doubled = x * 2
    yield doubled
    ct.assert_(doubled == x + x)


@ct.kernel
def everything(arrays, pair, out, N: ct.Constant[int], wide: ct.ScalarInt64):
    index = ct.bid(0)
    x = ct.load(arrays[index], (0,), (N,))
    both = Pair(x, x) + pair[0]
    with scaled(both.left) as y:
        y = ct.static_eval(y)
        for i in ct.static_iter(range(max(N // 8, 2))):
            ct.static_assert(ct.static_eval(isinstance(i, int)))
            y = y + i
    last = max(index, 1) if wide > 1 << 40 else min(index, 0)
    k = 0
    while True:
        k += 1
        if k > 3:
            break
    ct.store(out, (index,), helper(y.astype(ct.int16), 6 + last).astype(ct.int32) + k + len(arrays))


def test_it_computes_what_compiled_kernels_do() -> None:
    arrays = [np.arange(8, dtype=np.int32) * s for s in (1, 2, 3)]
    found = {}
    for backend in ("python", "cpu", "reference"):
        found[backend] = out = ints(24)
        ct.launch(None, (3,), everything, (arrays, (5, 2.0), out, 8, 1 << 41), backend=backend)
    np.testing.assert_array_equal(found["python"], found["cpu"])
    np.testing.assert_array_equal(found["python"], found["reference"])
    assert found["cpu"].any()


@ct.kernel
def printing(x):
    tile = ct.load(x, (0,), (4,))
    print("tile", tile, (tile, 1.5), Pair(ct.bid(0), "a"), f"{tile:5.1f}|{ct.bid(0)}", str(ct.bid(1)), sep=";")
    ct.printf("%5.2f %d\n", tile, ct.bid(0))


def test_it_prints_what_compiled_kernels_do(capfd: pytest.CaptureFixture[str]) -> None:
    texts = []
    for backend in ("python", "cpu"):
        ct.launch(None, (2,), printing, (np.arange(4, dtype=np.float32) / 3,), backend=backend)
        sys.stdout.flush()
        texts.append(capfd.readouterr().out)
    assert "tile;[0.000000" in texts[0] and sorted(texts[0].splitlines()) == sorted(texts[1].splitlines())


@ct.kernel
def stopping(x):
    index = ct.bid(0)
    tile = ct.load(x, (index,), (4,)) + 1
    breakpoint()
    ct.store(x, (index,), tile * 2)


def test_breakpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = io.StringIO("p tile\nn\np index\nc\nw\nc\n")
    shown = io.StringIO()
    monkeypatch.setattr(
        sys, "breakpointhook", lambda: pdb.Pdb(stdin=commands, stdout=shown).set_trace(sys._getframe(1))
    )
    x = ints(8)
    ct.launch(None, (2,), stopping, (x,))
    np.testing.assert_array_equal(x, [2] * 8)
    text = shown.getvalue()
    assert "Tile([1, 1, 1, 1], dtype=int32)" in text and "Tile(0, dtype=int32)" in text
    assert f"> {__file__}({stopping.function.__code__.co_firstlineno + 5})stopping()" in text


def test_lines_are_those_of_the_source() -> None:
    """What debuggers and coverage see: the lines of kernel and helper, in the order in which Python runs them."""
    seen: list[tuple[str, int]] = []

    def trace(frame: types.FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != __file__:
            return None
        if event == "line":
            seen.append((frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno))
        return trace

    arrays = [np.arange(8, dtype=np.int32)]
    outer = sys.gettrace()
    sys.settrace(trace)
    try:
        ct.launch(None, (1,), everything, (arrays, (5, 2.0), ints(8), 8, 0))
    finally:
        sys.settrace(outer)
    first = everything.function.__code__.co_firstlineno
    body = [line for name, line in seen if name == "everything"]
    start = body[0]
    assert body[:4] == [start, start + 1, start + 2, start + 3] and {n for n, _ in seen} >= {
        "everything",
        "helper",
        "scaled",
        "__add__",
    }
    assert first > 0 and len([line for name, line in seen if name == "helper"]) == 1 + 1 + 6 * 2 + 2 + 1


def test_a_stepper_chooses_blocks_and_calls_them() -> None:
    class Last(DebugDriver):
        calls = 0

        def blocks(self, function: Any, grid: Any) -> Any:
            return [(grid[0] - 1, 0, 0)] if function is everything.function else super().blocks(function, grid)

        def call(self, function: Any, code: Any, arguments: tuple[Any, ...]) -> Any:
            self.calls += 1
            return super().call(function, code, arguments)

    arrays, out, last = [np.ones(8, np.int32)] * 3, ints(24), Last()
    with debugged_by(last):
        ct.launch(None, (3,), everything, (arrays, (5, 2.0), out, 8, 0))
    assert out[16:].all() and not out[:16].any() and last.calls == 1


@ct.kernel
def chain(flags, out):
    """Block i waits for block i + 1."""
    index = ct.bid(0)
    order = ct.MemoryOrder.ACQUIRE
    while ct.atomic_cas(flags, index + 1, 1, 1, memory_order=order) == 0:
        pass
    value = ct.gather(out, index + 1) + 1
    ct.scatter(out, index, value)
    ct.atomic_xchg(flags, index, 1, memory_order=ct.MemoryOrder.RELEASE)


def test_blocks_wait_for_later_ones() -> None:
    flags, out = ints(7), ints(7)
    flags[6] = 1
    ct.launch(None, (6,), chain, (flags, out))
    np.testing.assert_array_equal(out, [6, 5, 4, 3, 2, 1, 0])


def test_deadlock_is_reported_and_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "HANDOVER", 1)
    before = threading.active_count()
    with pytest.raises(ct.TileError, match=r"deadlock.*block \(0, 0, 0\) at .*test_stepping.py"):
        ct.launch(None, (3,), chain, (ints(7), ints(7)))
    assert threading.active_count() == before


@ct.kernel
def failing(x):
    for i in range(3):
        checked(ct.load(x, (i,), (4,), check_bounds=False), i)


def checked(tile, i):
    ct.assert_(tile + i < 2, "too large")


def test_errors_name_place_block_and_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "breakpointhook", lambda: None)
    with pytest.raises(ct.TileError) as caught:
        ct.launch(None, (1,), failing, (ints(12),))
    error, loc = caught.value, caught.value.loc
    assert error.message == "assertion failed: too large, in block (0, 0, 0)"
    assert loc is not None and loc.function == "checked" and loc.caller is not None and loc.caller.function == "failing"
    assert "ct.assert_(tile + i < 2" in str(error) and "checked(ct.load" in str(error)
    names = [entry.name for entry in caught.traceback]
    assert names.index("failing") < names.index("checked")
    read_only = ints(12)
    read_only.flags.writeable = False
    with pytest.raises((ct.TileError, ValueError), match="read-only"):
        ct.launch(None, (2,), stopping, (read_only,))
    with pytest.raises(ct.TileTypeError, match="pass it as an argument"):
        ct.launch(None, (1,), uses_host_array, (read_only,))


HOST = ints(4)


@ct.kernel
def uses_host_array(x):
    ct.store(x, (0,), ct.load(HOST, (0,), (4,)))


def test_exceptions_of_the_program_pass_through() -> None:
    @ct.kernel
    def wrong(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ct.launch(None, (4,), wrong, (ints(4),))

    @ct.kernel
    def static(x):
        if x.ndim == 1:
            raise ct.static_exception(ValueError("rank 1"))

    with pytest.raises(ct.StaticException, match="ValueError: rank 1"):
        ct.launch(None, (1,), static, (ints(4),))


def test_closures_and_methods() -> None:
    offset = 3

    @ct.kernel
    def closing(out):
        scale = 2

        def inner(i):
            return i * scale + offset

        def twice(f, i):
            return f(f(i))

        ct.store(out, (ct.bid(0),), twice(inner, ct.bid(0)) + (lambda v: v - 1)(0))

    out = ints(4)
    ct.launch(None, (4,), closing, (out,))
    np.testing.assert_array_equal(out, [8, 12, 16, 20])


def factorial(n: int) -> int:
    return 1 if n < 2 else n * factorial(n - 1)


def is_even(n: int) -> bool:
    later = lambda: is_odd(n - 1)
    return n == 0 or later()


def is_odd(n: int) -> bool:
    return n != 0 and is_even(n - 1)


def test_recursion() -> None:
    @ct.kernel
    def kernel(out):
        def doubled(n):
            return 0 if n == 0 else 2 + doubled(n - 1)

        ct.store(out, (0,), factorial(5) + doubled(3))
        ct.store(out, (1,), 1 if is_even(4) and is_odd(3) else 0)

    out = np.zeros(2, np.int32)
    ct.launch(None, (1,), kernel, (out,), backend="python")
    assert out.tolist() == [126, 1]


def test_step_goes_from_a_call_to_the_function() -> None:
    """Nothing of this package lies between a kernel and the functions that it calls."""
    seen: list[str] = []

    def trace(frame: types.FrameType, event: str, argument: Any) -> Any:
        seen.append(frame.f_code.co_name)
        return trace

    @ct.kernel
    def calling(x):
        plain(1)

    sys.settrace(trace)
    try:
        ct.launch(None, (1,), calling, (ints(4),))
    finally:
        sys.settrace(None)
    assert seen[seen.index("calling") + 1] == "calling"  # the line of the call
    assert "plain" in seen and seen[seen.index("plain") - 1] == "calling"


def plain(x):
    return x + 1


def test_what_kernels_define_is_not_kept() -> None:
    made: list[int] = []
    freed: list[int] = []

    class Witness:
        def __init__(self) -> None:
            made.append(1)

        def __del__(self) -> None:
            freed.append(1)

    @ct.kernel
    def defining(x):
        witness = ct.static_eval(Witness())

        def inner(a, b):
            return a + b + (0 if witness is not None else 1)

        ct.store(x, (0,), ct.reduce(ct.load(x, (0,), (4,)), 0, inner, 0))

    ct.launch(None, (3,), defining, (ints(4),))
    gc.collect()
    assert len(freed) == len(made) >= 3


def either(n):
    for i in range(n):
        if i == 2:
            return 0.1
    if n == 1:
        return 0.3
    return 0.7


def chosen(n, y):
    if n > 2:
        factor = 0.1
    else:
        factor = 0.3
    return y * factor + (0.7 if n > 5 else 0.2)


@ct.kernel
def joining(x, out, n):
    """Numbers that differ where paths meet are scalars of int32 and float32 from there on."""
    total, product, seed, found = 0.0, 1.0, 42, 0
    for i in range(n):
        part = ct.load(x, (i,), (8,))
        total += ct.sum(part)
        product = product * 1.1
        seed = (seed * 1103515245 + 12345) >> 3
        if i == 3:
            found = 7
    k = 0.1
    while k < 2:
        k = k * 1.7
    half = 0.5
    if n > 100:
        half = 0.25
    y = ct.load(x, (0,), (8,))
    ct.store(out, (0,), total)
    ct.store(out, (1,), product)
    ct.store(out, (2,), seed)
    ct.store(out, (3,), ct.sum(y * half) + found * 0.1)
    ct.store(out, (4,), ct.sum(chosen(n, y)))
    ct.store(out, (5,), ct.sum(y * k))
    ct.store(out, (6,), ct.sum(y * either(n)))


@pytest.mark.parametrize("n", [1, 4, 8])
def test_numbers_become_scalars_as_in_compiled_code(n: int) -> None:
    x = np.random.default_rng(5).random(64).astype(np.float16)
    found = []
    for backend in ("python", "reference", "cpu"):
        out = np.zeros(7)
        ct.launch(None, (1,), joining, (x, out, n), backend=backend)
        found.append(out)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@ct.kernel
def joining_with_breakpoint(x, out, n):
    total = 0.0
    for i in range(n):
        total += ct.sum(ct.load(x, (i,), (8,)))
        breakpoint()
    ct.store(out, (0,), total)


def test_numbers_become_scalars_also_beside_breakpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[str] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: kinds.append(str(sys._getframe(1).f_locals["total"].dtype)))
    ct.launch(None, (1,), joining_with_breakpoint, (np.ones(64, np.float16), np.zeros(1), 3))
    assert kinds == ["float32"] * 3
    with pytest.raises(ct.TileError, match="compiled code has no breakpoint"):
        ct.launch(None, (1,), joining_with_breakpoint, (np.ones(64, np.float16), np.zeros(1), 3), backend="cpu")
